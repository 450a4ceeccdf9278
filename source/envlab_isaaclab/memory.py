"""What Isaac Lab's environment remembers between steps, for a resume.

Its managers, terms, sensors and actuators, and those of a project, do not declare their state. So
all tensors, arrays and numbers that can be reached from the environment by attributes, lists and
dictionaries are saved, by the path that leads to them, and written back into an environment that
was made alike. What code keeps elsewhere, in globals or closures, is not found.
"""

from __future__ import annotations

import collections
import enum
import json
import logging
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from envlab.state import Share
from envlab_isaaclab.world import World

logger = logging.getLogger(f"envlab.{__name__}")

_NUMBERS = (bool, int, float, type(None), np.generic)
_GENERATORS = (np.random.Generator, torch.Generator)
_LISTS = (list, tuple, collections.deque)
_WITHOUT_STATE = (
    *(type, types.ModuleType, types.FunctionType, types.MethodType, types.BuiltinFunctionType),
    *(str, bytes, enum.Enum, torch.device, torch.dtype, torch.jit.ScriptModule),
)
_ALIKE = (
    *("mujoco", "warp", "pxr", "omni", "carb", "trimesh", "gymnasium", "logging", "threading"),
    *("weakref", "re", "envlab", "envlab_isaaclab.stage", "envlab_isaaclab.inert"),
    *("envlab_isaaclab.kit", "envlab_isaaclab.things"),
)
"""Modules of objects that are the same in an environment that was made alike."""
_SHARED = (torch.Tensor, np.ndarray, World, *_GENERATORS)
"""Values that are written in place, by whoever holds them."""
_SAME = "same as"

Place = tuple[str | int, ...]
"""Attributes, keys and positions that lead from the environment to a value."""


class Memory:
    """The state of an environment, as a part of a :class:`envlab.state.State`."""

    def __init__(self, env: Any, step: Callable[[], object], begin: Callable[[], object]) -> None:
        """Remember nothing yet.

        Args:
            env: Isaac Lab's environment.
            step: Makes a step of it, whatever the action: some things exist only after a step.
            begin: Begins new episodes.
        """
        self._env, self._step, self._begin = env, step, begin

    def state(self) -> dict[str, Any]:
        """Return copies on the CPU of all that was found, by place."""
        found: dict[str, Any] = {}
        names: dict[int, str] = {}  # of what several places lead to
        for place, value in _walk(self._env):
            name = json.dumps(place)
            if isinstance(value, _SHARED) and names.setdefault(id(value), name) != name:
                found[name] = {_SAME: names[id(value)]}
            else:
                found[name] = _saved(value)
        return found

    def set_state(self, saved: Mapping[str, Any]) -> None:
        """Write what :meth:`state` returned into the environment.

        If a place does not exist here, the environments begin new episodes, and the log says so.
        """
        self._step()
        written: set[int] = set()
        try:
            with torch.no_grad():
                for name, value in sorted(saved.items(), key=lambda item: _is_alias(item[1])):
                    self._write(json.loads(name), value, written)
        except (LookupError, RuntimeError, TypeError) as error:
            logger.warning(
                "The environments begin new episodes, because their state cannot be restored: %s "
                "of the checkpoint does not exist here, or not in this form (%s).",
                name,
                error,
            )
            self._begin()

    def deal(self, saved: Sequence[Any], share: Share) -> None:
        """Say that environments cannot be dealt to another number of processes."""
        logger.warning(
            "The environments of this task cannot be dealt to another number of processes: they "
            "begin new episodes."
        )

    def _write(self, place: Sequence[str | int], value: Any, written: set[int]) -> None:
        """Restore one value: in place where there is memory of its own for it."""
        holder = self._at(place[:-1])
        old = _child(holder, place[-1])
        if _is_alias(value):
            new = self._at(json.loads(value[_SAME]))
            if old is not new:
                _put(holder, place[-1], new)
        elif isinstance(old, World):
            old.set_state(value)
        elif isinstance(old, np.random.Generator):
            old.bit_generator.state = value
        elif isinstance(old, torch.Generator):
            old.set_state(value)
        elif isinstance(value, torch.Tensor):
            self._write_tensor(holder, place[-1], value, written)
        elif isinstance(old, _LISTS) and value is not None:
            if not _is_equal(list(old), value):
                _put(holder, place[-1], type(old)(value))
        elif isinstance(old, np.generic) and value is not None:
            _put(holder, place[-1], type(old)(value))
        elif type(old) is not type(value) or old != value:
            _put(holder, place[-1], value)

    def _write_tensor(self, holder: Any, name: Any, value: torch.Tensor, written: set[int]) -> None:
        """Restore a tensor or an array; ``written``: those in which another's values are."""
        old = _child(holder, name)
        if isinstance(old, np.ndarray) and old.shape == value.shape:
            np.copyto(old, value.numpy(), casting="unsafe")
            return
        is_array = isinstance(old, np.ndarray)
        if not isinstance(old, torch.Tensor) or not _fits(old, value) or id(old) in written:
            new = value.to(self._env.device, copy=True)
            _put(holder, name, new.cpu().numpy() if is_array else new)
        elif not torch.equal(old.cpu(), value):
            if 0 in old.stride():  # one number stands for many
                _put(holder, name, value.to(old.device, copy=True))
            else:
                old.copy_(value)
        written.add(id(old))

    def _at(self, place: Sequence[str | int]) -> Any:
        value = self._env
        for step in place:
            value = _children(value)[step]
        return value


