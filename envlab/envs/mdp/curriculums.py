"""Curricula of weights, commands and terminations, and a difficulty that successes raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, resolve_entity
from envlab.envs.managers.function_term import FunctionTermCfg, ManagerTermBase
from envlab.envs.masks import assign
from envlab.envs.math import combine_frame_transforms, quat_error_magnitude
from envlab.envs.mdp.modifications import modify_env_param
from envlab.envs.mdp.velocity_command import UniformVelocityCommand
from envlab.envs.random import check_bounds
from envlab.errors import ConfigurationError
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv


def modify_reward_weight(
    env: ManagerEnv, mask: torch.Tensor, term_name: str, weight: float, num_steps: int
) -> float:
    """Set the weight of a reward term once the environment has made ``num_steps`` steps."""
    if env.common_step_counter > num_steps:
        env.reward_manager.set_weight(term_name, weight)
    return env.reward_manager.get_weight(term_name)


def reward_curriculum(
    env: ManagerEnv, mask: torch.Tensor, reward_name: str, stages: Sequence[Mapping[str, Any]]
) -> dict[str, float]:
    """Change a reward's weight and parameters in stages, as mjlab 1.6.0's.

    Args:
        env: The environment.
        mask: Environments whose episodes end, bool ``(num_envs,)``; not needed.
        reward_name: The reward's term.
        stages: In the order of their steps. Each has ``step``, the number of the environment's
            steps after which it applies, and any of ``weight`` and ``params``; the others stay
            unchanged.

    Returns:
        Weight and parameters that stages change, if they are numbers.

    Raises:
        ConfigurationError: If there is no such reward or parameter, or stages have other keys or
            are in another order.
    """
    rewards = env.reward_manager
    weight, params = rewards.get_weight(reward_name), rewards.get_params(reward_name)
    named: dict[str, Any] = {}
    _check_stages(stages, f"reward {reward_name!r}", "a reward", ("weight", "params"))
    for stage in stages:
        named |= stage.get("params", {})
        if env.common_step_counter >= stage["step"]:
            weight = stage.get("weight", weight)
            params |= stage.get("params", {})
    if not named.keys() <= params.keys():  # including those of later stages
        rewards.check_params(reward_name, named)
    rewards.set_weight(reward_name, weight)
    rewards.set_params(reward_name, {name: params[name] for name in named if name in params})
    numbers = {name: params.get(name) for name in named} | {"weight": weight}
    return {name: float(one) for name, one in numbers.items() if isinstance(one, int | float)}


def commands_vel(
    env: ManagerEnv,
    mask: torch.Tensor,
    command_name: str,
    velocity_stages: Sequence[Mapping[str, Any]],
) -> float:
    """Draw velocities from other ranges once the environment has made a stage's steps.

    As mjlab 1.6.0's, which changes them at the first reset after these steps.

    Args:
        env: The environment.
        mask: Environments whose episodes end, bool ``(num_envs,)``; not needed.
        command_name: A velocity command.
        velocity_stages: In the order of their steps. Each has ``step``, from which on it counts,
            and any of ``lin_vel_x``, ``lin_vel_y`` (m/s) and ``ang_vel_z`` (rad/s), each
            ``(lower, upper)``; the others stay those of the stage before.

    Returns:
        The greatest forward velocity that may now be drawn, in m/s.

    Raises:
        ConfigurationError: If the command is not a velocity, or a stage has other keys or a range
            whose ends are swapped.
    """
    term = env.command_manager.get_term(command_name)
    if not isinstance(term, UniformVelocityCommand):
        raise ConfigurationError(
            f"Stages of velocities are for a UniformVelocityCommandCfg, but the command "
            f"{command_name!r} is a {type(term.cfg).__name__}."
        )
    reached: dict[str, Any] = {}
    for stage in velocity_stages:
        _check_keys(stage, "velocities", _VELOCITIES)
        check_bounds([stage[name] for name in _VELOCITIES if name in stage])
        if env.common_step_counter >= stage["step"]:
            reached |= stage
    reached.pop("step", None)
    term.set_ranges(**reached)
    return term.ranges.lin_vel_x[1]


class termination_curriculum(ManagerTermBase):
    """Changes a termination's parameters in stages, as mjlab 1.6.0's."""

    def __init__(self, cfg: FunctionTermCfg, env: ManagerEnv) -> None:
        super().__init__(cfg, env)
        self.env: ManagerEnv = env
        self._name, self._stages = cfg.params["termination_name"], cfg.params["stages"]
        _check_stages(self._stages, f"termination {self._name!r}", "a termination", ("params",))
        self._original = env.termination_manager.get_params(self._name)
        self._names = sorted({name for stage in self._stages for name in stage.get("params", {})})
        env.termination_manager.check_params(self._name, self._names)

    def __call__(
        self,
        env: ManagerEnv,
        mask: torch.Tensor,
        termination_name: str,
        stages: Sequence[Mapping[str, Any]],
    ) -> dict[str, float]:
        """Apply the stages whose step is reached, from the next step on.

        Args:
            env: The environment.
            mask: Environments whose episodes end, bool ``(num_envs,)``; not needed.
            termination_name: The termination's term.
            stages: In the order of their steps. Each has ``step``, the number of the environment's
                steps after which it applies, and ``params``; the others stay unchanged.

        Returns:
            Parameters that stages change, if they are numbers.
        """
        now = self._original | self._reached()
        if now != env.termination_manager.get_params(self._name):
            env.at_next_step(self._apply)
        numbers = {name: now.get(name) for name in self._names}
        return {name: float(one) for name, one in numbers.items() if isinstance(one, int | float)}

    def on_restore(self) -> None:
        """Apply the stages of a restored run before its next step."""
        self._apply()

    def _reached(self) -> dict[str, Any]:
        """Return the parameters of the stages whose step is reached."""
        params: dict[str, Any] = {}
        for stage in self._stages:
            if self.env.common_step_counter >= stage["step"]:
                params |= stage.get("params", {})
        return params

    def _apply(self) -> None:
        self.env.termination_manager.set_params(self._name, self._original | self._reached())


_VELOCITIES = ("lin_vel_x", "lin_vel_y", "ang_vel_z")


def _check_keys(stage: Mapping[str, Any], owner: str, known: Sequence[str]) -> None:
    unknown = [name for name in stage if name not in ("step", *known)]
    if unknown or "step" not in stage:
        wrong = f"has the key {unknown[0]!r}" if unknown else "has no 'step'"
        raise ConfigurationError(
            f"A stage of {owner} {wrong}; it has step and any of {', '.join(known)}."
        )


def _check_stages(
    stages: Sequence[Mapping[str, Any]], whose: str, owner: str, known: Sequence[str]
) -> None:
    previous = 0
    for stage in stages:
        _check_keys(stage, owner, known)
        if stage["step"] < previous:
            raise ConfigurationError(
                f"A stage of the {whose} at step {stage['step']} stands after one at step "
                f"{previous}. Put stages in the order of their steps."
            )
        previous = stage["step"]


_ROBOT: Any = SceneEntityCfg("robot")


class DifficultyScheduler(ManagerTermBase):
    """Raises an environment's difficulty with each success, and lowers it with each failure.

    As Isaac Lab's, for Dexsuite's tasks; with ``pos_tol`` null for any task with ``success``.

    Attributes:
        current_adr_difficulties: Each environment's difficulty, ``(num_envs,)``.
        difficulty_frac: Their mean over all processes, divided by the maximum, every 16 steps.
    """

    STATE = State(per_env=("current_adr_difficulties",), shared=("difficulty_frac",))

    def __init__(self, cfg: FunctionTermCfg, env: ManagerEnv) -> None:
        super().__init__(cfg, env)
        first = float(cfg.params.get("init_difficulty", 0))
        self.current_adr_difficulties = torch.full((env.num_envs,), first, device=env.device)
        self.difficulty_frac = first / max(cfg.params.get("max_difficulty", 50), 1)
        self._object: SceneEntity | None = cfg.params.get("object_cfg")
        if self._object is None and cfg.params.get("pos_tol", 0.1) is not None:
            self._object = resolve_entity(SceneEntityCfg("object"), env.sim.model, env.device)

    def __call__(
        self,
        env: ManagerEnv,
        mask: torch.Tensor,
        asset_cfg: SceneEntity = _ROBOT,
        object_cfg: SceneEntity | None = None,
        pos_tol: float | None = 0.1,
        rot_tol: float | None = None,
        init_difficulty: int = 0,
        min_difficulty: int = 0,
        max_difficulty: int = 50,
        promotion_only: bool = False,
        command_name: str = "object_pose",
    ) -> torch.Tensor:
        """Judge the episodes that end.

        Args:
            env: The environment.
            mask: Environments whose episodes end, bool ``(num_envs,)``.
            asset_cfg: The robot, in whose frame the command is a pose.
            object_cfg: The object that should reach that pose; null: ``object``.
            pos_tol: Distance within which it succeeds, in m; null: the task's own ``success``.
            rot_tol: Angle within which it succeeds, in rad; null: any.
            init_difficulty: The first difficulty.
            min_difficulty: The lowest.
            max_difficulty: The highest.
            promotion_only: Whether nothing lowers it.
            command_name: The command.

        Returns:
            The mean over this process's environments, over the greatest.
        """
        if pos_tol is not None:
            reached = self._is_there(env, asset_cfg, command_name, pos_tol, rot_tol)
        elif env.success is not None:
            reached = env.success >= 0.5
        else:
            raise ConfigurationError(
                "DifficultyScheduler has pos_tol=null, which means the task's success, but "
                "env.success is null. Set one of them."
            )
        levels = self.current_adr_difficulties
        step = torch.where(reached, 1.0, 0.0 if promotion_only else -1.0)
        assign(levels, mask, (levels + step).clamp(min_difficulty, max_difficulty))
        greatest = max(max_difficulty, 1)
        if env.common_step_counter % 16 == 0:
            total = float(env.context.sum(levels.sum()))
            everyone = env.num_envs * env.context.world_size
            self.difficulty_frac = total / everyone / greatest
        return levels.mean() / greatest

    def _is_there(
        self,
        env: ManagerEnv,
        asset_cfg: SceneEntity,
        command_name: str,
        pos_tol: float,
        rot_tol: float | None,
    ) -> torch.Tensor:
        data, command = env.sim.data, env.command_manager.get_command(command_name)
        assert self._object is not None
        pos, quat = combine_frame_transforms(
            data.xpos[:, asset_cfg.root_body],
            data.xquat[:, asset_cfg.root_body],
            command[:, :3],
            command[:, 3:7],
        )
        distance = (pos - data.qpos[:, self._object.root_pos]).norm(dim=1)
        if rot_tol is None:
            return distance < pos_tol
        angle = quat_error_magnitude(quat, data.qpos[:, self._object.root_quat])
        return (distance < pos_tol) & (angle < rot_tol)


def initial_final_interpolate_fn(
    env: ManagerEnv,
    mask: torch.Tensor,
    value: Any,
    initial_value: Any,
    final_value: Any,
    difficulty_term_str: str,
) -> Any:
    """Return a value between two by the difficulty, for ``modify_fn`` of :class:`modify_term_cfg`.

    Args:
        env: The environment.
        mask: Not needed.
        value: The present one, a number or numbers in lists and tuples.
        initial_value: That of difficulty 0.
        final_value: That of the highest difficulty.
        difficulty_term_str: The curriculum's term that is a :class:`DifficultyScheduler`.
    """
    name = f"curriculum.{difficulty_term_str}"
    scheduler = env.memories.get(name)
    if not isinstance(scheduler, DifficultyScheduler):
        raise ConfigurationError(f"There is no DifficultyScheduler at env.{name}.")
    share = scheduler.difficulty_frac
    if share < 0.1:  # as Isaac Lab's
        return modify_env_param.NO_CHANGE
    return _between(value, initial_value, final_value, share)


def _between(value: Any, initial: Any, final: Any, share: float) -> Any:
    if isinstance(value, list | tuple):
        parts = zip(value, initial, final, strict=True)
        return type(value)(_between(*part, share) for part in parts)
    between = share * (final - initial) + initial
    return int(between) if isinstance(value, int) else float(between)
