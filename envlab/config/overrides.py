"""Hydra's override grammar (``env.scene.num_envs=64``) over dataclass configs.

Hydra parses, and OmegaConf resolves ``${...}`` where there is any; nothing else of Hydra is used:
no output folder, no change of logging, no global state, and exceptions of the user's program pass
unchanged. Overrides become plain values of the fields that they change, and of no others, which
:func:`envlab.config.merge` lays over the configs. Keys are checked first and types by ``merge``, so
that each mistake is reported in one sentence.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING
from typing import TYPE_CHECKING, Any

from envlab.config._messages import unknown_key
from envlab.config.decoding import ABSENT, merge
from envlab.config.encoding import children, encode, is_group, leaves, paths, to_dict
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import Override
else:
    Override = Any  # importing Hydra takes 0.15 s, which commands without overrides avoid

_EXAMPLE = "env.scene.num_envs=64"


def parse_overrides(words: Iterable[str | Override]) -> list[Override]:
    """Parse overrides that are not parsed yet.

    Raises:
        ConfigurationError: An override is malformed.
    """
    words = list(words)
    if all(not isinstance(word, str) for word in words):
        return words  # type: ignore[return-value]  # and Hydra's parser need not be imported
    from hydra.core.override_parser.overrides_parser import OverridesParser

    parser = OverridesParser.create()
    return [_parsed(word, parser) if isinstance(word, str) else word for word in words]


def compose(roots: Mapping[str, object], overrides: Iterable[str | Override]) -> dict[str, Any]:
    """Return new configs: ``roots`` with ``overrides`` applied.

    Args:
        roots: Configs by the name that starts their paths, such as ``{"env": …, "agent": …}``.
            A root is a dataclass instance, or a dict, whose values then keep their types.
        overrides: Parsed, or ``key=value`` in Hydra's grammar. ``+`` adds to a free-form dict,
            ``++`` adds or sets, ``~`` removes a term or a key of a free-form dict, ``${env.seed}``
            refers.

    Raises:
        ConfigurationError: An override is malformed, names what does not exist, sweeps over several
            values, or gives a value of the wrong type.
    """
    changes: dict[str, Any] = {}
    for override in parse_overrides(overrides):
        _check(override, roots)
        _apply(override, changes, roots)
    if _refers(changes) or _refers(roots):
        changes = _resolved(changes, roots)
    for name, cfg in roots.items():
        changes.setdefault(name, {} if is_group(cfg) else to_dict(cfg, name))
    # In the order of the overrides, so that of several mistakes the first is named.
    new = dict.fromkeys(roots)
    for name, one in changes.items():
        new[name] = merge(roots[name], one, name, given_keys=True)
    return new


def expand_sweep(overrides: Sequence[Override]) -> list[list[Override]]:
    """Return the overrides of every run of a sweep (``-m``), in the order of Hydra's basic sweeper.

    ``a,b``, ``choice(…)`` and ``range(…)`` are multiplied out, the last one changing fastest;
    overrides with one value are the same in every run.

    Raises:
        ConfigurationError: An override sweeps over an interval or a glob, which have no list of
            values.
    """
    from hydra.core.override_parser.types import Glob

    choices = []
    for override in overrides:
        if override.is_interval_sweep() or isinstance(override.value(), Glob):
            raise ConfigurationError(
                f"Override '{override.input_line}' cannot be swept, because it lists no values. "
                "Use a,b,c or range(start,stop,step)."
            )
        if override.is_sweep_override():
            key = override.get_key_element()
            values = override.sweep_string_iterator()
            choices.append(parse_overrides(f"{key}={value}" for value in values))
        else:
            choices.append([override])
    return [list(run) for run in itertools.product(*choices)]


def overrides_of(root: str, overrides: Sequence[Override]) -> list[Override]:
    """Return the overrides of one root, such as ``env``."""
    return [override for override in overrides if override.key_or_group.partition(".")[0] == root]


def texts_of(overrides: Sequence[Override]) -> frozenset[str]:
    """Return all texts among the values of overrides, including those in lists and dictionaries."""
    values = [override.value() for override in overrides if not override.is_delete()]
    return frozenset(str(text) for value in values for _, text in leaves(value, ""))


def sets_value(overrides: Sequence[Override], path: str) -> bool:
    """Return whether overrides set the value at a path, even to the value that it had."""
    return any(
        _holds(override.value(), path.removeprefix(override.key_or_group).split(".")[1:])
        for override in overrides
        if f"{path}.".startswith(f"{override.key_or_group}.")
    )


def _holds(value: Any, names: Sequence[str]) -> bool:
    """Return whether a value contains this path of names; a dictionary is merged, not assigned."""
    if not (names and isinstance(value, dict)):
        return True
    return names[0] in value and _holds(value[names[0]], names[1:])


def _parsed(text: str, parser: OverridesParser) -> Override:
    """Parse an override, or report what is wrong with it in one sentence."""
    from hydra.errors import HydraException

    problem = ""
    try:
        parsed = parser.parse_override(text)
    except HydraException as error:
        problem = _first_line(error)
        if "=" not in text and not text.startswith("~"):
            problem = "'=' is missing"
    else:
        if not parsed.key_or_group:
            problem = "the key is missing"
    if problem:
        raise ConfigurationError(
            f"Override '{text}' is malformed: {problem}. Write key=value, such as {_EXAMPLE}."
        )
    return parsed


def _check(override: Override, roots: Mapping[str, object]) -> None:
    """Refuse a sweep, a key that does not exist, and invalid additions and removals."""
    text, key = override.input_line, override.key_or_group
    if override.is_sweep_override():
        raise ConfigurationError(
            f"Override '{text}' sweeps over several values, but this is one run. "
            "Pass -m (--multirun) to run each of them, or write a list as [a,b]."
        )
    if override.package is not None or "/" in key:  # Hydra's config groups, which do not exist here
        raise _unknown(override, override.get_key_element().lstrip("+~"), roots)
    path, found = _find(roots, key)
    holder = _find(roots, key.rpartition(".")[0])[1]
    adds = override.is_add() or override.is_force_add()
    is_free = isinstance(found, Mapping) and found is not roots
    if path != key and found is None:
        raise ConfigurationError(
            f"Override '{text}' has nothing to change: '{path}' is null. "
            f"Give it whole, as {path}={{{key.removeprefix(f'{path}.')}: ...}}."
        )
    if path != key and not (adds and is_free):
        raise _unknown(override, key, roots)
    value = override.value()
    if path == key and override.is_add() and found is not None and not isinstance(value, dict):
        raise ConfigurationError(
            f"Override '{text}' cannot add '{key}', because it already exists. Write {key}=... "
            "to change it."
        )
    if override.is_delete() and isinstance(holder, list | tuple):
        raise ConfigurationError(
            f"Override '{text}' removes one element of a list. Give the list whole, as "
            f"{key.rpartition('.')[0]}=[...]."
        )
    if not adds:
        for unknown in _unknown_below(found, value, key):
            raise _unknown(override, unknown, roots)


def _unknown_below(node: object, value: Any, path: str) -> Iterator[str]:
    """Yield the keys of a dict value (``env.sim={dt: 0.01}``) that the node does not have."""
    if not isinstance(value, dict) or not (is_group(node) or isinstance(node, Mapping)):
        return
    below = children(node)
    for name, inner in value.items():
        if str(name) in below:
            yield from _unknown_below(below[str(name)], inner, f"{path}.{name}")
        else:
            yield f"{path}.{name}"


def _unknown(override: Override, key: str, roots: Mapping[str, object]) -> ConfigurationError:
    """Return the error for a key that does not exist, with the nearest existing key."""
    holder, node = _find(roots, key)
    candidates = [path for name, cfg in roots.items() for path in paths(cfg, name)]
    hint = ""
    if isinstance(node, Mapping) and node is not roots and not override.is_delete():
        hint = f" To add a new key, write +{key}=..."
    return ConfigurationError(
        f"Override '{override.input_line}' cannot be applied. "
        f"{unknown_key(key, holder, node, candidates)}{hint}"
    )


def _apply(override: Override, changes: dict[str, Any], roots: Mapping[str, object]) -> None:
    """Add an override to plain values; a removed term of a dataclass becomes null.

    Of a dataclass, ``changes`` has only what overrides change; dictionaries and lists are whole.
    """
    key = override.key_or_group
    first, *names = key.split(".")
    holder, node, name = changes, roots[first], first
    for below in names:
        inside = _content(holder, name, override)
        if not isinstance(inside, dict | list):
            inside = _start(node, key)
            inside = {} if inside is ABSENT else inside
            _put(holder, name, inside)
        holder, node, name = inside, _field(node, below), below
    if not override.is_delete():
        present = _content(holder, name, override)
        _put(holder, name, _merged(node, present, override.value(), key))
    elif names and isinstance(_find(roots, key.rpartition(".")[0])[1], Mapping):
        holder.pop(name, None)
    else:
        _put(holder, name, None)


def _field(node: object, name: str) -> object:
    """Return a dataclass's field; ABSENT of others, which ``changes`` has whole."""
    return getattr(node, name, ABSENT) if is_group(node) else ABSENT


