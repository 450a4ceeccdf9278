"""Where a run starts: one decision, made by rank 0 and shared with the others.

There are four (:class:`envlab.training.plan.Start`):

- ``continue``: an earlier start of the same launch has made a run directory, and was killed. This
  one continues in that directory, from the last checkpoint, or from the beginning if there is none.
- ``resume``: ``--resume`` continues from a checkpoint, in a new run directory.
- ``policy``: ``--checkpoint`` without ``--resume``, or the agent's configuration, names a policy to
  begin with.
- ``fresh``: none of these.

The plan of the first two is that of their run, with what the words of this command change.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from envlab.agent_cfg import set_value
from envlab.commit import code_digests, git_state
from envlab.config import to_dict
from envlab.distributed.context import DistributedContext
from envlab.distributed.ranks import is_requeued, restartable_launch, slurm_job
from envlab.errors import CheckpointError, RunDirectoryError
from envlab.run.checkpoints import Accept, Checkpoints, read_checkpoint
from envlab.run.manifest import LOG_ROOT, package_versions, read_manifest, read_manifests
from envlab.training.agreement import own_packages
from envlab.training.continuation import Changes, differences, parts_of
from envlab.training.opening import check_origin, open_checkpoint, open_policies_of, open_policy_of
from envlab.training.plan import RunPlan, Start, plan_run

logger = logging.getLogger(__name__)

_DECIDED = (
    *("library", "env_cfg", "agent_cfg", "guest_cfgs", "num_members", "base", "is_num_envs_given"),
    "start",
)
"""What the start may decide of a plan; the rest is in the words."""


def decide_start(plan: RunPlan, context: DistributedContext, *, number: int) -> RunPlan | None:
    """Return the plan with its start, or None if this launch finished the run before a restart.

    Rank 0 looks, as the others need not see its files. Every rank must call this.

    Args:
        plan: The plan as made from the command line alone.
        context: The process's context.
        number: Its number among the launch's plans, for a sweep.

    Raises:
        EnvlabError: On every rank alike, if there is nothing to resume, or rank 0 cannot see the
            run that other ranks can.
    """
    launch = _launch_of(plan, context, number)
    run = find_launched(plan.library.name, plan.agent_cfg.experiment_name, launch)
    found = context.gather(None if run is None else (context.node, str(run)))
    parts: list[Any] = [None] * context.world_size  # of the checkpoint, for each rank

    def decide() -> dict[str, Any] | None:
        decided = start_of(plan, found)
        if decided is None:
            return None
        saved = decided.start.saved
        if saved is not None:  # all ranks' own state, such as memories, may not fit into one
            parts[:] = _parts(decided, saved, context.world_size)
            rest = {name: value for name, value in saved.items() if name != "ranks"}
            start = dataclasses.replace(decided.start, saved=rest)
            decided = dataclasses.replace(decided, start=start)
        values = {name: getattr(decided, name) for name in _DECIDED}
        # What is as the words have it stays each rank's own: a node has its number of threads.
        return {name: value for name, value in values.items() if value is not getattr(plan, name)}

    decided = context.once(decide)
    if decided is None:
        return None
    plan = dataclasses.replace(plan, **decided, launch=launch)
    if plan.start.saved is None:
        return plan
    own = {context.rank: context.scatter_from_main(parts)}
    start = dataclasses.replace(plan.start, saved={**plan.start.saved, "ranks": own})
    return dataclasses.replace(plan, start=start)


def _parts(plan: RunPlan, saved: Mapping[str, Any], world_size: int) -> list[Any]:
    """Return each rank's part of a checkpoint."""
    if len(saved["ranks"]) == world_size:
        return list(saved["ranks"])
    if plan.deals_environments:
        return parts_of(saved, world_size)
    if plan.library.deal is None:
        return [None] * world_size
    return list(plan.library.load("deal")(saved, world_size))


