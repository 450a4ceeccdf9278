"""``envlab replay``: recorded episodes again, by their actions or their states."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envlab.arguments import ArgumentParser
from envlab.config import Override, compose, merge
from envlab.distributed.context import DistributedContext
from envlab.envs import ManagerEnv, ManagerEnvCfg
from envlab.envs.dataset_file import Dataset, open_dataset
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from envlab.training.arguments import agent_parser
from envlab.training.flags import Flags
from envlab.training.video import VideoRecorder
from envlab.training.viewing import check_viewing, start_viewing

TOLERANCE = 0.01
"""Difference of a state from the recorded one, in m, rad, m/s or rad/s, that is reported."""


def main(arguments: Sequence[str]) -> int:
    """Play the episodes, print how far each followed its record, and return 0.

    Raises:
        EnvlabError: For a file that is none, or of another task.
    """
    flags, others = _parser().parse_known_args(list(arguments))
    with open_dataset(flags.file) as dataset:
        task_id = flags.task or dataset.task
        if not task_id:
            raise ConfigurationError(f"{flags.file} does not say of which task it is. Add --task.")
        viewing, overrides = agent_parser("replay").parse_with_overrides(
            [f"--task={task_id}", *others]
        )
        env = _make(viewing, overrides, renders=flags.video is not None)
        check_viewing(viewing, env)
        viewer = start_viewing(viewing, env, title=f"{flags.file}, {flags.mode}")
        try:
            for name in flags.episodes or dataset.names:
                video = None
                if flags.video:
                    video = VideoRecorder(env, flags.video / name, length=1 << 31, interval=None)
                shown = [part for part in (viewer, video) if part is not None]
                episode = Episode(dataset, name, env)
                print(f"{name}: {episode.play(flags.mode, flags.tolerance, shown)}")
                if video is not None:
                    video.close()
                if viewer is not None and not viewer.is_open:
                    break
        finally:
            if viewer is not None:
                viewer.close()
            env.close()
    return 0


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="envlab replay",
        description="Play recorded episodes again; other flags are those of envlab random.",
    )
    parser.add_argument("file", type=Path, help="episodes in HDF5, of envlab record or Isaac Lab")
    parser.add_argument("--task", metavar="ID", help="task id (default: the file's)")
    parser.add_argument(
        "--mode",
        choices=["actions", "states"],
        default="actions",
        help="what is played (default: actions)",
    )
    parser.add_argument(
        "--episodes", nargs="+", metavar="NAME", help="such as demo_0 (default: all)"
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=TOLERANCE,
        metavar="X",
        help=f"difference of states that is reported, in m and rad (default: {TOLERANCE})",
    )
    parser.add_argument(
        "--video", type=Path, metavar="FOLDER", help="write a video of each episode into it"
    )
    return parser


def _make(viewing: Flags, overrides: Sequence[Override], *, renders: bool) -> ManagerEnv:
    """Return one environment, whose episodes end with their records, and not before."""
    task = get_task(viewing.task)
    cfg = compose({"env": load_env_cfg(task)}, overrides)["env"]
    if not isinstance(cfg, ManagerEnvCfg):
        raise ConfigurationError(
            f"{task.id} is a {task.kind} task, but only manager-based tasks are recorded with "
            "their states. Name the task of the record by --task."
        )
    cfg = merge(cfg, {"scene": {"num_envs": 1}}, "env")
    cfg = dataclasses.replace(cfg, terminations=_Nothing(), curriculum=None, recorders=None)
    env: ManagerEnv = task.make(
        cfg,
        context=DistributedContext.single(viewing.device),
        seed=viewing.seed,
        render_mode="rgb_array" if renders else None,
    )
    return env


@dataclasses.dataclass
class _Nothing:
    """No terms."""


class Episode:
    """An episode of a file, to be played in one environment."""

    def __init__(self, dataset: Dataset, name: str, env: ManagerEnv) -> None:
        """Read it.

        Raises:
            ConfigurationError: If it has no state to begin with, or is not of this task.
        """
        arrays, _ = dataset.episode(name)
        self._name, self._env = name, env
        self._first = _tree(arrays, "initial_state")
        self._states = _tree(arrays, "states")
        self._actions = torch.as_tensor(arrays.get("actions", np.zeros((0, 0)))).float()
        _check(name, "initial_state", self._first, env.scene.get_state())
        if self._states:
            _check(name, "states", self._states, env.scene.get_state())
        if self._actions.shape[1:] != env.actions.shape[1:]:
            raise ConfigurationError(
                f"The episode {name!r} has {self._actions.shape[-1]} actions, but the task has "
                f"{env.actions.shape[1]}. Name its own task by --task."
            )

    def play(self, mode: str, tolerance: float, shown: Sequence[Any]) -> str:
        """Play it.

        Args:
            mode: ``actions`` or ``states``.
            tolerance: The difference of states that is reported.
            shown: Viewers and recorders, called after each step.

        Returns:
            A sentence of what became of it.
        """
        env, num_steps = self._env, len(self._actions)
        everyone = torch.ones(1, dtype=torch.bool, device=env.device)
        env.reset()
        env.scene.reset_to(_row(self._first, 0, env), everyone, is_relative=True)
        if mode == "states" and not self._states:
            raise ConfigurationError(
                f"The episode {self._name!r} holds no states. Play its actions, --mode=actions."
            )
        parted = ""
        for step in range(num_steps):
            wanted = _row(self._states, step, env) if self._states else {}
            if mode == "states":
                env.scene.reset_to(wanted, everyone, is_relative=True)
            else:
                env.step(self._actions[step : step + 1].to(env.device))
                if not parted and wanted:
                    parted = _difference(env.scene.get_state(is_relative=True), wanted, tolerance)
                    parted = parted and f"; from step {step + 1} on, {parted}"
            for part in shown:
                part.after_step()
        if mode == "states":
            return f"{num_steps} states"
        followed = "" if not self._states else "; all states are as recorded"
        return f"{num_steps} actions{parted or followed}"


def _tree(arrays: Mapping[str, np.ndarray], root: str) -> dict[str, Any]:
    """Return the arrays below a path, as :meth:`Scene.get_state` has them."""
    tree: dict[str, Any] = {}
    for path, values in arrays.items():
        first, _, rest = path.partition("/")
        if first == root and rest.count("/") == 2:
            kind, thing, name = rest.split("/")
            tree.setdefault(kind, {}).setdefault(thing, {})[name] = values
    return tree


def _row(tree: Mapping[str, Any], step: int, env: ManagerEnv) -> dict[str, Any]:
    """Return a step of a tree, in tensors of one environment."""
    return {
        kind: {
            thing: {
                name: torch.as_tensor(values[step : step + 1]).float().to(env.device)
                for name, values in parts.items()
            }
            for thing, parts in things.items()
        }
        for kind, things in tree.items()
    }


def _check(name: str, root: str, tree: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    """Refuse states that are not those of the task's things."""
    for kind, things in own.items():
        for thing, parts in things.items():
            for part, values in parts.items():
                found = tree.get(kind, {}).get(thing, {}).get(part)
                shape = None if found is None else found.shape[1:]
                if shape != values.shape[1:]:
                    what = "no such array" if shape is None else f"rows of {shape}"
                    raise ConfigurationError(
                        f"The task has {kind}/{thing}/{part} with rows of "
                        f"{tuple(values.shape[1:])}, but {root} of the episode {name!r} has "
                        f"{what}. Name the task of the record by --task."
                    )


def _difference(found: Mapping[str, Any], wanted: Mapping[str, Any], tolerance: float) -> str:
    """Return what differs most, if by more than the tolerance."""
    largest, where = tolerance, ""
    for kind, things in found.items():
        for thing, parts in things.items():
            for part, values in parts.items():
                expected = wanted[kind][thing][part]
                apart = (values - expected).abs()
                if part == "root_pose":  # q and -q are one orientation
                    other = (values[:, 3:] + expected[:, 3:]).abs()
                    apart = torch.cat((apart[:, :3], torch.minimum(apart[:, 3:], other)), dim=1)
                if (most := float(apart.max())) > largest:
                    largest, where = most, f"{thing}'s {part} differs by {most:.3g}"
    return where
