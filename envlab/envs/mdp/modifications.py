"""Curricula that change any setting while training, and remember what they changed."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from envlab.envs.entities import SceneEntityCfg
from envlab.envs.managers.function_term import (
    FunctionTermCfg,
    ManagerTermBase,
    check_names,
    record_anew,
)
from envlab.envs.mdp.velocity_command import UniformVelocityCommand
from envlab.errors import ConfigurationError
from envlab.state import State

if TYPE_CHECKING:
    from envlab.envs.manager_env import ManagerEnv

_ROBOT: Any = SceneEntityCfg("robot")


class modify_env_param(ManagerTermBase):
    """Changes an attribute of the environment at a dotted address, like Isaac Lab's.

    The new value counts from the next step, and a resumed run keeps it. Steps recorded as graphs
    are then recorded again, unless the attribute is a tensor, which is written in place
    immediately.
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