def start_of(plan: RunPlan, found: Sequence[tuple[str, str] | None]) -> RunPlan | None:
    """Return the plan with its start; None if the run is finished. On rank 0.

    Args:
        plan: The plan as made from the command line alone.
        found: The run directory that each rank finds of this launch, after its node.

    Raises:
        EnvlabError: If there is nothing to start from, or it is not the run's.
    """
    if found[0] is not None:
        return _continue(plan, Path(found[0][1]))
    if elsewhere := next(filter(None, found), None):
        node, directory = elsewhere
        raise RunDirectoryError(
            f"The run to continue is {directory} on {node}, but rank 0 now runs on another node, "
            "which cannot see it. Start all nodes in one shared folder, or start again with "
            f"{node} as the first node."
        )
    if plan.flags.resume:
        return _resume(plan)
    if policy := _policy_of(plan):
        return dataclasses.replace(plan, start=Start(policy=policy))
    return plan


# ---- The ways to start ---------------------------------------------------------------------------


def _policy_of(plan: RunPlan) -> Mapping[str, Any] | None:
    """Return the policy that words or the agent's configuration have a new run begin with."""
    if plan.agent_cfg.policies():
        policy = open_policies_of(plan)
    elif plan.flags.checkpoint is not None:
        policy = open_policy_of(plan)
    else:
        return None
    logger.info("The run begins with the policy of %s.", policy["path"])
    return policy


def _resume(plan: RunPlan) -> RunPlan:
    accept = functools.partial(check_origin, plan=plan)
    checkpoint, saved, run = open_checkpoint(plan, accept, tasks={plan.task.id})
    changed: Changes = {}
    if plan.base is None and (run / "params" / "env.yaml").is_file():
        plan = _based_on(run, plan)
        changed = changed_settings(plan, run / "params")
    code = other_code(read_manifest(run), plan) if (run / "run.json").is_file() else {}
    start = Start(checkpoint=checkpoint, saved=saved, changed=changed, other_code=code)
    return dataclasses.replace(plan, start=start)


def _continue(plan: RunPlan, directory: Path) -> RunPlan | None:
    manifest, params = read_manifest(directory), directory / "params"
    if (then := manifest.get("swept") or {}) != plan.swept:
        raise RunDirectoryError(
            f"The run {directory}, which this command would continue, is that of {_assigned(then)} "
            f"in a sweep, but now it would be of {_assigned(plan.swept)}. Give the new sweep "
            "another --run_id."
        )
    changed: Changes = {}
    if all((params / name).is_file() for name in ("env.yaml", "agent.yaml")):
        plan = _based_on(directory, plan)
        changed = changed_settings(plan, params)
    else:
        logger.warning("There is no configuration in %s; taking the command line's.", params)
    if manifest["status"] == "finished":
        if changed:
            now = _assigned({name: now for name, (_, now) in changed.items()})
            raise RunDirectoryError(
                f"The run {directory} is finished, and this command has settings that it did not: "
                f"{now}. Give the new run another --run_id."
            )
        logger.info("The run %s is already finished: there is no work left.", directory)
        return None
    if plan.agent_cfg.seed == -1:
        key = plan.agent_cfg.FLAGS["seed"]
        drawn = set_value(plan.agent_cfg, key, manifest["seed"])
        plan = dataclasses.replace(plan, agent_cfg=drawn)
    accept = functools.partial(check_origin, plan=plan)
    checkpoint, saved, run = _newest_or_origin(directory, manifest, accept)
    if run != directory and (run / "params" / "env.yaml").is_file():
        changed = changed_settings(plan, run / "params")
    policy, began_with = None, manifest.get("policy_from")
    if saved is None and began_with is not None:
        flags = plan.flags
        if not plan.agent_cfg.policies():  # else the run's configuration names them
            flags = dataclasses.replace(flags, checkpoint=began_with, load_run=None)
        policy = _policy_of(dataclasses.replace(plan, flags=flags))
    start = Start(
        directory=directory,
        checkpoint=checkpoint,
        saved=saved,
        policy=policy,
        changed=changed,
        other_code=other_code(read_manifest(run) if (run / "run.json").is_file() else {}, plan),
    )
    return dataclasses.replace(plan, start=start)


