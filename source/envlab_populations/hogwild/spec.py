"""Spec files of SLM-Lab 3, 4 (lists of agents and environments) and 5, as JSON or YAML.

A file holds specs by name. Each has the parts ``agent`` (algorithm, memory, net), ``env`` and
``meta``, and optionally ``search``. All have one form, that of version 5; version 3's words are
translated by :mod:`envlab_populations.hogwild.version_3`.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from envlab.config import load_yaml
from envlab.config.translator import Translator, paths, put
from envlab.errors import ConfigurationError, did_you_mean
from envlab.foreign import bounded_int, read_text

PARTS = ("agent", "env", "meta")
"""Required parts of a spec."""
_OPTIONAL = ("body", "search", "spec_params", "name")
"""``body`` is version 4's pairing of agents with environments."""
_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_OLD_SPACES = {"grid_search": "choice"}
"""Ray Tune's names, before version 5."""
SPACES = ("choice", "uniform", "quniform", "loguniform", "randint", "qrandint", "lograndint")
"""Suffixes of ranges to search: ``lr__loguniform: [1e-4, 1e-2]``. Names and bounds are Ray
Tune's, as in SLM-Lab 5: ``randint`` and ``lograndint`` exclude the upper bound, and a range that
begins with ``q`` has its step as third number."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """A spec in version 5's form, its placeholders filled."""

    name: str
    agent: Mapping[str, Any]
    """``algorithm``, ``memory`` and ``net``, each a dictionary; ``name`` has no meaning."""
    env: Mapping[str, Any]
    meta: Mapping[str, Any]
    search: Mapping[str, Sequence[Any]]
    """Ranges by dotted path: ``agent.algorithm.gamma__uniform`` and its two numbers."""
    search_error: str = ""
    """Why it cannot be searched, if its ranges are wrong; it can be trained all the same."""
    settings: frozenset[str] = frozenset()
    """Paths of the values that the command line has set."""
    replaced_env: str | None = None
    """The file's environment, if another one replaces it."""

    def file(self) -> Translator:
        """Return the spec as what its keys are read from."""
        values = {"agent": self.agent, "env": self.env, "meta": self.meta}
        cure = "Change it in the spec, or by -s {key}=VALUE."
        return Translator(values, peer="slm_lab", file=f"the spec {self.name!r}", cure=cure)

    def values(self) -> dict[str, Any]:
        """Return the contents of a file with this spec alone."""
        parts = {part: deepcopy(dict(getattr(self, part))) for part in (*PARTS, "search")}
        return {self.name: {part: value for part, value in parts.items() if value or part in PARTS}}


def load_spec(path: Path, name: str, settings: Sequence[str] = ()) -> Spec:
    """Return a spec of a file.

    Args:
        path: A JSON or YAML file.
        name: Name of the spec in it.
        settings: ``KEY=VALUE``: a placeholder's value, or that at a dotted path of the spec.

    Raises:
        ConfigurationError: If the file cannot be read, has no such spec, or it is no spec.
    """
    return make_spec(name, _named(path, name), settings, origin=str(path))


def load_specs(path: Path, name: str, settings: Sequence[str] = ()) -> list[Spec]:
    """Return a spec of a file for each combination of ``spec_params``, as SLM-Lab trains them.

    See :func:`load_spec`.
    """
    return make_specs(name, _named(path, name), settings, origin=str(path))


def _named(path: Path, name: str) -> Any:
    specs = read_specs(path)
    if name not in specs:
        raise ConfigurationError(
            f"{path} has no spec {name!r}; it has {', '.join(specs) or 'none'}."
            f"{did_you_mean(name, specs)}"
        )
    return specs[name]


def read_specs(path: Path) -> dict[str, Any]:
    """Return the specs of a file, by name.

    JSON may have trailing commas, which SLM-Lab's reader takes, and comments, as in JSON5.

    Raises:
        ConfigurationError: If it cannot be read as JSON or YAML, with line and column.
    """
    try:
        if path.suffix in (".yaml", ".yml"):
            return _specs(load_yaml(path))
        found = _parse(read_text(path), path)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"The spec file {path} cannot be read ({error}). 'envlab lab list' lists those that "
            "come with envlab."
        ) from error
    if not isinstance(found, dict):
        raise ConfigurationError(
            f"The spec file {path} holds {type(found).__name__}, but must hold specs by name."
        )
    return _specs(found)


def _specs(found: dict[str, Any]) -> dict[str, Any]:
    """Leave out entries for reference, whose names SLM-Lab begins with an underscore."""
    return {name: value for name, value in found.items() if not str(name).startswith("_")}


