"""One teacher for each kind of ground: a student of several specialists.

As in Zhuang et al. 2023, "Robot Parkour Learning" (arXiv 2309.05665), where the policy of the
obstacle ahead teaches; here it is the policy of the tile on which the episode started.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from tensordict import TensorDict
from torch import nn

from envlab.envs import BatchedEnv
from envlab.errors import CheckpointError, ConfigurationError, did_you_mean
from envlab.rsl_rl.policies import load_policy


class TeachersByGround(nn.Module):
    """The interface of a teacher for rsl_rl's ``Distillation``, over one for each environment.

    All teachers observe all environments, and update their memories, if any, so that nothing waits
    for a device and a robot's new tile only changes the selection.

    Attributes:
        models: Networks by the name of the sub-terrain.
    """

    def __init__(self, model: Any, names: Iterable[str], env: BatchedEnv) -> None:
        """Copy a network for each kind.

        Args:
            model: rsl_rl's network of ``agent.teacher``.
            names: Sub-terrains.
            env: The environments, whose ground is read when the teachers act.
        """
        super().__init__()
        self.models = nn.ModuleDict({name: copy.deepcopy(model) for name in names})
        self.is_recurrent = bool(model.is_recurrent)
        self._env = env

    def forward(self, obs: TensorDict) -> torch.Tensor:
        """Return the best actions of each environment's teacher, ``(num_envs, num_actions)``."""
        terrain: Any = self._env.terrain  # type: ignore[attr-defined]
        numbers = {name: number for number, name in enumerate(terrain.kind_names)}
        kinds = terrain.terrain_kinds.unsqueeze(1)
        chosen: torch.Tensor | None = None
        for name, model in self.models.items():
            actions = model(obs)
            is_own = (kinds == numbers[name]).to(actions.device)
            chosen = actions if chosen is None else torch.where(is_own, actions, chosen)
        assert chosen is not None
        return chosen

    def reset(self, dones: torch.Tensor | None = None, hidden_state: Any = None) -> None:
        """Reset the memories of done environments, or restore those of :meth:`get_hidden_state`."""
        memories = [None] * len(self.models) if hidden_state is None else hidden_state
        for model, memory in zip(self.models.values(), memories, strict=True):
            model.reset(dones, memory)  # type: ignore[operator]

    def get_hidden_state(self) -> tuple[Any, ...] | None:
        """Return the memories in the order of the names, None if there are none."""
        memories = tuple(model.get_hidden_state() for model in self.models.values())  # type: ignore[operator]
        return None if any(memory is None for memory in memories) else memories

    def load_policies(self, given: Mapping[str, Mapping[str, Any]]) -> None:
        """Load policies of checkpoints, by the paths ``agent.teachers.<name>``.

        Raises:
            CheckpointError: If a policy is of another library, or does not fit.
        """
        for path, policy in given.items():
            if policy["library"] != "rsl_rl":
                raise CheckpointError(
                    f"{path} is a policy of {policy['library']} ({policy['path']}), but several "
                    "teachers must be rsl_rl's. Distil that one alone, by --checkpoint."
                )
            load_policy(self.models[path.rpartition(".")[2]], policy, policy["path"], "teacher")


def check_teachers(teachers: Mapping[str, str], env: BatchedEnv) -> None:
    """Refuse teachers that do not match the ground's kinds.

    Raises:
        ConfigurationError: If there is no ground, a kind has no teacher, or a teacher no kind.
    """
    terrain = getattr(env, "terrain", None)
    if terrain is None:
        raise ConfigurationError(
            "agent.teachers names a teacher for each sub-terrain, but this task has none. Give "
            "one teacher, by --checkpoint."
        )
    names = terrain.kind_names
    for name in teachers:
        if name not in names:
            raise ConfigurationError(
                f"agent.teachers names the sub-terrain {name!r}, but the task has "
                f"{', '.join(names)}.{did_you_mean(name, names)}"
            )
    if missing := [name for name in names if name not in teachers]:
        raise ConfigurationError(
            f"agent.teachers has no teacher for {', '.join(missing)}. Give each sub-terrain one, "
            f"such as +agent.teachers.{missing[0]}=PATH; it may be the same."
        )