def _start(node: object, path: str) -> Any:
    """Return what ``changes`` has of a node before it is changed; ABSENT if that is nothing."""
    if is_group(node):
        return {}
    return encode(node, path) if isinstance(node, Mapping | list | tuple) else ABSENT


def _content(holder: Any, name: str, override: Override) -> Any:
    if isinstance(holder, dict):
        return holder.get(name, ABSENT)
    try:
        return holder[int(name)]
    except (IndexError, ValueError):  # an earlier override has made the list shorter
        raise ConfigurationError(
            f"Override '{override.input_line}' cannot be applied, because an earlier override "
            f"leaves the list {len(holder)} elements. Correct or leave out one of them."
        ) from None


def _put(holder: Any, name: str, value: Any) -> None:
    holder[name if isinstance(holder, dict) else int(name)] = value


def _merged(node: object, present: Any, value: Any, path: str) -> Any:
    """Return a value, or if both are dictionaries, the present one with the value's keys."""
    present = _start(node, path) if present is ABSENT else present
    if not (isinstance(value, dict) and isinstance(present, dict)):
        return value
    inner = {
        key: _merged(_field(node, str(key)), present.get(key, ABSENT), one, f"{path}.{key}")
        for key, one in value.items()
    }
    return {**present, **inner}


def _refers(node: object) -> bool:
    """Return whether a text below a node contains ``${``."""
    containers = [node]
    while containers:
        for value in children(containers.pop()).values():
            if isinstance(value, str):
                if "${" in value:
                    return True
            elif not isinstance(value, bool | int | float | None):
                containers.append(value)
    return False