def _newest_or_origin(
    directory: Path, manifest: Mapping[str, Any], accept: Accept
) -> tuple[Path | None, Mapping[str, Any] | None, Path]:
    """Return a run's newest checkpoint, or else that which it was started from, and whose it is."""
    try:
        return *Checkpoints(directory / "checkpoints").latest(accept), directory
    except CheckpointError as problem:
        if any((directory / "checkpoints").glob("*.pt")):
            logger.warning("%s The run starts again from where it began.", problem)
    if manifest.get("resumed_from") is None:
        return None, None, directory
    checkpoint = Path(manifest["resumed_from"])
    saved = read_checkpoint(checkpoint)
    accept(saved, checkpoint)
    return checkpoint, saved, checkpoint.parents[1]


def _based_on(run: Path, plan: RunPlan) -> RunPlan:
    """Return a run's plan, with what the words of this command change."""
    based = plan_run(plan.flags, plan.overrides, plan.library, run, is_resumed=True)
    others = {name: getattr(plan, name) for name in ("swept", "destination", "launch")}
    return dataclasses.replace(based, **others)


# ---- What differs from that run ------------------------------------------------------------------


def changed_settings(plan: RunPlan, params: Path) -> Changes:
    """Return the settings that differ from the run of ``params``, by dotted path: both values.

    The length of the training, the name of the run and the seed do not count.
    """
    changed: Changes = {}
    for root, cfg in plan.configs.items():
        file = params / f"{root}.yaml"  # a single learner has one, a population has none
        then = yaml.safe_load(file.read_text()) if file.is_file() else {}
        changed |= differences(then, to_dict(cfg, root), root)
    for path in plan.agent_cfg.FLAGS.values():
        changed.pop(f"agent.{path}", None)
    if plan.env_cfg.seed is None:  # it follows the agent's
        changed.pop("env.seed", None)
    return changed


def other_code(manifest: Mapping[str, Any], plan: RunPlan) -> Changes:
    """Return the code and packages that differ from those that a run was made with: both values.

    The commit is named only if code differs, as most commits leave that of a run as it was.
    Packages and files that the manifest does not have are not compared.
    """
    digests, versions = manifest.get("code") or {}, manifest.get("versions") or {}
    own = code_digests(own_packages(plan))
    found: Changes = {
        f"{name}'s code": (digest, own.get(name))
        for name, digest in digests.items()
        if digest != own.get(name)
    }
    then, now = ((state or {}).get("commit") for state in (manifest.get("git"), git_state()))
    if (found or not digests) and then not in (None, now):
        found["commit"] = (then, now)
    here = package_versions(plan.library.name)
    return found | {
        name: (version, here.get(name))
        for name, version in versions.items()
        if version != here.get(name)
    }


def _assigned(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "no values"


# ---- Starts of one launch ------------------------------------------------------------------------


def _launch_of(plan: RunPlan, context: DistributedContext, number: int) -> dict[str, Any]:
    """Return the names by which a later start of this launch finds its run again."""
    mine = {"agent": restartable_launch(os.environ), "slurm": slurm_job(os.environ)}
    everyone = context.gather(mine)
    agents = dict.fromkeys(one["agent"] for one in everyone if one["agent"] is not None)
    return {
        "agents": list(agents),
        "slurm": everyone[0]["slurm"],
        "name": plan.flags.run_id,
        "session": number,  # of a sweep's runs, or of the trainings of one process
    }


def find_launched(library: str, experiment: str, launch: Mapping[str, Any]) -> Path | None:
    """Return the newest run directory that an earlier start of this launch made, if any."""
    if not (launch["agents"] or launch["slurm"] or launch["name"] is not None):
        return None  # nothing will ever start it again
    manifests = read_manifests(Path(LOG_ROOT).absolute() / library / experiment)
    same = [run for run, facts in manifests.items() if _is_same(facts.get("launch") or {}, launch)]
    return same[-1] if same else None


def _is_same(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    if not then or then["session"] != now["session"]:
        return False
    if now["name"] is not None or then["name"] is not None:
        return then["name"] == now["name"]
    if set(then["agents"]) & set(now["agents"]):
        return True
    return now["slurm"] is not None and then["slurm"] == now["slurm"] and is_requeued(os.environ)
