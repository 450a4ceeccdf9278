"""Where a session resumes: from a checkpoint, or in the run directory that its launch began.

``--resume`` asks for the first; a restart of the launch's processes does the second by itself. Rank
0 looks, and shares what it found and read with the others, which need not see its files.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from envlab.agent_cfg import set_value
from envlab.commit import code_digests, git_state
from envlab.config import to_dict
from envlab.distributed.checkpoint import load_checkpoint
from envlab.distributed.context import DistributedContext
from envlab.distributed.ranks import is_requeued, restartable_launch, slurm_job
from envlab.errors import CheckpointError, EnvlabError, RunDirectoryError
from envlab.run.checkpoints import Accept, Checkpoints
from envlab.run.manifest import LOG_ROOT, package_versions, read_manifest, read_manifests
from envlab.training.agreement import own_packages
from envlab.training.population.checkpoint import dealt
from envlab.training.session import (
    Session,
    check_origin,
    compose_session,
    open_checkpoint,
    open_policies_of,
    open_policy_of,
)
from envlab.training.task_changes import Changes, differences

logger = logging.getLogger(__name__)


def continue_session(
    session: Session, context: DistributedContext, *, number: int
) -> Session | None:
    """Return the session to continue, or None if this launch finished it before a restart.

    Every rank must call this.

    Args:
        session: The session as made from the command line alone.
        context: The process's context.
        number: Its number among the launch's sessions, for a sweep.

    Raises:
        EnvlabError: On every rank alike, if there is nothing to resume, or rank 0 cannot see the
            run that other ranks can.
    """
    launch, directories = _agree_on_launch(session, context, number)
    found: dict[str, Any] | EnvlabError | None = None
    resumed = None
    if context.is_main:
        try:
            continued = _with_policy(resumed_session(session, directories))
        except EnvlabError as error:
            found = error
        else:
            if continued is not None:
                found, resumed = _differences(continued, session), continued.resumed
    found = context.broadcast(found)
    if isinstance(found, EnvlabError):
        raise found
    if found is None:
        return None
    resumed = _share(resumed, context)
    return dataclasses.replace(session, **found, resumed=resumed, launch=launch)


def _differences(continued: Session, session: Session) -> dict[str, Any]:
    """Return how a resumed session differs from the command line's, except for its checkpoint."""
    names = (
        *("env_cfg", "agent_cfg", "population_cfg", "params", "changed", "other_code"),
        *("checkpoint", "directory", "given_policy"),
    )
    parts = {name: getattr(continued, name) for name in names}
    return {name: part for name, part in parts.items() if part is not getattr(session, name)}


def _share(resumed: dict[str, Any] | None, context: DistributedContext) -> dict[str, Any] | None:
    """Return rank 0's checkpoint on every rank, with only this rank's part of the ranks' own state.

    All ranks' state together, such as replay memories, may not fit into one rank's memory.
    """
    parts: list[Any] = [None] * context.world_size
    if resumed is not None:
        if len(resumed["ranks"]) == context.world_size:
            parts = resumed["ranks"]
        else:
            parts = dealt(resumed, context.world_size)
        resumed = {name: value for name, value in resumed.items() if name != "ranks"}
    resumed = context.broadcast(resumed)
    if resumed is None:
        return None
    return resumed | {"ranks": {context.rank: context.scatter_from_main(parts)}}


def _agree_on_launch(
    session: Session, context: DistributedContext, number: int
) -> tuple[dict[str, Any], list[tuple[str, str] | None]]:
    """Return the launch's ids, and the run that each rank finds of it, with its node."""
    mine = {"agent": restartable_launch(os.environ), "slurm": slurm_job(os.environ)}
    everyone = context.gather(mine)
    agents = dict.fromkeys(one["agent"] for one in everyone if one["agent"] is not None)
    launch = {
        "agents": list(agents),
        "slurm": everyone[0]["slurm"],
        "name": session.flags.run_id,
        "session": number,
    }
    found = find_launched(session.library.name, session.agent_cfg.experiment_name, launch)
    return launch, context.gather(None if found is None else (context.node, str(found)))


def find_launched(library: str, experiment: str, launch: Mapping[str, Any]) -> Path | None:
    """Return the newest run directory that an earlier start of this launch made, if any."""
    if not (launch["agents"] or launch["slurm"] or launch["name"] is not None):
        return None  # nothing will ever start it again
    manifests = read_manifests(Path(LOG_ROOT).absolute() / library / experiment)
    same = [run for run, told in manifests.items() if _is_same(told.get("launch") or {}, launch)]
    return same[-1] if same else None


