"""Teachers that are no network of rsl_rl: another library's policy, and the task's own by hand.

Another library's player acts alongside the student that imitates it. The student's checkpoints
contain all of it (weights, configuration, manifest), so that a resume needs no other file.
"""

from __future__ import annotations

import dataclasses
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.envs.wrappers.rsl_rl import unpack
from envlab.errors import CheckpointError
from envlab.learner import Player
from envlab.libraries import get_library
from envlab.training.arguments import play_parser
from envlab.training.plan import plan_run
from envlab.training.preparation import make_env
from envlab.training.trust import check_task, trust_of

NUM_ENVS = 2
"""Enough of the teacher's own task to make its networks; only their first observation is used."""


class GivenTeacher(nn.Module):
    """The interface of a teacher for rsl_rl's ``Distillation``, over what is no network of its.

    It has no parameters that rsl_rl sees, and no memory.

    Attributes:
        given: From what it is rebuilt after a resume, see
            :func:`envlab.training.opening.open_policy_of`.
    """

    is_recurrent = False

    def __init__(self, given: Mapping[str, Any]) -> None:
        super().__init__()
        self.given = given

    def reset(self, dones: Any = None, hidden_state: Any = None) -> None:
        """Do nothing: it has no memory."""

    def get_hidden_state(self) -> None:
        """Return that it has no memory."""


class ScriptedTeacher(GivenTeacher):
    """The task's policy by hand, which reads the environments and not their observations."""

    def __init__(self, given: Mapping[str, Any], policy: Any) -> None:
        super().__init__(given)
        self._policy = policy

    def forward(self, obs: TensorDict) -> torch.Tensor:
        """Return its actions, ``(num_envs, num_actions)``."""
        actions: torch.Tensor = self._policy.act()
        return actions


class PlayedTeacher(GivenTeacher):
    """A policy of another library."""

    def __init__(self, given: Mapping[str, Any], player: Player, groups: Sequence[str]) -> None:
        """Wrap a player.

        Args:
            given: The policy.
            player: Its player.
            groups: The observation groups of the student's task that it observes, in this order.
        """
        super().__init__(given)
        self._player, self._groups = player, tuple(groups)

    def forward(self, obs: TensorDict) -> torch.Tensor:
        """Return its best actions, ``(num_envs, num_actions)``."""
        seen = unpack(obs)
        parts = [seen[group] for group in self._groups]
        seen["policy"] = parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
        return self._player.act(seen)


def open_teacher(
    given: Mapping[str, Any],
    obs: TensorDict,
    num_actions: int,
    groups: Sequence[str],
    context: DistributedContext,
    trust: Sequence[str] | None = None,
) -> PlayedTeacher:
    """Open a policy of another library as a teacher.

    Args:
        given: The policy, see :func:`envlab.training.opening.open_policy_of`.
        obs: Observations of the student's task by group.
        num_actions: Number of actions of the student's task.
        groups: Groups that the teacher observes as its ``policy``.
        context: The process's context.
        trust: Modules that its files may name, as ``--trust`` does.

    Raises:
        CheckpointError: If it has different observations or actions, or a memory.
    """
    context = DistributedContext.single(str(context.device))
    library, facts = get_library(given["library"]), json.loads(given["files"]["run.json"])
    check_task(str(given["task"]), trust_of(trust))
    words = [f"--task={given['task']}", f"--device={context.device}"]
    flags, overrides = play_parser(library).parse_with_overrides(words)
    kind = {name: facts[name] for name in ("algorithm", "ml_framework") if name in facts}
    flags = dataclasses.replace(flags, **kind, trust=trust)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in given["files"].items():
            (Path(folder) / name).parent.mkdir(exist_ok=True)
            (Path(folder) / name).write_text(text)
        plan = plan_run(flags, overrides, library, Path(folder))
    plan = plan.in_env(NUM_ENVS, 0)
    env = make_env(plan, context)
    try:
        path = given["path"]
        seen = sum(obs[group][0].numel() for group in groups)
        expected = env.obs_buf["policy"][0].numel()
        if seen != expected:
            raise CheckpointError(
                f"The policy of {path} observes {expected} values, but agent.obs_groups.teacher "
                f"({', '.join(groups)}) has {seen} in this task. Name the groups that it was "
                "trained with, in a task that has them."
            )
        if env.actions.shape[1] != num_actions:
            raise CheckpointError(
                f"The policy of {path} has {env.actions.shape[1]} actions, but the task has "
                f"{num_actions}. Choose one of a task with the same actions."
            )
        env.episode_length_buf = torch.ones_like(env.episode_length_buf)
        player = library.load("player")(plan, env, context, dict(given))
        with torch.inference_mode():
            first, second = (player.act(env.obs_buf).clone() for _ in range(2))
        if not torch.equal(first, second):
            raise CheckpointError(
                f"The policy of {path} acts differently when it observes the same again: it has a "
                f"memory, or draws its actions. Of {library.name}, only teachers that do neither "
                "can be imitated."
            )
    finally:
        env.close()
    return PlayedTeacher(given, player, groups)
