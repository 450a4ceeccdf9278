"""``envlab check TASK``: whether a task keeps what is promised of every task."""

from __future__ import annotations

from collections.abc import Sequence

from envlab.config import compose
from envlab.registry import get_task, load_env_cfg
from envlab.training.arguments import TrainingParser


def main(arguments: Sequence[str]) -> int:
    """Print a line for each promise; return 1 if any is broken.

    Raises:
        EnvlabError: If the task cannot be built.
    """
    parser = TrainingParser(
        prog="envlab check",
        description="Build a small version of a task, and check the promises of every task.",
    )
    parser.add_argument("task", metavar="TASK", help="task id")
    flags, overrides = parser.parse_with_overrides(arguments)
    task = get_task(flags.task)
    from envlab.distributed.program import configure_logging  # they load torch
    from envlab.tools.probe import brief, check

    configure_logging()
    cfg = brief(compose({"env": load_env_cfg(task)}, overrides)["env"])
    bad = 0
    for what, result in check(task, cfg):
        bad += result is not None
        print(f"{'ok' if result is None else 'BROKEN':8}{what}" + (f": {result}" if result else ""))
    return 1 if bad else 0
