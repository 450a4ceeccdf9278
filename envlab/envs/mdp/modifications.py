"""Curricula that change any setting while training, and remember what they changed."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from envlab.envs.entities import SceneEntity, SceneEntityCfg, resolve_entity
from envlab.envs.managers.function_term import (
    FunctionTermCfg,
    ManagerTermBase,
    check_names,
    record_anew,
)
from envlab.envs.masks import assign
from envlab.envs.math import combine_frame_transforms, quat_error_magnitude
from envlab.envs.mdp.velocity_command import UniformVelocityCommand
from envlab.errors import ConfigurationError
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")


class modify_env_param(ManagerTermBase):
    """Changes an attribute of the environment at a dotted address, as Isaac Lab's.

    The new value counts from the next step, and a resumed run has it, too. Steps recorded as graphs
    are then recorded anew, unless the attribute is a tensor, which is written in place at once.
    """

    NO_CHANGE: ClassVar[object] = object()
    """What ``modify_fn`` returns to leave the value as it is."""
    STATE = State(shared=("new_value",))

    def __init__(self, cfg: FunctionTermCfg, env: ManagerEnv) -> None:
        super().__init__(cfg, env)
        self.env: ManagerEnv = env
        self._address: str = cfg.params["address"]
        self._path = [part for part in re.split(r"[.\[\]]+", self._address) if part]
        value = self._read()
        is_tensor = isinstance(value, torch.Tensor)
        if is_tensor and value.shape[:1] == (env.num_envs,):
            raise ConfigurationError(
                f"The address {self._address!r} is a tensor with a row for each environment, which "
                "no curriculum remembers for all processes. Write a term that is a class instead."
            )
        self._original = value.clone() if is_tensor else value
        self.new_value: Any = None
        """The value that has been set; None: none."""

    def __call__(
        self,
        env: ManagerEnv,
        mask: torch.Tensor,
        address: str,
        modify_fn: Callable[..., Any],
        modify_params: Mapping[str, Any] | None = None,
    ) -> float | None:
        """Set what a function returns for the present value.

        Args:
            env: The environment.
            mask: Environments whose episodes end, bool ``(num_envs,)``.
            address: ``reward_manager.some.attribute``, with ``[0]`` or ``.key`` for items.
            modify_fn: ``modify_fn(env, mask, value, **modify_params)`` returns the new value, the
                same on all processes, or :attr:`NO_CHANGE`.
            modify_params: Its further parameters.

        Returns:
            The value, if it is a number.
        """
        value = self._read()
        new = modify_fn(env, mask, value, **(modify_params or {}))
        if new is not self.NO_CHANGE and not env.is_rehearsing:
            if isinstance(value, torch.Tensor):
                self._write(new)
                self.new_value = value.clone()
            elif new != value:
                env.at_next_step(functools.partial(self._write, new))
                self.new_value = value = new
        return float(value) if isinstance(value, int | float) else None

    def before_restore(self) -> None:
        """Return to the task's own value."""
        self._write(self._original)
        self.new_value = None

    def on_restore(self) -> None:
        """Set what the restored run had set."""
        if self.new_value is not None:
            self._write(self.new_value)

    def _read(self) -> Any:
        return self._walk(self.env, self._path)

    def _write(self, new: Any) -> None:
        *path, last = self._path
        holder = self._walk(self.env, path)
        old = self._step(holder, last)
        if isinstance(old, torch.Tensor):
            old.copy_(torch.as_tensor(new))
            return
        if isinstance(holder, list):
            holder[int(last)] = new
        elif isinstance(holder, dict):
            holder[last] = new
        else:
            setattr(holder, last, new)
        if new != old:
            record_anew(self.env)

    def _walk(self, place: Any, path: Sequence[str]) -> Any:
        for name in path:
            place = self._step(place, name)
        return place

    def _step(self, place: Any, name: str) -> Any:
        try:
            if isinstance(place, list | tuple):
                return place[int(name)]
            return place[name] if isinstance(place, Mapping) else getattr(place, name)
        except (AttributeError, IndexError, KeyError, ValueError):
            raise ConfigurationError(
                f"A curriculum changes {self._address!r}, but {type(place).__name__} has no "
                f"{name!r}."
            ) from None


