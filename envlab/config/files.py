"""Configs as YAML files, exact in both directions.

PyYAML follows YAML 1.1, where ``1e-3`` is text, ``yes`` is true, ``010`` is eight and
``2026-01-31`` is a date. Reading here follows the core schema of YAML 1.2, where they are a number,
text, ten and text. Writing quotes whatever either version would misread, so that all readers agree.
"""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path
from typing import Any, TypeVar, overload

import yaml
from yaml.composer import Composer

from envlab.config.decoding import from_dict, merge
from envlab.config.encoding import leaves, to_dict
from envlab.config.references import Trust
from envlab.errors import ConfigurationError
from envlab.foreign import bounded_int, read_text

Config = TypeVar("Config")

_FLOAT = re.compile(
    r"^(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_INT = re.compile(r"^(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)$")
_BOOL = re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$")
_NULL = re.compile(r"^(?:~|null|Null|NULL|)$")
_WIDTH = 100
_MOST_NODES = 100_000
"""Most values of a file, counting an alias each time: a few lines could mean billions."""
NO_TRUST = Trust()


class _Reader(Composer, yaml.CSafeLoader):
    """YAML 1.2 scalars; duplicate keys and endless aliases are errors.

    libyaml splits the text, in a fifth of the time; it would also compose the values, but without
    asking the methods below.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}

    def __init__(self, stream: Any) -> None:
        yaml.CSafeLoader.__init__(self, stream)
        Composer.__init__(self)
        self._num_nodes = 0
        self._sizes: dict[str, int] = {}  # of complete anchored nodes

    def compose_node(self, parent: Any, index: Any) -> Any:
        event: Any = self.peek_event()
        mark, before = event.start_mark, self._num_nodes
        node = super().compose_node(parent, index)
        if not isinstance(event, yaml.AliasEvent):
            self._num_nodes += 1
            if event.anchor is not None:
                self._sizes[event.anchor] = self._num_nodes - before
            return node
        problem = None
        if event.anchor not in self._sizes:
            problem = f"the alias *{event.anchor} is inside the value that it repeats"
        elif (size := self._num_nodes + self._sizes[event.anchor]) > _MOST_NODES:
            problem = f"with the alias *{event.anchor}, there are more than {_MOST_NODES} values"
        else:
            self._num_nodes = size
        if problem is not None:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key in [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]:
            if (key.tag, key.value) in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} is there twice", problem_mark=key.start_mark
                )
            seen.add((key.tag, key.value))
        return node


def _construct_int(loader: yaml.CSafeLoader, node: Any) -> int:
    text = loader.construct_scalar(node)
    return bounded_int(text, 0 if text[:2] in ("0o", "0x") else 10)


# int has to come before float, whose pattern matches whole numbers too.
_Reader.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
_Reader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
_Reader.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOL, list("tTfF"))
_Reader.add_implicit_resolver("tag:yaml.org,2002:null", _NULL, ["~", "n", "N", ""])
_Reader.add_implicit_resolver("tag:yaml.org,2002:merge", re.compile(r"^<<$"), ["<"])
_Reader.add_constructor("tag:yaml.org,2002:int", _construct_int)


class _Writer(yaml.SafeDumper):
    """Block style, with lists of scalars on one line."""


def _represent_list(writer: yaml.SafeDumper, values: list[Any]) -> yaml.Node:
    inline = all(not isinstance(value, list | dict) for value in values)
    return writer.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=inline)


_Writer.add_representer(list, _represent_list)
# On top of PyYAML's own 1.1 patterns, so that text is quoted if either version would misread it.
_Writer.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))
_Writer.add_implicit_resolver("tag:yaml.org,2002:int", _INT, ["0"])


def yaml_text(cfg: object, path: str = "env") -> str:
    """Return a config, or a plain dict, as YAML; ``path`` is its name in errors.

    Raises:
        ConfigurationError: ``cfg`` contains something that a configuration cannot contain.
    """
    values = to_dict(cfg, path)
    return yaml.dump(values, Dumper=_Writer, sort_keys=False, allow_unicode=True, width=_WIDTH)


def write_yaml(path: str | Path, cfg: object) -> None:
    """Write a config, or a plain dict, as YAML, atomically.

    Raises:
        ConfigurationError: ``cfg`` contains something that a configuration cannot contain.
    """
    path = Path(path)
    text = yaml_text(cfg, path.stem)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


@overload
def read_yaml(
    path: str | Path,
    target: type[Config],
    root: str = "env",
    *,
    part: bool = False,
    trust: Trust = ...,
) -> Config: ...
@overload
def read_yaml(
    path: str | Path, target: Config, root: str = "env", *, part: bool = False, trust: Trust = ...
) -> Config: ...
def read_yaml(
    path: str | Path,
    target: Any,
    root: str = "env",
    *,
    part: bool = False,
    trust: Trust = NO_TRUST,
) -> Any:
    """Return the config in a file, typed by ``target``; ``root`` is its name in errors.

    Args:
        path: A file written by :func:`write_yaml`, or one with only some settings.
        target: The config class, or an instance: it provides settings that the file lacks, and
            groups keep its classes if annotations name only a base class. A free-form dict takes
            exactly the keys in the file, so that keys changed by an override are restored.
        root: First part of the dotted paths in errors.
        part: Whether the file has several configs, this one under the key ``root``.
        trust: Allowed targets of references in the file, in addition to those in ``target``: by
            default none. No other code is run, whoever wrote the file.

    Raises:
        ConfigurationError: The file cannot be read, is not YAML, has a key that ``target`` does not
            know, a value of another type, an interpolation, or a reference to something untrusted.
    """
    values = load_yaml(path)
    if part:
        values = values.get(root) or {}
    try:
        _refuse_interpolations(values, root)
        values = with_todays_names(values, target)
        if isinstance(target, type):
            return from_dict(target, values, root, trust=trust)
        return merge(target, values, root, given_keys=True, trust=trust)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path} does not fit: {error}") from None
    except ImportError as error:  # of a package that a reference needs
        raise ConfigurationError(
            f"{path} refers to what cannot be imported here: {error}. Install the package, or "
            "change the reference."
        ) from error


def with_todays_names(values: Any, target: Any) -> Any:
    """Return the values of an earlier file with the names that settings have today.

    A configuration class says in its ``__former_names__`` where a setting is now, by a path with
    dots, and by None that it has no effect any more; for what that cannot say, it has a method
    ``__todays_values__``.
    """
    if not isinstance(values, dict) or not dataclasses.is_dataclass(target):
        return values
    if hasattr(target, "__todays_values__") and not isinstance(target, type):
        values = target.__todays_values__(values)
    former = getattr(target, "__former_names__", {})
    renamed = {name: value for name, value in values.items() if name not in former}
    for name in former.keys() & values.keys():
        if former[name] is not None:
            *holders, last = former[name].split(".")
            holder = renamed
            for part in holders:
                holder = holder.setdefault(part, {})
            holder.setdefault(last, values[name])
    return {name: with_todays_names(value, _part(target, name)) for name, value in renamed.items()}


def _part(target: Any, name: str) -> Any:
    """Return a setting of a configuration, or, of a class of them, its default."""
    if not isinstance(target, type):
        return getattr(target, name, None)
    found = next((item for item in dataclasses.fields(target) if item.name == name), None)
    if found is None or found.default_factory is dataclasses.MISSING:
        return None
    return found.default_factory()


def _refuse_interpolations(values: dict[str, Any], root: str) -> None:
    """Refuse ``${...}``, with which a file could copy secrets from environment variables."""
    for name, value in leaves(values, root):
        if isinstance(value, str) and "${" in value:
            raise ConfigurationError(
                f"{name} is {value!r}, but a written configuration holds values; ${{...}} is for "
                "overrides on the command line. Write the value."
            )


def load_yaml(path: str | Path) -> dict[str, Any]:
    """Return the mapping in a YAML file, ``{}`` if it is empty.

    Numbers are as in YAML 1.2 (``1e-3`` is a float), and a duplicate key is an error.

    Raises:
        ConfigurationError: The file cannot be read, is not YAML, or has no mapping.
    """
    try:
        text = read_text(Path(path))
    except FileNotFoundError:
        raise ConfigurationError(f"There is no file {path}. Give an existing YAML file.") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}. Give a YAML file.") from None
    try:
        values = yaml.load(text, Loader=_Reader)
    except Exception as error:  # a tag on an unsuitable value makes PyYAML raise nearly anything
        raise ConfigurationError(f"{path} is not valid YAML: {_reason(error)}.") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigurationError(
            f"{path} holds {type(values).__name__}, not keys and values. "
            "Write 'key: value' lines at its top level."
        )
    return values


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "it nests too deeply"
    if not isinstance(error, yaml.YAMLError):
        return f"a value does not fit its tag ({type(error).__name__}: {error})"
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return str(error).splitlines()[0]
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem or error.context}"
