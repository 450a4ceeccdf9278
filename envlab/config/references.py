"""Functions and classes as ``module:name`` text, so that a config can be written down."""

from __future__ import annotations

import functools
import importlib
from types import ModuleType

from envlab.errors import ConfigurationError, did_you_mean


def reference_of(obj: object) -> str:
    """Return ``module:qualified.name`` for a function or class.

    Raises:
        ConfigurationError: ``obj`` has no such name (a lambda, a local function, a partial), or the
            name leads to something else.
    """
    module = getattr(obj, "__module__", None)
    name = getattr(obj, "__qualname__", None)
    if not module or not name or "<" in name:
        raise ConfigurationError(
            f"{obj!r} cannot be written in a configuration, because no module:name leads to it "
            "(a lambda, a local function, a partial). Define it at the top level of a module."
        )
    reference = f"{module}:{name}"
    if resolve(reference) != obj:
        raise ConfigurationError(
            f"{obj!r} cannot be written in a configuration: {reference} leads to another object. "
            "Give it the name under which its module holds it."
        )
    return reference


def resolve(reference: str) -> object:
    """Import what ``module:name`` names.

    An exception that the module itself raises while it is imported passes through unchanged.

    Raises:
        ConfigurationError: The text is no reference, or the module or the name does not exist.
    """
    module_name, separator, name = reference.partition(":")
    if not (module_name and separator and name) or "<" in name:
        raise ConfigurationError(
            f"{reference!r} does not name a function or class. "
            "Write module:name, such as my_package.rewards:is_alive."
        )
    module = _import(module_name, reference)
    try:
        return functools.reduce(getattr, name.split("."), module)
    except AttributeError:
        public = [candidate for candidate in dir(module) if not candidate.startswith("_")]
        raise ConfigurationError(
            f"{reference!r} cannot be found: module {module_name} has no {name!r}."
            f"{did_you_mean(name, public)}"
        ) from None


def _import(module_name: str, reference: str) -> ModuleType:
    """Import a module; turn only its own absence into a :class:`ConfigurationError`."""
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name != missing and not module_name.startswith(f"{missing}."):
            raise
        raise ConfigurationError(
            f"{reference!r} cannot be imported: there is no module {missing!r}. "
            "Write module:name with a module that Python can import from here."
        ) from None
    except (TypeError, ValueError):  # a relative or empty part, such as ".mdp" or "a..b"
        raise ConfigurationError(
            f"{reference!r} cannot be imported: {module_name!r} is no absolute module name. "
            "Write module:name, such as my_package.rewards:is_alive."
        ) from None
