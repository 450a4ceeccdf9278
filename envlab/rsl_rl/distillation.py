"""rsl_rl's distillation with the gradients of all ranks: a student imitates a frozen teacher.

The student acts, and learns the actions that the teacher would have taken in the states it visits
(DAgger: Ross et al. 2011).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from rsl_rl.algorithms import Distillation
from torch import nn

from envlab.distributed.ddp import wrap_model
from envlab.envs import BatchedEnv
from envlab.rsl_rl.policies import load_policy
from envlab.rsl_rl.teacher import PlayedTeacher, TeachersByGround

TEACHER = "teacher"
"""Key of a teacher of another library in a student's checkpoint."""


class DistributedDistillation(Distillation):
    """Distillation with gradients of all ranks, and memories that survive updates."""

    student: Any
    teacher: Any
    _raw_teacher: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._uses_ddp = False

    @property
    def networks(self) -> dict[str, nn.Module]:
        """The networks by name, with the learning one first."""
        return {"student": self._raw_student, "teacher": self._raw_teacher}

    def wrap(self) -> None:
        """Average the gradients by torch's DistributedDataParallel instead of the library.

        The parameters of the student's exploration do not affect the loss, and are frozen.
        """
        obs = self.storage.observations[0]

        def compute_loss(student: nn.Module) -> torch.Tensor:
            actions: torch.Tensor = student(obs)
            return actions.sum()

        self.student = wrap_model(self._raw_student, compute_loss)
        self.student.reset()
        self._uses_ddp = True

    def reduce_parameters(self) -> None:
        if not self._uses_ddp:
            super().reduce_parameters()

    def begin(self, number: int) -> None:
        """Prepare for an iteration."""

    def begin_with(self, values: Mapping[str, Any], path: str) -> None:
        """Use the policy of a checkpoint as the teacher.

        Raises:
            CheckpointError: If it does not fit the configured network, or the task.
        """
        if isinstance(self._raw_teacher, TeachersByGround):
            self._raw_teacher.load_policies(values["parts"])
        else:
            load_policy(self._raw_teacher, values, path, "teacher")
        self.teacher_loaded = True

    def imitate(self, teacher: PlayedTeacher) -> None:
        """Use a policy of another library as the teacher, instead of ``agent.teacher``."""
        self.teacher = self._raw_teacher = teacher
        self.teacher_loaded = True

    def be_taught_by_ground(self, names: Iterable[str], env: BatchedEnv) -> None:
        """Use a teacher for each sub-terrain, each a network of ``agent.teacher``."""
        self.teacher = self._raw_teacher = TeachersByGround(self._raw_teacher, names, env)

    def save(self) -> dict[str, Any]:
        values: dict[str, Any] = super().save()
        if isinstance(self._raw_teacher, PlayedTeacher):
            values[TEACHER] = dict(self._raw_teacher.given)
        return values

    def load(self, loaded_dict: dict[str, Any], load_cfg: Any, strict: bool) -> bool:
        if TEACHER in loaded_dict:  # which already acts, or is not needed to play the student
            load_cfg = {"student": True, "optimizer": True, "iteration": True}
        return bool(super().load(loaded_dict, load_cfg, strict))

    def update(self) -> dict[str, float]:
        """Learn from the rollout, and restore the teacher's memory, which rsl_rl loses."""
        memory = self.teacher.get_hidden_state()
        losses: dict[str, float] = super().update()
        self.teacher.reset(hidden_state=memory)
        self.last_hidden_states = (self.student.get_hidden_state(), None)
        return losses

    def memories(self) -> dict[str, Any]:
        """Return the memories of the networks, None for those that are not recurrent."""
        return {name: model.get_hidden_state() for name, model in self.networks.items()}  # type: ignore[operator]

    def set_memories(self, memories: Mapping[str, Any]) -> None:
        """Restore what :meth:`memories` returned."""
        for name, model in self.networks.items():
            model.reset(hidden_state=memories[name])  # type: ignore[operator]
        self.last_hidden_states = (memories["student"], None)
