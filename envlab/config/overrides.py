"""Hydra's override grammar (``env.scene.num_envs=64``) over dataclass configs.

Hydra parses, composes and resolves through its compose API, without its decorator: no output
folder, no change of logging, and an exception of the user's program stays the user's. Keys are
checked here before, and types after, so that each mistake is one sentence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from envlab.config.codec import merge, to_dict
from envlab.config.messages import instead_of_derived, is_derived, suggestion, wrong_type
from envlab.config.tree import children, is_group, paths
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

_STORE_NAME = "envlab_composition"
_EXAMPLE = "env.scene.num_envs=64"


def compose(roots: Mapping[str, object], overrides: Sequence[str]) -> dict[str, Any]:
    """Return new configs: ``roots`` with ``overrides`` applied.

    Args:
        roots: Configs by the name that starts their paths, such as ``{"env": …, "agent": …}``.
            A root is a dataclass instance, or a dict, whose values then keep their types.
        overrides: ``key=value`` in Hydra's grammar. ``+`` adds to a free-form dict, ``++`` adds or
            sets, ``~`` removes a term or a key of a free-form dict, ``${env.seed}`` refers.

    Raises:
        ConfigurationError: An override is malformed, names what does not exist, sweeps over several
            values, or gives a value of the wrong type.
    """
    parsed = _parse(overrides)
    for override in parsed:
        _check(override, roots)
    plain = {name: to_dict(cfg, name) for name, cfg in roots.items()}
    composed = _compose_with_hydra(plain, [o for p in parsed for o in _for_hydra(p, roots)])
    for override in parsed:
        _null_removed(override, roots, composed)
    return {name: merge(cfg, composed[name], name, given_keys=True) for name, cfg in roots.items()}


def expand_sweep(overrides: Sequence[str]) -> list[list[str]]:
    """Return the overrides of every run of a sweep (``-m``), in the order of Hydra's basic sweeper.

    ``a,b``, ``choice(…)`` and ``range(…)`` are multiplied out, the last one changing fastest;
    overrides with one value are the same in every run.

    Raises:
        ConfigurationError: An override is malformed, or sweeps over an interval or a glob, which
            have no list of values.
    """
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.types import Glob

    parsed = _parse(overrides)
    for override in parsed:
        if override.is_interval_sweep() or isinstance(override.value(), Glob):
            raise ConfigurationError(
                f"Override '{override.input_line}' cannot be swept, because it lists no values. "
                "Use a,b,c or range(start,stop,step)."
            )
    # The sweeper rewrites every override ("${x}" becomes "$\{x\}"); give back the user's own text.
    own_text = {
        f"{override.get_key_element()}={override.get_value_element_as_str()}": override.input_line
        for override in parsed
        if not override.is_sweep_override()
    }
    (runs,) = BasicSweeper.split_arguments(parsed, max_batch_size=None)
    return [[own_text.get(text) or text for text in run] for run in runs]


def _parse(overrides: Sequence[str]) -> list[Override]:
    """Parse every override, or say in one sentence what is wrong with it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    parser = OverridesParser.create()
    parsed = []
    for text in overrides:
        try:
            override = parser.parse_override(text)
        except HydraException as error:
            raise _malformed(text, _first_line(error)) from None
        if not override.key_or_group:
            raise _malformed(text, "the key is missing")
        parsed.append(override)
    return parsed


def _malformed(text: str, reason: str) -> ConfigurationError:
    if "=" not in text and not text.startswith("~"):
        reason = "'=' is missing"
    return ConfigurationError(
        f"Override '{text}' is malformed: {reason}. Write key=value, such as {_EXAMPLE}."
    )


def _check(override: Override, roots: Mapping[str, object]) -> None:
    """Refuse a sweep, and a key that does not exist."""
    if override.is_sweep_override():
        raise ConfigurationError(
            f"Override '{override.input_line}' sweeps over several values, but this is one run. "
            "Pass -m (--multirun) to run each of them, or write a list as [a,b]."
        )
    _check_key(override, roots)
    key, value = override.key_or_group, override.value()
    if override.is_delete():
        _check_removable(override, roots)
        return
    node = _find(roots, key)
    # Hydra refuses to merge a list and a dict, in its own words.
    if isinstance(value, list) and (is_group(node) or isinstance(node, Mapping)):
        raise wrong_type(type(node), key, value, node)
    if isinstance(value, dict) and isinstance(node, list | tuple):
        raise wrong_type(type(node), key, value, node)
    if not override.is_add() and not override.is_force_add():
        for unknown in _unknown_below(node, value, key):
            raise _unknown(override, unknown, roots)


