"""Changes of an observation's values, with a memory or without: filters, integrals and the like.

A stage turns a term's values, ``(num_envs, k)``, into the observed ones. It advances once in each
step. The last observation of an episode is computed without advancing, and after a manual reset
only the environments that were reset start over, so that the others lose no step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from envlab.errors import ConfigurationError
from envlab.state import State

Mode = Literal["step", "look", "reset"]
"""Whether a stage advances, only looks, or starts over where an episode has begun."""


class Stage:
    """A stage between a term and the observation, with a memory.

    Subclasses keep their memory in tensors that :attr:`STATE` names, and compute the next one
    without writing it.
    """

    STATE = State(per_env=("_is_fresh",))

    def __init__(self, num_envs: int, device: torch.device) -> None:
        self._is_fresh = torch.ones(num_envs, dtype=torch.bool, device=device)
        """Environments without a value since their episode began."""

    def memory(self) -> list[torch.Tensor]:
        """Return the tensors that :meth:`following` replaces."""
        raise NotImplementedError

    def following(self, values: torch.Tensor, *, moves_on: bool) -> list[torch.Tensor]:
        """Return the next :meth:`memory`, in environments that are fresh the first one.

        Args:
            values: The term's, ``(num_envs, k)``.
            moves_on: Whether a step has passed; otherwise no random number is drawn.
        """
        raise NotImplementedError

    def observed(self, memory: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return what a memory has observed."""
        raise NotImplementedError

    def reset(self, mask: torch.Tensor) -> None:
        """Forget the episodes of ``mask``, which have ended."""
        self._is_fresh |= mask

    def process(self, values: torch.Tensor, mode: Mode) -> torch.Tensor:
        """Return what is observed of ``values``, ``(num_envs, k)``."""
        following = self.following(values, moves_on=mode == "step")
        if mode == "look":
            return self.observed(following)
        for kept, new in zip(self.memory(), following, strict=True):
            if mode == "step":
                kept.copy_(new)
            else:
                fresh = self._is_fresh.view(-1, *[1] * (new.dim() - 1))
                kept.copy_(torch.where(fresh, new, kept))
        self._is_fresh.zero_()
        return self.observed(self.memory())

    def _or_first(self, first: torch.Tensor, later: torch.Tensor) -> torch.Tensor:
        """Return ``first`` where an episode has begun, else ``later``."""
        return torch.where(self._is_fresh.view(-1, *[1] * (later.dim() - 1)), first, later)


@dataclass(kw_only=True)
class ModifierCfg:
    """A change of a term's values before their noise: a function with its parameters.

    As Isaac Lab's: ``func`` is one of :func:`scale`, :func:`clip` and :func:`bias`, or one of your
    own that maps ``(num_envs, k)`` to the same.
    """

    func: Any
    """The function, or its ``module:name``."""
    params: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments."""

    def build(self, values: torch.Tensor) -> Stage | None:
        """Return the stage for a term's values; None: a function without a memory."""
        return None

    def apply(self, values: torch.Tensor) -> torch.Tensor:
        """Return changed values."""
        changed: torch.Tensor = self.func(values, **self.params)
        return changed


def scale(data: torch.Tensor, multiplier: float) -> torch.Tensor:
    """Return values times ``multiplier``."""
    return data * multiplier


def clip(data: torch.Tensor, bounds: tuple[float | None, float | None]) -> torch.Tensor:
    """Return values within bounds; None: no bound."""
    return data.clamp(*bounds)


def bias(data: torch.Tensor, value: float) -> torch.Tensor:
    """Return values plus ``value``."""
    return data + value


@dataclass(kw_only=True)
class DigitalFilterCfg(ModifierCfg):
    """A linear filter: ``y_i = sum_j B_j x_(i-j) - sum_j A_j y_(i-1-j)``, from zeros.

    Isaac Lab 2.3.2's ``DigitalFilter``: ``A=[-a], B=[1-a]`` is a low-pass, ``A=[0], B=[1/N]*N`` a
    moving average.
    """

    func: Any = None
    A: list[float] = field(default_factory=lambda: [0.0])
    """Coefficients of past outputs, the latest first."""
    B: list[float] = field(default_factory=lambda: [1.0])
    """Coefficients of inputs, the current one first."""

    def build(self, values: torch.Tensor) -> Stage:
        if not self.A or not self.B:
            raise ConfigurationError(
                f"A filter has A={self.A} and B={self.B}, but each needs a coefficient. For no "
                "past outputs write A=[0.0]."
            )
        return DigitalFilter(values, self.A, self.B)


class DigitalFilter(Stage):
    """See :class:`DigitalFilterCfg`."""

    STATE = State(per_env=("_inputs", "_outputs"))

    def __init__(self, values: torch.Tensor, a: Sequence[float], b: Sequence[float]) -> None:
        super().__init__(len(values), values.device)
        self._a, self._b = values.new_tensor(a), values.new_tensor(b)
        self._inputs = values.new_zeros(*values.shape, len(b))
        self._outputs = values.new_zeros(*values.shape, len(a))

    def memory(self) -> list[torch.Tensor]:
        return [self._inputs, self._outputs]

    def following(self, values: torch.Tensor, *, moves_on: bool) -> list[torch.Tensor]:
        zero = torch.zeros_like(values).unsqueeze(-1)
        before = self._or_first(zero.expand_as(self._inputs), self._inputs)
        outputs = self._or_first(zero.expand_as(self._outputs), self._outputs)
        inputs = torch.cat((values.unsqueeze(-1), before[..., :-1]), dim=-1)
        now = inputs @ self._b - outputs @ self._a
        return [inputs, torch.cat((now.unsqueeze(-1), outputs[..., :-1]), dim=-1)]

    def observed(self, memory: Sequence[torch.Tensor]) -> torch.Tensor:
        return memory[1][..., 0].clone()


@dataclass(kw_only=True)
class IntegratorCfg(ModifierCfg):
    """The integral over the episode, by the trapezoidal rule from 0; Isaac Lab's ``Integrator``."""

    func: Any = None
    dt: float = math.nan
    """Time between two values, in seconds."""

    def build(self, values: torch.Tensor) -> Stage:
        if not self.dt > 0.0:
            raise ConfigurationError(
                f"An integrator has dt={self.dt}, but needs the time between two values, in "
                "seconds: the step's duration."
            )
        return Integrator(values, self.dt)


class Integrator(Stage):
    """See :class:`IntegratorCfg`."""

    STATE = State(per_env=("_integral", "_before"))

    def __init__(self, values: torch.Tensor, dt: float) -> None:
        super().__init__(len(values), values.device)
        self._dt = dt
        self._integral, self._before = torch.zeros_like(values), torch.zeros_like(values)

    def memory(self) -> list[torch.Tensor]:
        return [self._integral, self._before]

    def following(self, values: torch.Tensor, *, moves_on: bool) -> list[torch.Tensor]:
        zero = torch.zeros_like(values)
        integral = self._or_first(zero, self._integral)
        before = self._or_first(zero, self._before)
        return [integral + 0.5 * self._dt * (values + before), values.clone()]

    def observed(self, memory: Sequence[torch.Tensor]) -> torch.Tensor:
        return memory[0].clone()