def _parse(text: str, path: Path) -> Any:
    """Return parsed JSON; JSON5's parser, a hundred times slower, comes second."""
    try:
        return json.loads(text, parse_int=bounded_int)
    except json.JSONDecodeError as error:
        where = error
    try:
        import json5

        return json5.loads(text, parse_int=bounded_int)
    except ModuleNotFoundError:
        hint = "To read comments and trailing commas, install the extra: pip install 'envlab[lab]'"
    except ValueError:  # not JSON5 either; the strict parser's position is more exact
        hint = "Correct it there"
    raise ConfigurationError(
        f"The spec file {path} is not JSON: {where.msg} at line {where.lineno}, column "
        f"{where.colno}. {hint}; the name of a YAML file must end in .yaml."
    ) from where


def make_specs(name: str, given: Any, settings: Sequence[str] = (), *, origin: str) -> list[Spec]:
    """Return a spec for each combination of ``spec_params``; see :func:`load_specs`.

    Each is named for its values. Placeholders that ``settings`` fill are omitted.
    """
    choices = given.get("spec_params") if isinstance(given, Mapping) else None
    filled = {_pair(setting)[0] for setting in settings}
    several = {
        key: values
        for key, values in (choices or {}).items()
        if isinstance(values, list) and len(values) > 1 and key not in filled
    }
    made = []
    for combination in itertools.product(*several.values()):
        chosen = dict(zip(several, combination, strict=True))
        words = [name, *(re.sub(r"[^\w.-]+", "-", str(value)) for value in chosen.values())]
        pairs = [f"{key}={value}" for key, value in chosen.items()]
        made.append(make_spec("_".join(words), given, [*settings, *pairs], origin=origin))
    return made


def make_spec(name: str, given: Any, settings: Sequence[str] = (), *, origin: str) -> Spec:
    """Return a spec from the entry in a file; see :func:`load_spec`."""
    where = f"The spec {name!r} of {origin}"
    if not isinstance(given, Mapping):
        raise ConfigurationError(f"{where} is {given!r:.60}, but must hold {', '.join(PARTS)}.")
    for part in given:
        if part not in (*PARTS, *_OPTIONAL):
            known = (*PARTS, *_OPTIONAL)
            raise ConfigurationError(
                f"{where} has the part {part!r}, which no spec has.{did_you_mean(part, known)} "
                f"Its parts are {', '.join(known)}."
            )
    missing = [part for part in PARTS if part not in given]
    if missing:
        raise ConfigurationError(f"{where} lacks {', '.join(missing)}. Add what is missing.")
    values = _without_lists(deepcopy(dict(given)), where)
    choices = values.pop("spec_params", None) or {}
    pairs = [_pair(setting) for setting in settings]
    holders = sorted({key for text in _texts(values) for key in _PLACEHOLDER.findall(text)})
    fillings = {key: value for key, value in pairs if key in holders}
    values = _fill(values, _fillings(holders, choices, fillings, where))
    keys = {set_value(values, key, value, where) for key, value in pairs if key not in holders}
    search, wrong = {}, ""
    try:
        search = _ranges(values.get("search") or {}, where)
    except ConfigurationError as error:
        wrong = str(error)
    parts = {part: values[part] for part in PARTS}
    return Spec(name=name, **parts, search=search, search_error=wrong, settings=frozenset(keys))


def set_value(values: dict[str, Any], key: str, value: Any, where: str) -> str:
    """Set the value at a dotted path, or the one whose name it is, and return the path.

    Its last part may be new, since a spec may leave values out.

    Raises:
        ConfigurationError: If there is no such path, with the nearest one.
    """
    same = [path for path in paths(values) if path.split(".")[1:][-1:] == [key]]
    if len(same) == 1:  # as on SLM-Lab's command line: max_frame=1e6
        key = same[0]
    *folders, last = key.split(".")
    inner: Any = values
    for number, folder in enumerate(folders):
        if not isinstance(inner, dict) or not isinstance(inner.get(folder), dict):
            before = ".".join(folders[: number + 1])
            raise ConfigurationError(
                f"{where} has no {before!r}, which {key!r} should lie in."
                f"{did_you_mean(key, paths(values))}"
            )
        inner = inner[folder]
    if not folders:
        raise ConfigurationError(
            f"{key!r} is neither a placeholder of the spec nor a path in it, such as "
            f"meta.max_session.{did_you_mean(key, paths(values))}"
        )
    inner[last] = value
    return key


# YAML 1.1, which PyYAML reads, reads 1e6 and 1.6e5 as strings.
_SCIENTIFIC = re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+")


def parse_value(text: str) -> Any:
    """Return a string parsed as YAML: a number, true, false, null, a list; or itself."""
    try:
        return float(text) if _SCIENTIFIC.fullmatch(text) else yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return text


