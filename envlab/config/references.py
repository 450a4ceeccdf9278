"""Functions and classes as ``module:name`` text, so that a config can be written to a file.

References by a program or a user are imported without checks. A file may be untrusted and must not
choose what runs here: :class:`Trust` restricts the modules of its references.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from types import ModuleType

from envlab.errors import ConfigurationError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Allowed targets of references in a file; none by default."""

    modules: frozenset[str] = frozenset()
    """Modules and packages, with everything below them. A package is trusted as a whole: anything
    that it defines may be called."""
    named: frozenset[str] = frozenset()
    """References that the user has also written, on the command line or in a task."""

    def covers(self, module: str) -> bool:
        """Return whether a module, or a package that contains it, is trusted."""
        return any(module == one or module.startswith(f"{one}.") for one in self.modules)

    def admit(self, reference: str, module: str) -> None:
        """Refuse to import a module that a file's text leads to, unless it is trusted.

        Importing a module that is already imported runs no code.

        Raises:
            ConfigurationError: Naming the text, the module, and ``--trust``.
        """
        if not (reference in self.named or module in sys.modules or self.covers(module)):
            raise _distrust(reference, module)

    def resolve(self, reference: str) -> object:
        """Import the object of a file's ``module:name``, if it is trusted.

        Nothing else is imported, because importing a module runs it. The object must be defined in
        a trusted module: ``my_tasks.events:os.system`` is Python's own, wherever it is found. It
        must not be private: ``Env.__init__`` could get any object as its ``self``.

        Raises:
            ConfigurationError: If it is not trusted, or there is no such object.
        """
        if reference in self.named:
            return resolve(reference)
        module_name, name = _split(reference)
        if not self.covers(module_name):
            raise _distrust(reference, module_name)
        module = _module_of(module_name, name, reference)
        holder: object = module
        for part in name.split("."):
            if part.startswith("_"):
                raise ConfigurationError(
                    f"{reference!r} comes from a file and names something private, so it is not "
                    "run. Name a public function or class."
                )
            if isinstance(holder, ModuleType) and holder is not module:
                raise _distrust(reference, holder.__name__)
            holder = _attribute(holder, part, reference)
        defined_in = str(getattr(holder, "__module__", None))
        if not self.covers(defined_in):
            raise _distrust(reference, defined_in)
        return holder


def _distrust(reference: str, module: str) -> ConfigurationError:
    package = module.partition(".")[0]
    return ConfigurationError(
        f"{reference!r} comes from a file and names code of {module}, which no task or library "
        "here comes from, so it is not run. If you know what it does, add --trust "
        f"{package if package.isidentifier() else 'MODULE'}."
    )


def reference_of(obj: object) -> str:
    """Return ``module:qualified.name`` for a function or class.

    Raises:
        ConfigurationError: ``obj`` has no such name (a lambda, a local function, a partial), or the
            name refers to something else.
    """
    module = getattr(obj, "__module__", None)
    name = getattr(obj, "__qualname__", None)
    if not module or not name or "<" in name:
        raise ConfigurationError(
            f"{obj!r} cannot be written in a configuration, because no module:name leads to it "
            "(a lambda, a local function, a partial). Define it at the top level of a module."
        )
    held: object = sys.modules.get(module)
    for part in name.split("."):
        held = getattr(held, part, None)
    if held != obj:
        raise ConfigurationError(
            f"{obj!r} cannot be written in a configuration: {module}:{name} leads to another "
            "object. Give it the name under which its module holds it."
        )
    return f"{module}:{name}"


def resolve(reference: str) -> object:
    """Import the object named by ``module:name``.

    An exception that the module itself raises while it is imported passes unchanged.

    Raises:
        ConfigurationError: The text is not a reference, or the module or the name does not exist.
    """
    module_name, name = _split(reference)
    holder: object = _module_of(module_name, name, reference)
    for part in name.split("."):
        holder = _attribute(holder, part, reference)
    return holder


def _split(reference: str) -> tuple[str, str]:
    module_name, separator, name = reference.partition(":")
    if not (module_name and separator and name) or "<" in name:
        raise ConfigurationError(
            f"{reference!r} does not name a function or class. "
            "Write module:name, such as my_package.rewards:is_alive."
        )
    return module_name, name


def _attribute(holder: object, name: str, reference: str) -> object:
    try:
        return getattr(holder, name)
    except AttributeError:
        public = [candidate for candidate in dir(holder) if not candidate.startswith("_")]
        kind = "module" if isinstance(holder, ModuleType) else "class"
        raise ConfigurationError(
            f"{reference!r} cannot be found: {kind} {getattr(holder, '__name__', holder)} has no "
            f"{name!r}.{did_you_mean(name, public)}"
        ) from None


def _module_of(module_name: str, name: str, reference: str) -> ModuleType:
    """Import the module of a reference; its own absence is a :class:`ConfigurationError`.

    Files of earlier versions may name modules that have become parts of others. Their public names
    are still names of the package (``envlab.envs.mdp``), where they are found.
    """
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if module_name != missing and not module_name.startswith(f"{missing}."):
            raise
        package = sys.modules.get(module_name.rpartition(".")[0])
        if package is not None and hasattr(package, name.partition(".")[0]):
            return package
        raise ConfigurationError(
            f"{reference!r} cannot be imported: there is no module {missing!r}. "
            "Write module:name with a module that Python can import from here."
        ) from None
    except (TypeError, ValueError):  # a relative or empty part, such as ".mdp" or "a..b"
        raise ConfigurationError(
            f"{reference!r} cannot be imported: {module_name!r} is not an absolute module name. "
            "Write module:name, such as my_package.rewards:is_alive."
        ) from None
