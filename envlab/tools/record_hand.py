"""``envlab record hand``: episodes that a person steers in the viewer, in HDF5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch

from envlab.config import Override, compose, merge
from envlab.distributed.context import DistributedContext
from envlab.envs import ManagerEnv
from envlab.envs.managers.recorder import RecorderManager, RecorderManagerBaseCfg
from envlab.errors import ConfigurationError
from envlab.registry import load_env_cfg
from envlab.task import Task
from envlab.tools.hand import Hand
from envlab.training.flags import Flags
from envlab.training.plan import without_recorders
from envlab.training.viewing import HandViewer, check_viewing, start_viewing

LENGTH_S = 60.0
"""Time limit of an episode by hand, where the task's is shorter; overrides win."""


class KeptEpisodes(RecorderManager):
    """Writes the episodes that :meth:`keep` is called in, and no others."""

    def record_pre_reset(self, mask: torch.Tensor, success: torch.Tensor | None = None) -> None:
        """Write no episode: the task has ended one that the person did not keep."""

    def keep(self) -> bool:
        """Write the episode so far; return whether it succeeded, or True if nothing measures it."""
        everywhere = torch.ones(1, dtype=torch.bool)
        measured = self._env.success
        super().record_pre_reset(everywhere, everywhere if measured is None else None)
        return measured is None or bool(measured[0] > 0.5)


def make_env(task: Task, flags: Flags, overrides: Sequence[Override]) -> ManagerEnv:
    """Return one environment, which leaves a person time.

    Raises:
        ConfigurationError: For a task that is not manager-based, or several environments.
    """
    if flags.num_envs not in (None, 1):
        raise ConfigurationError(
            f"--num_envs={flags.num_envs}, but a hand moves one robot. Leave it out."
        )
    if flags.viz is None:
        raise ConfigurationError(
            "--viz is none, but a hand steers in the viewer. Leave it out, or use --viz web."
        )
    cfg = load_env_cfg(task)
    length_s = max(LENGTH_S, cfg.episode_length_s)
    cfg = merge(cfg, {"scene": {"num_envs": 1}, "episode_length_s": length_s}, "env")
    cfg = without_recorders(compose({"env": cfg}, overrides)["env"])
    env = task.make(cfg, context=DistributedContext.single(flags.device), seed=flags.seed)
    if not isinstance(env, ManagerEnv):
        env.close()
        raise ConfigurationError(
            f"{task.id} is a {task.kind} task, but a hand moves actions of manager-based tasks. "
            "Name one, such as Isaac-Reach-Franka-IK-Rel-v0."
        )
    return env


def record_hand(
    task: Task, env: ManagerEnv, flags: Flags, cfg: RecorderManagerBaseCfg, num_episodes: int
) -> int:
    """Let a visitor steer, and return how many episodes were kept.

    Args:
        task: The task.
        env: Its environment.
        flags: The viewer's.
        cfg: What is recorded, and where.
        num_episodes: Ends after so many.
    """
    hand = Hand(env, task.id)
    check_viewing(flags, env)
    recorder = env.recorder_manager = KeptEpisodes(cfg, env)
    title = f"{task.id}, by hand"
    viewer = start_viewing(flags, env, title=title, is_played=True, handles=hand.handles)
    assert viewer is not None, "record hand has a viewer"
    try:
        with torch.inference_mode():
            _Session(env, hand, recorder, cast(HandViewer, viewer)).run(num_episodes)
    finally:
        viewer.close()
    return recorder.num_episodes


class _Session:
    """A person's session of recording, one step after the other."""

    def __init__(
        self, env: ManagerEnv, hand: Hand, recorder: KeptEpisodes, viewer: HandViewer
    ) -> None:
        self._env, self._hand, self._recorder, self._viewer = env, hand, recorder, viewer

    def run(self, num_episodes: int) -> None:
        self._restart(is_open=False)
        while self._viewer.is_open and self._recorder.num_episodes < num_episodes:
            _, _, terminated, truncated, _ = self._env.step(self._hand.act(self._viewer.pushes))
            self._num_steps += 1
            if bool((terminated | truncated)[0]):
                self._tell_end(is_time_out=bool(truncated[0]))
            self._viewer.label = self._label(num_episodes)
            self._viewer.after_step()
            self._do_as_asked()

    def _restart(self, *, is_open: bool) -> None:
        """Reset the scene, and begin an episode if it is open."""
        self._env.reset()
        self._begin(is_open=is_open)

    def _begin(self, *, is_open: bool) -> None:
        self._hand.restart()
        self._is_open, self._num_steps = is_open, 0

    def _do_as_asked(self) -> None:
        viewer = self._viewer
        if viewer.wants("grips"):
            self._hand.is_closed = not self._hand.is_closed
        if viewer.wants("kept") and self._is_open:
            succeeded = self._recorder.keep()
            number = self._recorder.num_episodes - 1
            told = "" if succeeded else "; the task does not call it a success"
            print(f"Kept demo_{number}: {self._num_steps} steps{told}", flush=True)
            self._restart(is_open=False)
        if viewer.wants("discarded"):
            if self._is_open:
                print(f"Discarded: {self._num_steps} steps", flush=True)
            self._restart(is_open=False)
        if viewer.wants("begun"):
            self._restart(is_open=True)

    def _tell_end(self, *, is_time_out: bool) -> None:
        """Say that the task has ended and reset the episode."""
        if self._is_open:
            why = "its time was over" if is_time_out else "the task ended it"
            print(f"Discarded, as {why}: {self._num_steps} steps", flush=True)
        self._begin(is_open=False)

    def _label(self, num_episodes: int) -> str:
        kept = f"{self._recorder.num_episodes} of {num_episodes} kept"
        if not self._is_open:
            return f"not recording · {kept}"
        success = self._env.success
        found = "" if success is None or success[0] <= 0.5 else " · success"
        return f"● recording {self._num_steps * self._env.step_dt:.1f} s{found} · {kept}"