def _resolved(changes: Mapping[str, Any], roots: Mapping[str, object]) -> dict[str, Any]:
    """Return the whole configs with changes as plain values without references.

    Raises:
        ConfigurationError: A reference leads nowhere, or in a circle.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    whole = {name: _laid(cfg, changes.get(name, ABSENT), name) for name, cfg in roots.items()}
    try:
        resolved: Any = OmegaConf.to_container(OmegaConf.create(whole), resolve=True)
    except OmegaConfBaseException as error:
        where = f" at {error.full_key}" if error.full_key else ""
        raise ConfigurationError(
            f"The overrides cannot be applied{where}: {_first_line(error)}. "
            "Correct or leave out the one that this names."
        ) from None
    return dict(resolved)


def _laid(node: object, change: Any, path: str) -> Any:
    """Return a node as plain values, with the changes of its fields."""
    if change is ABSENT:
        return encode(node, path)
    if not (is_group(node) and isinstance(change, dict)):
        return change
    below = {name: child for name, child in children(node).items() if child is not MISSING}
    laid = {
        name: _laid(child, change.get(name, ABSENT), f"{path}.{name}")
        for name, child in below.items()
    }
    return {**change, **laid}


def _find(roots: Mapping[str, object], key: str) -> tuple[str, object]:
    """Return the existing part of a dotted path, and its node; for ``""``, the roots."""
    node: object = roots
    names = key.split(".")
    for depth, name in enumerate(names):
        below = children(node)
        if name not in below:
            return ".".join(names[:depth]), node
        node = below[name]
    return key, node


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
