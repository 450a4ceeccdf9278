"""Opens the checkpoints that flags name, and refuses those of another origin."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from envlab.errors import CheckpointError, ConfigurationError
from envlab.registry import SCRIPTED, scripted_policy
from envlab.run.checkpoints import Accept, Checkpoints, check_header, read_checkpoint
from envlab.run.find import find_run, flags_of
from envlab.run.pretrained import SELECTOR, find_policy
from envlab.training.inputs import checkpoint_file, run_and_name
from envlab.training.plan import RunPlan


def open_checkpoint(
    plan: RunPlan, accept: Accept, *, tasks: Collection[str]
) -> tuple[Path, dict[str, Any], Path]:
    """Return the checkpoint that the flags name, its contents, and its run directory.

    ``--load_run`` is a run's folder, a name or a pattern, or else the newest run with a checkpoint;
    ``--checkpoint`` is ``latest``, ``best``, ``pretrained``, a file name, or the path of a file or
    a run. Only the latest of a run falls back to an earlier one.

    Args:
        plan: Names library, experiment and algorithm if no path is given.
        accept: Rejects unwanted checkpoints.
        tasks: Ids of the task, for the error if there is no run.

    Raises:
        EnvlabError: If there is none, or it cannot be read or is refused.
    """
    agent_cfg, path = plan.agent_cfg, checkpoint_file(plan.flags)
    if plan.flags.checkpoint == SELECTOR:
        policy = find_policy(plan.library.name, agent_cfg.origin, tasks)
        values = read_checkpoint(policy.checkpoint)
        accept(values, policy.checkpoint)
        return policy.checkpoint, values, policy.folder
    if path is not None:
        values = read_checkpoint(path)
        accept(values, path)
        run = path.parent.parent
        return path, values, run if (run / "run.json").is_file() else path.parent
    load_run, name = run_and_name(plan.flags)
    run = find_run(
        plan.library.name,
        agent_cfg.experiment_name,
        load_run,
        origin=agent_cfg.origin,
        tasks=tasks,
    )
    return *Checkpoints(run / "checkpoints").find(name, accept), run


def open_policy_of(plan: RunPlan) -> dict[str, Any]:
    """Return content and ``path`` of the checkpoint that a new run begins with.

    It may be of another task.

    Raises:
        EnvlabError: If there is none, it cannot be read, or is of another library, unless a student
            imitates it; then the files of its run are needed, and returned as ``files``.
    """
    own = plan.library.name

    def accept(values: Mapping[str, Any], path: Path) -> None:
        if values.get("library") != own and not plan.agent_cfg.IMITATES:
            raise CheckpointError(
                f"The checkpoint {path} is of the library {values.get('library')!r}, but "
                f"{own} can begin only with its own policies. Choose one of them."
            )
        check_header(values, path)

    if plan.flags.checkpoint == SCRIPTED:
        return _scripted(plan)
    tasks = {plan.task.id, plan.task.trained_id}
    path, values, folder = open_checkpoint(plan, accept, tasks=tasks)
    given = {name: values[name] for name in ("library", "task", "model")} | {"path": str(path)}
    if given["library"] != own:
        given["files"] = _files_of(folder, path)
    return given


def _scripted(plan: RunPlan) -> dict[str, Any]:
    """Return, in place of a checkpoint, that the task's policy by hand is the teacher.

    Raises:
        ConfigurationError: If the task has none, or the agent imitates nothing.
    """
    scripted_policy(plan.task)
    if not plan.agent_cfg.IMITATES:
        raise ConfigurationError(
            f"--checkpoint={SCRIPTED} is the task's policy by hand, which is no network to begin "
            "with. Only a student imitates it: add --agent=rsl_rl_distillation_cfg_entry_point."
        )
    return {"library": SCRIPTED, "task": plan.task.id, "path": SCRIPTED}


def open_policies_of(plan: RunPlan) -> dict[str, Any]:
    """Return the policies that the agent's configuration names, as ``parts`` of one.

    Raises:
        EnvlabError: If ``--checkpoint`` is also given, or one cannot be opened.
    """
    named, flags = plan.agent_cfg.policies(), plan.flags
    if flags.checkpoint is not None or flags.load_run is not None:
        raise ConfigurationError(
            f"--checkpoint and --load_run have no effect with {', '.join(named)}, which name "
            "the policies to begin with. Leave one of them out."
        )
    parts = {}
    for path, checkpoint in named.items():
        own = dataclasses.replace(flags, checkpoint=checkpoint)
        parts[path] = open_policy_of(dataclasses.replace(plan, flags=own))
    paths = ", ".join(f"{path}={part['path']}" for path, part in parts.items())
    return {"library": plan.library.name, "path": paths, "parts": parts}


def _files_of(folder: Path, path: Path) -> dict[str, str]:
    """Return the files with the setup of another library's run, by their names in it.

    Raises:
        CheckpointError: If the checkpoint at ``path`` is not in its run's folder.
    """
    names = ("run.json", "params/env.yaml", "params/agent.yaml")
    try:
        return {name: (folder / name).read_text() for name in names}
    except OSError as error:
        raise CheckpointError(
            f"The checkpoint {path} is of another library, and its run's {', '.join(names)} say "
            f"what network it is of, but reading them failed ({error.strerror}: {error.filename}). "
            "Name a checkpoint in its run's folder."
        ) from error


def check_origin(
    values: Mapping[str, Any], path: Path, *, plan: RunPlan, task_id: str | None = None
) -> None:
    """Refuse a checkpoint of another library, task (or ``task_id``) or algorithm, or a damaged one.

    Raises:
        CheckpointError: Naming both, or the damage.
    """
    asked = {"task": task_id or plan.task.id, **plan.agent_cfg.origin}
    flags = flags_of(values, asked)
    for name, wanted in {"library": plan.library.name, **asked}.items():
        if values.get(name) != wanted:
            own = "use its own library's script" if name == "library" else f"give {flags}"
            raise CheckpointError(
                f"The checkpoint {path} is of the {name} {values.get(name)!r}, but {wanted!r} was "
                f"requested. Choose a checkpoint of this {name}, or {own}."
            )
    check_header(values, path)