def _walk(env: Any) -> Iterator[tuple[Place, Any]]:
    """Yield tensors, arrays, numbers, lists of numbers, generators and the world, with places."""
    seen: set[int] = set()
    waiting: list[tuple[Place, Any]] = [((), env)]
    while waiting:
        place, value = waiting.pop()
        if _is_saved(value):
            yield place, value
        elif id(value) not in seen and not _is_without_state(value):
            seen.add(id(value))
            waiting += [((*place, name), one) for name, one in _children(value).items()]


def _is_saved(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    if isinstance(value, _LISTS):
        return all(map(_is_number, value))
    if isinstance(value, enum.Enum):  # some are numbers
        return False
    return isinstance(value, (*_NUMBERS, *_GENERATORS, torch.Tensor, World))


def _is_number(value: Any) -> bool:
    """Return whether a value is a number, or a list of numbers and words."""
    if isinstance(value, list | tuple):
        return all(map(_is_number, value))
    return isinstance(value, (*_NUMBERS, str)) and not isinstance(value, enum.Enum)


def _is_without_state(value: Any) -> bool:
    module = type(value).__module__
    is_alike = any(module == one or module.startswith(f"{one}.") for one in _ALIKE)
    return is_alike or isinstance(value, _WITHOUT_STATE)


def _children(value: Any) -> Mapping[Any, Any]:
    if isinstance(value, dict):
        return {key: one for key, one in value.items() if isinstance(key, str | int)}
    if isinstance(value, _LISTS):
        return dict(enumerate(value))
    found: Mapping[Any, Any] = getattr(value, "__dict__", {})
    return found


def _child(holder: Any, name: str | int) -> Any:
    return _children(holder).get(name)


def _put(holder: Any, name: Any, value: Any) -> None:
    target = holder if isinstance(holder, dict | list | collections.deque) else vars(holder)
    target[name] = value


def _fits(old: torch.Tensor, value: torch.Tensor) -> bool:
    return old.dtype == value.dtype and old.shape == value.shape


def _is_equal(one: Any, other: Any) -> bool:
    """Return whether lists have the same numbers, in lists or tuples."""
    if isinstance(one, _LISTS) and isinstance(other, _LISTS):
        return len(one) == len(other) and all(map(_is_equal, one, other))
    return bool(one == other)


def _is_alias(value: Any) -> bool:
    return isinstance(value, Mapping) and _SAME in value


def _saved(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(np.array(value))
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, _LISTS):
        return [_saved(one) for one in value]
    if isinstance(value, np.random.Generator):
        return dict(value.bit_generator.state)
    if isinstance(value, torch.Generator):
        return value.get_state()
    return value.state() if isinstance(value, World) else value