def _check_removable(override: Override, roots: Mapping[str, object]) -> None:
    holder = override.key_or_group.rpartition(".")[0]
    if holder and isinstance(_find(roots, holder), list | tuple):
        raise ConfigurationError(
            f"Override '{override.input_line}' removes one element of a list. "
            f"Give the list whole, as {holder}=[...]."
        )


def _check_key(override: Override, roots: Mapping[str, object]) -> None:
    key = override.key_or_group
    if override.package is not None or "/" in key:
        raise _unknown(override, override.get_key_element().lstrip("+~"), roots)
    node: object = roots
    for depth, name in enumerate(names := key.split(".")):
        below = children(node)
        if name in below:
            node = below[name]
            continue
        adds = override.is_add() or override.is_force_add()
        if adds and isinstance(node, Mapping) and node is not roots:
            return
        if node is None:
            holder = ".".join(names[:depth])
            raise ConfigurationError(
                f"Override '{override.input_line}' has nothing to change: '{holder}' is null. "
                f"Give it whole, as {holder}={{{'.'.join(names[depth:])}: ...}}."
            )
        raise _unknown(override, key, roots)


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
    """Return the error for a key that does not exist, with the nearest one that does."""
    message = f"Unknown override '{override.input_line}': there is no '{key}'."
    holder, _, name = key.rpartition(".")
    node = _find(roots, holder) if holder else roots
    if is_derived(node, name):
        return ConfigurationError(
            f"Override '{override.input_line}' cannot be applied: {key} is derived from other "
            f"settings. {instead_of_derived(node, holder, name)}"
        )
    valid = [path for root, cfg in roots.items() for path in paths(cfg, root)]
    hint = suggestion(key, valid) or f" Paths start with {' or '.join(roots)}."
    if isinstance(node, Mapping) and node is not roots and not override.is_delete():
        hint += f" To add a new key, write +{key}=..."
    return ConfigurationError(message + hint)


def _find(roots: Mapping[str, object], key: str) -> object:
    """Return the node at a dotted path, ``None`` if there is none."""
    node: object = roots
    for name in key.split("."):
        node = children(node).get(name)
    return node


def _for_hydra(override: Override, roots: Mapping[str, object]) -> list[str]:
    """Return an override as Hydra takes it: it does not remove a null, so set it to 0 before."""
    text = str(override.input_line)
    if override.is_delete() and _find(roots, override.key_or_group) is None:
        return [f"++{override.key_or_group}=0", text]
    return [text]


def _compose_with_hydra(plain: Mapping[str, Any], overrides: list[str]) -> dict[str, Any]:
    """Return plain data with the overrides applied and ``${…}`` resolved."""
    import hydra
    from hydra.core.config_store import ConfigStore
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    store = ConfigStore.instance()
    store.store(name=_STORE_NAME, node=dict(plain))
    try:
        with _own_hydra(), hydra.initialize(version_base="1.3", config_path=None):
            composed = hydra.compose(config_name=_STORE_NAME, overrides=overrides)
        container: dict[str, Any] = OmegaConf.to_container(composed, resolve=True)  # type: ignore
        return container
    except (HydraException, OmegaConfBaseException) as error:
        cause = error.__cause__ or error
        full_key = getattr(cause, "full_key", None)
        where = f" at {full_key}" if full_key else ""
        raise ConfigurationError(
            f"The overrides cannot be applied{where}: {_first_line(cause)}. "
            "Correct or leave out the one that this names."
        ) from None
    finally:
        store.repo.pop(f"{_STORE_NAME}.yaml", None)


@contextlib.contextmanager
def _own_hydra() -> Iterator[None]:
    """Put a Hydra that the user's program has initialised aside, and back again."""
    from hydra.core.global_hydra import GlobalHydra

    before = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        yield
    finally:
        GlobalHydra.instance().hydra = before


def _null_removed(
    override: Override, roots: Mapping[str, object], composed: dict[str, Any]
) -> None:
    """Turn ``~key`` of a dataclass field, which Hydra has deleted, into null."""
    if not override.is_delete():
        return
    *holders, name = override.key_or_group.split(".")
    node, plain = roots, composed
    for holder in holders:
        node, plain = children(node).get(holder), plain.get(holder)  # type: ignore
        if not isinstance(plain, dict):
            return
    if is_group(node) or node is roots:
        plain.setdefault(name, None)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
