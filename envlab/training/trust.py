"""What a stranger's file may name: code of tasks and libraries here, and what the user admits."""

from __future__ import annotations

from collections.abc import Iterable

from envlab import libraries, registry
from envlab.config import Trust
from envlab.libraries import Library
from envlab.registry import packages_of


def trust_of(modules: Iterable[str] | None, typed: Iterable[str] = ()) -> Trust:
    """Return the code that files may name.

    Args:
        modules: Those of ``--trust``.
        typed: Texts that the user has written, such as the values of overrides.
    """
    packages = registry.trusted_modules() | libraries.trusted_modules()
    return Trust(modules=packages | frozenset(modules or ()), named=frozenset(typed))


def module_of(task_id: str) -> str:
    """Return the module of ``module:Id`` or ``gym:module:Id``; empty for an id alone."""
    return task_id.removeprefix("gym:").rpartition(":")[0]


def check_task(task_id: str, trust: Trust) -> None:
    """Refuse a task that a file names by a module which is not trusted.

    To look it up would import the module, and so run it. Packages of a way to train are fine:
    envlab's own have environments that they register on import.

    Raises:
        ConfigurationError: Naming the module, and ``--trust``.
    """
    module = module_of(task_id)
    own = module.partition(".")[0] in packages_of(_places())
    if module and not (own and "._" not in module):
        trust.admit(task_id, module)


def _places() -> list[str]:
    """Return where the parts of libraries are, as ``module:name``."""
    known: Iterable[Library] = libraries.libraries().values()
    return [place for one in known for place in (one.cfg, one.build, one.player)]
