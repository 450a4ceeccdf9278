"""The text of ``--dry_run``: the configuration first, and the plan at the end, easy to find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlab.config import to_dict, yaml_text
from envlab.distributed.limits import describe_size
from envlab.training.continuation import describe_resume, resume_mode
from envlab.training.dry_run import DryRun, ProcessNeeds

_NAME_WIDTH = 15
_ABSENT = "absent"


def dry_run_text(run: DryRun) -> str:
    """Return the output of the dry run."""
    plan = run.plan
    parts = [
        *(f"# params/{root}.yaml\n{yaml_text(cfg, root)}" for root, cfg in plan.configs.items()),
        _section("Changed from the task's defaults", _changes(run)),
        _section("Run", _run(run)),
        _section("World", _world(run)),
        _section("Budget", _budget(run)),
        _section("Memory of a process, about", _memory(run)),
        _section("Disk, about", _disk(run)),
        "Nothing was simulated or written. Leave out --dry_run to start.",
    ]
    return "\n".join(parts)


def _section(title: str, lines: Mapping[str, str]) -> str:
    width = max(_NAME_WIDTH, *(len(name) for name in lines)) if lines else _NAME_WIDTH
    rows = [f"  {name:<{width}}  {text}" for name, text in lines.items()]
    return "\n".join([title, *(rows or ["  nothing"]), ""])


def changes(defaults: Any, composed: Any, root: str) -> dict[str, tuple[Any, Any]]:
    """Return the values of a configuration that differ from its defaults, by path.

    Args:
        defaults: The configuration without flags and overrides.
        composed: The configuration with them.
        root: ``env`` or ``agent``.
    """
    then, now = _leaves(to_dict(defaults, root), root), _leaves(to_dict(composed, root), root)
    pairs = {
        path: (then.get(path, _ABSENT), now.get(path, _ABSENT))
        for path in dict.fromkeys([*then, *now])
    }
    return {path: pair for path, pair in pairs.items() if pair[0] != pair[1]}


def _leaves(values: Any, path: str) -> dict[str, Any]:
    """Return the values of nested dictionaries by dotted path."""
    if not isinstance(values, dict) or not values:
        return {path: values}
    leaves: dict[str, Any] = {}
    for name, value in values.items():
        leaves |= _leaves(value, f"{path}.{name}")
    return leaves


def _changes(run: DryRun) -> dict[str, str]:
    found = {
        **changes(run.defaults.env_cfg, run.plan.env_cfg, "env"),
        **changes(run.defaults.agent_cfg, run.plan.agent_cfg, "agent"),
    }
    for root, cfg in run.plan.guest_cfgs.items():
        found |= changes(type(cfg)(), cfg, root)
    return {path: f"{_plain(then)} -> {_plain(now)}" for path, (then, now) in found.items()}


def _plain(value: Any) -> str:
    return "null" if value is None else str(value)


def _run(run: DryRun) -> dict[str, str]:
    plan = run.plan
    lines = {"task": plan.task.id, "library": plan.library.name}
    lines |= plan.agent_cfg.origin
    if plan.num_members:
        share = plan.num_members // len(run.processes)
        lines["members"] = (
            f"{plan.num_members}, of which each process trains {share} one after another"
        )
    verb = "would be continued in" if plan.start.directory is not None else "would be made"
    lines["run directory"] = f"{run.directory} ({verb})"
    if plan.start.checkpoint is not None:
        lines["resume"] = f"{plan.start.checkpoint}, {_resume(run)}"
    seed = plan.agent_cfg.seed
    lines["seed"] = f"{seed} for networks, {plan.env_cfg.seed} for environments, " + (
        f"{seed} + rank for actions" if len(run.processes) > 1 else f"{seed} for actions"
    )
    return lines


def _resume(run: DryRun) -> str:
    """Return how much of a checkpoint would be restored; see ``Saver.restore``."""
    values = run.plan.start.saved
    assert values is not None
    count, seed, deals = len(run.processes), run.plan.agent_cfg.seed, run.plan.deals_environments
    how = resume_mode(values, count, run.num_envs, seed, deals=deals)
    at = f"iteration {values['iteration']}"
    if how == "as it was" and run.resumes_exactly:
        return f"{at}; everything continues"
    exactly = run.resumes_exactly
    return f"{at}; " + describe_resume(values, how, count, run.num_envs, resumes_exactly=exactly)


def _world(run: DryRun) -> dict[str, str]:
    count = len(run.processes)
    lines = {"processes": f"{count} over {run.backend}" if count > 1 else "1"}
    for rank, process in enumerate(run.processes):
        first, last = rank * run.num_envs, (rank + 1) * run.num_envs - 1
        threads = f"{process.num_threads} CPU thread{'' if process.num_threads == 1 else 's'}"
        lines[f"rank {rank}"] = (
            f"{process.node}, {process.device}, {threads}, environments {first} to {last}"
        )
    return lines


def _budget(run: DryRun) -> dict[str, str]:
    count, cfg = len(run.processes), run.cfg
    done = f", of which {run.iterations_done:,} are done" if run.iterations_done else ""
    each = f"{run.num_envs:,} per process, {run.num_envs * count:,} in all"
    saves = f"every {cfg.save_interval:,} iterations"
    if cfg.save_interval_minutes > 0:
        saves += f" and every {cfg.save_interval_minutes:g} minutes"
    kept = f"the last {cfg.keep_checkpoints} and the best are" if cfg.keep_checkpoints else "all"
    scaled = {f"agent.{path}": f"{value} per process" for path, value in run.scaled.items()}
    return {
        "environments": each if count > 1 else f"{run.num_envs:,}",
        "iteration": f"{cfg.num_steps_per_env} steps of each environment, "
        f"{run.frames_per_iteration:,} frames",
        "iterations": f"{run.total_iterations:,}{done}",
        "frames": f"{run.total_frames:,}",
        "checkpoints": f"{saves}, and at the end; {kept} kept",
        "audit": f"every {cfg.audit_interval:,} iterations" if count > 1 else "one process: none",
    } | scaled


def _memory(run: DryRun) -> dict[str, str]:
    largest = max((process.footprint for process in run.processes), key=lambda each: each.total)
    lines = {
        "built so far": f"{describe_size(largest.built)}, measured: libraries, environments, "
        f"networks of {largest.num_parameters:,} parameters",
        "replay memory"
        if run.has_replay_memory
        else "rollouts": f"{describe_size(largest.rollouts)}",
        "gradients": f"{describe_size(largest.gradients)}",
        "optimizer": f"{describe_size(largest.moments)}",
        "in all": f"{describe_size(largest.total)}, and briefly what an update needs"
        + (", and JAX's compiler (100 MiB or more)" if largest.compiles else ""),
    }
    for node, processes in _nodes(run):
        needed = sum(process.host_bytes for process in processes)
        built = sum(process.footprint.built for process in processes)
        free = processes[0].free_bytes + built
        verdict = "" if needed < free else ": TOO MUCH, use fewer environments or processes"
        count = f"{len(processes)} process{'' if len(processes) == 1 else 'es'}"
        lines[node] = (
            f"{describe_size(needed)} for {count}, of {describe_size(free)} for them{verdict}"
        )
    for rank, process in enumerate(run.processes):
        if process.gpu_bytes is not None:
            used, total = (describe_size(count) for count in process.gpu_bytes)
            more = describe_size(process.footprint.gradients + process.footprint.moments)
            lines[f"GPU of rank {rank}"] = (
                f"{used} of {total} in use now, by all programs; {more} to come"
            )
    return lines


def _nodes(run: DryRun) -> list[tuple[str, list[ProcessNeeds]]]:
    """Return the ranks of each node; launchers number those of a node consecutively."""
    nodes: list[tuple[str, list[ProcessNeeds]]] = []
    for process in run.processes:
        if process.local_rank == 0 or not nodes:
            nodes.append((f"node {len(nodes)}", []))
        nodes[-1][1].append(process)
    return nodes


def _disk(run: DryRun) -> dict[str, str]:
    one = run.checkpoint_bytes
    grows = ", once the replay memory is full" if run.has_replay_memory else ""
    left = run.total_iterations - run.iterations_done
    count = -(-left // run.cfg.save_interval)
    if run.cfg.keep_checkpoints:
        count = min(count, run.cfg.keep_checkpoints)
    needed = (count + 1) * one
    verdict = "" if needed < run.free_disk_bytes else ": TOO MUCH, make room or keep fewer"
    return {
        "a checkpoint": f"{describe_size(one)}{grows}",
        "the run": f"{describe_size(needed)} for {count} and the best, of "
        f"{describe_size(run.free_disk_bytes)} free{verdict}",
    }
