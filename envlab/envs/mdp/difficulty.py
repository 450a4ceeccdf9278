"""A curriculum of difficulty: raised by success, and settings that move with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, resolve_entity
from envlab.envs.managers.function_term import FunctionTermCfg, ManagerTermBase
from envlab.envs.masks import assign
from envlab.envs.math import combine_frame_transforms, quat_error_magnitude
from envlab.envs.mdp.modifications import modify_env_param
from envlab.errors import ConfigurationError
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

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
