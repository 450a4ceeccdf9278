"""Curriculum terms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.managers.function_term import FunctionTermCfg, ManagerTermBase
from envlab.envs.mdp.velocity_command import UniformVelocityCommand
from envlab.envs.random import check_bounds
from envlab.errors import ConfigurationError

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