def _is_same(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    if not then or then["session"] != now["session"]:
        return False
    if now["name"] is not None or then["name"] is not None:
        return then["name"] == now["name"]
    if set(then["agents"]) & set(now["agents"]):
        return True
    return now["slurm"] is not None and then["slurm"] == now["slurm"] and is_requeued(os.environ)


def resumed_session(session: Session, directories: list[tuple[str, str] | None]) -> Session | None:
    """Return the session with the state to continue with; None if it is finished. On rank 0."""
    if directories[0] is not None:
        return _continued_in(Path(directories[0][1]), session)
    elsewhere = next((found for found in directories if found is not None), None)
    if elsewhere is not None:
        raise RunDirectoryError(
            f"The run to continue is {elsewhere[1]} on {elsewhere[0]}, but rank 0 now runs on "
            "another node, which cannot see it. Start all nodes in one shared folder, or start "
            f"again with {elsewhere[0]} as the first node."
        )
    if not session.flags.resume:
        return session
    checkpoint, resumed, run = open_checkpoint(
        session, functools.partial(check_origin, session=session), tasks={session.task.id}
    )
    if session.params is None and (run / "params" / "env.yaml").is_file():
        session = _compose_with(run, session)
        session.changed = changed_settings(session, run / "params")
    if (run / "run.json").is_file():
        session.other_code = other_code(read_manifest(run), session)
    return dataclasses.replace(session, checkpoint=checkpoint, resumed=resumed)


def _compose_with(run: Path, session: Session) -> Session:
    """Return the session composed again, from the ``params/`` of a run directory."""
    return compose_session(session.flags, session.overrides, session.library, run)


def changed_settings(session: Session, params: Path) -> Changes:
    """Return the settings that differ from the run of ``params``, by dotted path: both values.

    The length of the training and the name of the run do not count.
    """
    changed: Changes = {}
    for root, cfg in (("env", session.env_cfg), ("agent", session.agent_cfg)):
        then = yaml.safe_load((params / f"{root}.yaml").read_text())
        changed |= differences(then, to_dict(cfg, root), root)
    for path in session.agent_cfg.FLAGS.values():
        changed.pop(f"agent.{path}", None)
    return changed


def other_code(manifest: Mapping[str, Any], session: Session) -> Changes:
    """Return the code and packages that differ from those that a run was made with: both values.

    The commit is named only if code differs, as most commits leave that of a run as it was. What
    the manifest does not have is not compared.
    """
    digests, versions = manifest.get("code") or {}, manifest.get("versions") or {}
    own = code_digests(own_packages(session))
    found: Changes = {
        f"{name}'s code": (digest, own.get(name))
        for name, digest in digests.items()
        if digest != own.get(name)
    }
    then, now = ((state or {}).get("commit") for state in (manifest.get("git"), git_state()))
    if (found or not digests) and then not in (None, now):
        found["commit"] = (then, now)
    here = package_versions(session.library.name)
    return found | {
        name: (version, here.get(name))
        for name, version in versions.items()
        if version != here.get(name)
    }


def _with_policy(session: Session | None) -> Session | None:
    """Return the session with its initial policy, unless it resumes. On rank 0."""
    if session is None or session.resumed is not None or session.flags.resume:
        return session
    if session.agent_cfg.policies():
        policy = open_policies_of(session)
    elif session.flags.checkpoint is not None:
        policy = open_policy_of(session)
    else:
        return session
    logger.info("A new run begins with the policy of %s.", policy["path"])
    return dataclasses.replace(session, given_policy=policy)


def _continued_in(directory: Path, session: Session) -> Session | None:
    """Return the session to continue in a run directory of this launch. On rank 0."""
    manifest = read_manifest(directory)
    params = directory / "params"
    if (then := manifest.get("swept") or {}) != session.swept:
        raise RunDirectoryError(
            f"The run {directory}, which this command would continue, is that of {_assigned(then)} "
            f"in a sweep, but now it would be of {_assigned(session.swept)}. Give the new sweep a "
            "--run_id of its own."
        )
    if all((params / name).is_file() for name in ("env.yaml", "agent.yaml")):
        session = _compose_with(directory, session)
        session.changed = changed_settings(session, params)
    else:
        logger.warning("There is no configuration in %s; taking the command line's.", params)
    session.other_code = other_code(manifest, session)
    if manifest["status"] == "finished":
        if session.changed:
            now = _assigned({name: now for name, (_, now) in session.changed.items()})
            raise RunDirectoryError(
                f"The run {directory} is finished, without the settings that are new in this "
                f"command: {now}. Give them a --run_id of their own."
            )
        logger.info("The run %s is finished already: there is nothing to do.", directory)
        return None
    if session.agent_cfg.seed == -1:
        key = session.agent_cfg.FLAGS["seed"]
        session.agent_cfg = set_value(session.agent_cfg, key, manifest["seed"])  # as drawn
    accept = functools.partial(check_origin, session=session)
    checkpoint: Path | None
    resumed: dict[str, Any] | None
    try:
        checkpoint, resumed = Checkpoints(directory / "checkpoints").latest(accept)
    except CheckpointError as problem:
        if any((directory / "checkpoints").glob("*.pt")):
            logger.warning("%s The run starts again from where it began.", problem)
        checkpoint, resumed = _beginning(manifest, accept)
    return dataclasses.replace(session, directory=directory, checkpoint=checkpoint, resumed=resumed)


def _assigned(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items()) or "no values"


def _beginning(
    manifest: Mapping[str, Any], accept: Accept
) -> tuple[Path, dict[str, Any]] | tuple[None, None]:
    """Return the checkpoint that a run was started from, if any, and its contents."""
    if manifest.get("resumed_from") is None:
        return None, None
    checkpoint = Path(manifest["resumed_from"])
    resumed = load_checkpoint(checkpoint)
    accept(resumed, checkpoint)
    return checkpoint, resumed
