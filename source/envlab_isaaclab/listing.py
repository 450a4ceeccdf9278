"""``envlab list --isaaclab [FOLDER]``: tasks for Isaac Lab, and what each would need."""

from __future__ import annotations

import contextlib
import sys

from tabulate import tabulate

from envlab.registry import AGENT_SUFFIX
from envlab_isaaclab.launcher import prepare
from envlab_isaaclab.upstream import find, is_isaac_lab

_NO_AGENTS = ("env", "robomimic_bc")
_MOST_NEEDS = 2


def table(folder: str, keyword: str | None) -> str:
    """Return the tasks that a folder registers, those that can be made here first.

    Args:
        folder: A project's checkout, or Isaac Lab's; empty: the Isaac Lab that is installed.
        keyword: Part of the ids of those to list; None: all.

    Raises:
        ConfigurationError: If there is no such folder, or no Isaac Lab.
    """
    with contextlib.redirect_stdout(sys.stderr):  # what a project prints when it is imported
        prepare(folder if folder and is_isaac_lab(folder) else None)
        from envlab_isaaclab.needs import needs_of
        from envlab_isaaclab.tasks import own_tasks, registered, told

        where = folder or str(find().parent)
        found, failures = registered(where)
        chosen = {name: one for name, one in own_tasks(where, found).items() if _has(name, keyword)}
        needs = {name: _told(needs_of(one)) for name, one in chosen.items()}
    if not chosen:
        return f"No task of {where} matches {keyword!r}."
    rows = [
        (name, " ".join(_agents(chosen[name].kwargs)), needs[name])
        for name in sorted(chosen, key=lambda name: (bool(needs[name]), name))
    ]
    num_ready = sum(not need for need in needs.values())
    lines = [
        tabulate(rows, headers=("Task", "Agents", "Needs")),
        f"\n{num_ready} of {len(rows)} tasks need nothing more. To train one: envlab train rsl_rl "
        f"--isaaclab {where} --task ID; copies of Nvidia's files: --nucleus FOLDER.",
        *told(failures),
    ]
    return "\n".join(lines)


def _told(needs: list[str]) -> str:
    """Return the first needs in one line, and the number of the others."""
    more = [f"and {len(needs) - _MOST_NEEDS} more"] if len(needs) > _MOST_NEEDS else []
    return "; ".join([*needs[:_MOST_NEEDS], *more])


def _has(name: str, keyword: str | None) -> bool:
    return keyword is None or keyword.lower() in name.lower()


def _agents(kwargs: dict[str, object]) -> list[str]:
    """Return the ways to train that a registration has an agent for."""
    names = [key.removesuffix(AGENT_SUFFIX) for key in kwargs if key.endswith(AGENT_SUFFIX)]
    return [name for name in names if name not in _NO_AGENTS]
