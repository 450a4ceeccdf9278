"""The messages of ranks with different configurations as they meet.

Usage: worker_agreement.py FOLDER; it writes ``rank<i>.json``: messages by case.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.training import agreement
from envlab.training.agreement import check_agreement
from envlab.training.plan import RunPlan, settle
from envlab.training.start import decide_start
from tests.trained import session_of

BASE = ["--task=Isaac-Cartpole-v0", "--device=cpu", "--distributed"]
MODEL = Path("models/of_any_place.xml")


def rsl_rl(*words: str) -> Callable[[], list[RunPlan]]:
    return lambda: [session_of("rsl_rl", [*BASE, *words]) if words else alike()]


@functools.cache
def alike() -> RunPlan:
    return session_of("rsl_rl", BASE)


def sweep() -> list[RunPlan]:
    return [alike(), alike()]


def cases(folder: Path) -> dict[str, tuple[Callable[[], list[RunPlan]], ...]]:
    """Return the plans of rank 0 and rank 1, by case."""
    same = rsl_rl()
    outer = '<mujoco><include file="inner.xml"/></mujoco>'

    def with_model(name: str, text: str, inner: str = "") -> Callable[[], list[RunPlan]]:
        """Return a plan whose model is in a separate folder, next to an inner one."""
        path = folder / name / MODEL
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.with_name("inner.xml").write_text(inner)
        return rsl_rl(f"env.scene.model={path}")

    return {
        "alike": (same, same),
        "own threads": (rsl_rl("env.sim.num_threads=1"), rsl_rl("env.sim.num_threads=2")),
        "own paths": (with_model("own0", "<mujoco/>"), with_model("own1", "<mujoco/>")),
        "own files": (with_model("file0", "<!-- 0 -->"), with_model("file1", "<!-- 1 -->")),
        "own parts": (with_model("part0", outer, "<mujoco/>"), with_model("part1", outer)),
        "reward": (same, rsl_rl("env.rewards.alive.weight=2.0")),
        "agent": (rsl_rl("agent.algorithm.gamma=0.9"), same),
        "flag": (same, rsl_rl("--grad_sync=library")),
        "seed": (same, rsl_rl("--seed=7")),
        "many": (same, rsl_rl(*(f"agent.algorithm.{name}=0.5" for name in MANY))),
        "task": (same, lambda: [session_of("rsl_rl", ["--task=Isaac-Ant-v0", *BASE[1:]])]),
        "library": (same, lambda: [session_of("rl_games", BASE)]),
        "runs": (same, sweep),
    }


MANY = ("gamma", "lam", "clip_param", "entropy_coef", "desired_kl", "value_loss_coef")


def message(plans: list[RunPlan], context: DistributedContext) -> str | None:
    try:
        check_agreement(plans, context)
    except ConfigurationError as error:
        return str(error)
    return None


def code_cases(context: DistributedContext) -> dict[str, str | None]:
    """Return the messages about an edited file, and another version, on rank 1."""
    messages = {}
    for name, words in (("code", ()), ("allowed code", ("--allow_different_code",))):
        digests = agreement.code_digests()
        if context.rank == 1:
            digests["envlab_tasks"] = "edited"
        with mock.patch.object(agreement, "code_digests", lambda _, found=digests: found):
            messages[name] = message(rsl_rl(*words)(), context)
    version = agreement.metadata.version
    own = {"torch": "1.0.0"} if context.rank == 1 else {}
    with mock.patch.object(
        agreement.metadata, "version", lambda name: own.get(name) or version(name)
    ):
        messages["version"] = message(rsl_rl()(), context)
    return messages


def main() -> None:
    folder = Path(sys.argv[1])
    context = DistributedContext.create(True, "cpu")
    found = {name: message(pair[context.rank](), context) for name, pair in cases(folder).items()}
    found |= code_cases(context)
    uneven = dataclasses.replace(context, num_threads=1 + context.rank)
    try:
        settle(alike(), uneven)
    except ConfigurationError as error:
        found["environments"] = str(error)
    threads = f"env.sim.num_threads={1 + context.rank}"  # a node's own, which no start may change
    plan = decide_start(rsl_rl(threads)()[0], context, number=1)
    assert plan is not None
    assert plan.env_cfg.sim.num_threads == 1 + context.rank
    (folder / f"rank{context.rank}.json").write_text(json.dumps(found))
    context.close()


if __name__ == "__main__":
    main()