def _pair(setting: str) -> tuple[str, Any]:
    key, equals, text = setting.partition("=")
    if not equals or not key:
        raise ConfigurationError(
            f"--set is {setting!r}, but must be KEY=VALUE, as in meta.max_session=2."
        )
    return key, parse_value(text)


def _without_lists(values: dict[str, Any], where: str) -> dict[str, Any]:
    """Return a spec with one agent and one environment instead of version 4's lists of one."""
    for part in ("agent", "env"):
        if isinstance(values[part], list):
            if len(values[part]) != 1:
                raise ConfigurationError(
                    f"{where} has {len(values[part])} in its list {part!r}, but exactly one can be "
                    "trained. Write a separate spec for each."
                )
            values[part] = values[part][0]
    search = values.get("search")
    if isinstance(search, dict):
        values["search"] = {
            part: one[0]
            if isinstance(one, list) and len(one) == 1 and isinstance(one[0], dict)
            else one
            for part, one in search.items()
        }
    body = values.pop("body", None) or {}
    if body.get("num", 1) != 1:
        raise ConfigurationError(
            f"{where} has body.num = {body['num']}, but one body is trained. Set it to 1; "
            "meta.max_session repeats a run."
        )
    file = Translator(values, peer="slm_lab", file=where.replace("The", "the", 1))
    for key in (*PARTS, "agent.algorithm", "agent.memory", "agent.net"):
        put(values, key, file.mapping(key))
    return values


def _fillings(
    holders: Sequence[str], choices: Mapping[str, Any], given: Mapping[str, Any], where: str
) -> dict[str, Any]:
    """Return a value for each placeholder: the given one, or the only choice."""
    values = {}
    for key in holders:
        possible = choices.get(key, [])
        possible = possible if isinstance(possible, list) else [possible]
        if key in given:
            values[key] = given[key]
        elif len(possible) == 1:
            values[key] = possible[0]
        else:
            such = f", such as {possible[0]}" if possible else ""
            raise ConfigurationError(
                f"{where} leaves ${{{key}}} open. Give it a value by -s {key}=VALUE{such}."
            )
    return values


def _fill(values: Any, fillings: Mapping[str, Any]) -> Any:
    """Return values with placeholders filled; a value that is only a placeholder keeps its type."""
    if isinstance(values, dict):
        return {key: _fill(value, fillings) for key, value in values.items()}
    if isinstance(values, list):
        return [_fill(value, fillings) for value in values]
    if not isinstance(values, str):
        return values
    whole = _PLACEHOLDER.fullmatch(values)
    if whole:
        return fillings[whole[1]]
    return _PLACEHOLDER.sub(lambda found: str(fillings[found[1]]), values)


def _texts(values: Any) -> Iterator[str]:
    if isinstance(values, str):
        yield values
    elif isinstance(values, dict | list):
        for value in values.values() if isinstance(values, dict) else values:
            yield from _texts(value)


def _ranges(search: Any, where: str) -> dict[str, Sequence[Any]]:
    """Return ranges by dotted path, at any depth."""
    if not isinstance(search, Mapping):
        raise ConfigurationError(f"{where} has search = {search!r:.60}; it must be a dictionary.")
    found: dict[str, Sequence[Any]] = {}
    for key, value in search.items():
        if isinstance(value, Mapping):
            found |= {f"{key}.{inner}": one for inner, one in _ranges(value, where).items()}
            continue
        path, _, kind = key.rpartition("__")
        kind = _OLD_SPACES.get(kind, kind) if path else ""
        if kind not in SPACES:
            raise ConfigurationError(
                f"{where} searches {key!r}, which names no kind of range that can be searched. "
                f"Write {key.partition('__')[0]}__choice, or another of {', '.join(SPACES)}."
            )
        if kind == "choice":
            expected, is_right = "values", isinstance(value, list) and bool(value)
        else:
            has_step, is_whole = kind.startswith("q"), "int" in kind
            expected = f"two rising {'whole ' if is_whole else ''}numbers"
            expected += " and a step above 0" if has_step else ""
            is_right = isinstance(value, list) and _rise(value, with_step=has_step)
            is_right = is_right and not (is_whole and any(one % 1 for one in value))
        if not is_right:
            raise ConfigurationError(
                f"{where} searches {key} = {value!r:.60}, but it must be a list of {expected}."
            )
        if "log" in kind and value[0] <= 0:
            raise ConfigurationError(
                f"{where} searches {key} = {value!r}, but a logarithmic range begins above 0."
            )
        found[f"{path}__{kind}"] = value
    return found


def _rise(value: list[Any], *, with_step: bool) -> bool:
    numbers = [one for one in value if isinstance(one, int | float) and not isinstance(one, bool)]
    rises = len(value) == len(numbers) == 2 + with_step and value[0] < value[1]
    return rises and (not with_step or value[2] > 0)