class modify_term_cfg(modify_env_param):
    """Changes a setting of a term: ``rewards.NAME.weight``, ``rewards.NAME.params.KEY``.

    Likewise ``terminations.NAME.params.KEY``, ``events.NAME.params.KEY``, and any field of a
    command, ``commands.NAME.ranges.lin_vel_x``. The parameters are those of
    :class:`modify_env_param`.
    """

    def __init__(self, cfg: FunctionTermCfg, env: ManagerEnv) -> None:
        super().__init__(cfg, env)
        kind, name = self._path[:2]
        if kind == "commands" and isinstance(
            env.command_manager.get_term(name), UniformVelocityCommand
        ):
            self._write(self._original)  # it allocates what graphs read

    def _read(self) -> Any:
        kind, name, rest = self._parts()
        if kind == "rewards" and rest == ["weight"]:
            return self.env.reward_manager.get_weight(name)
        if kind == "commands":
            term = self.env.command_manager.get_term(name)
            is_velocity = isinstance(term, UniformVelocityCommand) and rest[0] == "ranges"
            return self._walk(term if is_velocity else term.cfg, rest)
        params = self._manager(kind).get_params(name)
        if rest[1] in params:
            return params[rest[1]]
        func = getattr(getattr(self.env.cfg, kind), name).func
        check_names(func, rest[1:])
        call = func.__call__ if inspect.isclass(func) else func
        return inspect.signature(call).parameters[rest[1]].default

    def _write(self, new: Any) -> None:
        kind, name, rest = self._parts()
        if kind == "rewards" and rest == ["weight"]:
            self.env.reward_manager.set_weight(name, new)
        elif kind == "commands":
            term = self.env.command_manager.get_term(name)
            if isinstance(term, UniformVelocityCommand) and rest[0] == "ranges":
                term.set_ranges(**{**vars(term.ranges), rest[1]: tuple(new)})
            elif self._read() != new:
                term.cfg = _replaced(term.cfg, rest, new)
                record_anew(self.env)
        else:
            self._manager(kind).set_params(name, {rest[1]: new})

    def _manager(self, kind: str) -> Any:
        return getattr(self.env, f"{kind.removesuffix('s')}_manager")

    def _parts(self) -> tuple[str, str, list[str]]:
        kind, name, *rest = (*self._path, "", "") if len(self._path) < 2 else self._path
        is_param = kind in ("rewards", "terminations", "events") and (
            len(rest) == 2 and rest[0] == "params"
        )
        is_weight = kind == "rewards" and rest == ["weight"]
        if not (is_param or is_weight or (kind == "commands" and rest)):
            raise ConfigurationError(
                f"A curriculum changes {self._address!r}, but can change rewards.NAME.weight, "
                "params.KEY of rewards, terminations and events, and fields of commands."
            )
        return kind, name, rest


def _replaced(cfg: Any, path: Sequence[str], new: Any) -> Any:
    """Return a copy of a dataclass with another value at a path: configurations never change."""
    name, *rest = path
    if isinstance(cfg, list | tuple):
        items = list(cfg)
        items[int(name)] = _replaced(items[int(name)], rest, new) if rest else new
        return type(cfg)(items)
    value = _replaced(getattr(cfg, name), rest, new) if rest else new
    return dataclasses.replace(cfg, **{name: value})


class DifficultyScheduler(ManagerTermBase):
    """Raises an environment's difficulty with each success, and lowers it with each failure.

    As Isaac Lab's, for Dexsuite's tasks; with ``pos_tol`` null for any task with ``success``.

    Attributes:
        current_adr_difficulties: Each environment's difficulty, ``(num_envs,)``.
        difficulty_frac: Their mean over all processes, over the greatest, every 16 steps.
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
            object_cfg: The object that should be there; null: ``object``.
            pos_tol: Distance within which it succeeds, in m; null: the task's own ``success``.
            rot_tol: Angle within which it succeeds, in rad; null: any.
            init_difficulty: The first difficulty.
            min_difficulty: The least.
            max_difficulty: The greatest.
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
                "DifficultyScheduler has pos_tol=null, which stands for the task's success, but "
                "env.success is null. Set either."
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
        final_value: That of the greatest.
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
