"""rsl_rl's distillation with the gradients of all ranks: a student imitates a frozen teacher.

The student acts, and learns the actions that the teacher would have taken in the states it visits
(DAgger: Ross et al. 2011).

A teacher may be the task's own policy by hand, or another library's, whose player acts alongside
the student; the student's checkpoints contain all of it (weights, configuration, manifest), so that
a resume needs no other file. Several specialists teach a student together, one for each clip that
robots follow, or for each kind of ground, as in Zhuang et al. 2023, "Robot Parkour Learning" (arXiv
2309.05665), where the policy of the obstacle ahead teaches; here it is the policy of the tile on
which the episode started.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rsl_rl.algorithms import Distillation
from tensordict import TensorDict
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.ddp import wrap_model
from envlab.envs import BatchedEnv
from envlab.envs.mdp.motion_command import motion_of
from envlab.envs.wrappers.rsl_rl import unpack
from envlab.errors import CheckpointError, ConfigurationError, did_you_mean
from envlab.learner import Player
from envlab.libraries import get_library
from envlab.rsl_rl._policies import load_policy
from envlab.training.arguments import play_parser
from envlab.training.inputs import check_task, trust_of
from envlab.training.plan import plan_run
from envlab.training.preparation import make_env

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


class Fields(NamedTuple):
    """The fields of a task's specialists: the clips to follow, or the kinds of ground."""

    word: str
    """``clip`` or ``sub-terrain``, for messages."""
    names: list[str]
    numbers: Callable[[], torch.Tensor]
    """Returns the number of each environment's, int64 ``(num_envs,)``."""


def fields_of(env: BatchedEnv) -> Fields:
    """Return the fields of a task's specialists.

    Raises:
        ConfigurationError: If the task has neither, or two clips of one name.
    """
    motion, terrain = motion_of(env), getattr(env, "terrain", None)
    if motion is not None:
        names = motion.clip_names
        if len(set(names)) < len(names):
            raise ConfigurationError(
                f"agent.teachers names a teacher for each clip, but clips share a name: "
                f"{', '.join(names)}. Rename their files."
            )
        return Fields("clip", names, lambda: motion.clip_numbers)
    if terrain is not None:
        return Fields("sub-terrain", terrain.kind_names, lambda: terrain.terrain_kinds)
    raise ConfigurationError(
        "agent.teachers names a teacher for each clip or sub-terrain, but this task has none. Give "
        "one teacher, by --checkpoint."
    )


class Specialists(nn.Module):
    """The interface of a teacher for rsl_rl's ``Distillation``, over one for each environment.

    All teachers observe all environments, and update their memories, if any, so that nothing waits
    for a device and a robot's new tile or clip only changes the selection.

    Attributes:
        models: Networks by the name of the clip or sub-terrain.
    """

    def __init__(self, model: Any, names: Iterable[str], env: BatchedEnv) -> None:
        """Copy a network for each name.

        Args:
            model: rsl_rl's network of ``agent.teacher``.
            names: Clips or sub-terrains.
            env: The environments, which are read when the teachers act.
        """
        super().__init__()
        self.models = nn.ModuleDict({name: copy.deepcopy(model) for name in names})
        self.is_recurrent = bool(model.is_recurrent)
        self._env = env

    def forward(self, obs: TensorDict) -> torch.Tensor:
        """Return the best actions of each environment's teacher, ``(num_envs, num_actions)``."""
        # Not before: a student is also built to play in tasks without clips or kinds of ground.
        _, names, numbers_of = fields_of(self._env)
        numbers = numbers_of().unsqueeze(1)
        chosen: torch.Tensor | None = None
        for name, model in self.models.items():
            actions = model(obs)
            is_own = (numbers == names.index(name)).to(actions.device)
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
    """Refuse teachers that do not match the clips or the ground's kinds.

    Raises:
        ConfigurationError: If the task has neither, or the names are not those of the teachers.
    """
    word, names, _ = fields_of(env)
    for name in teachers:
        if name not in names:
            raise ConfigurationError(
                f"agent.teachers names the {word} {name!r}, but the task has "
                f"{', '.join(names)}.{did_you_mean(name, names)}"
            )
    if missing := [name for name in names if name not in teachers]:
        raise ConfigurationError(
            f"agent.teachers has no teacher for {', '.join(missing)}. Give each {word} one, "
            f"such as +agent.teachers.{missing[0]}=PATH; it may be the same."
        )


TEACHER = "teacher"
"""Key of a teacher that is no network of rsl_rl in a student's checkpoint."""


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
        if isinstance(self._raw_teacher, Specialists):
            self._raw_teacher.load_policies(values["parts"])
        else:
            load_policy(self._raw_teacher, values, path, "teacher")
        self.teacher_loaded = True

    def imitate(self, teacher: GivenTeacher) -> None:
        """Use a teacher that is no network of rsl_rl, instead of ``agent.teacher``."""
        self.teacher = self._raw_teacher = teacher
        self.teacher_loaded = True

    def be_taught_by_specialists(self, names: Iterable[str], env: BatchedEnv) -> None:
        """Use a teacher for each clip or sub-terrain, each a network of ``agent.teacher``."""
        self.teacher = self._raw_teacher = Specialists(self._raw_teacher, names, env)

    def save(self) -> dict[str, Any]:
        values: dict[str, Any] = super().save()
        if isinstance(self._raw_teacher, GivenTeacher):
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
