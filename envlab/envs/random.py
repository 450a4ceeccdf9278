"""Randomness that belongs to the environment, not to the process.

Every draw is a function of (seed, stream name, global environment index, draw counter) and nothing
else. So one process with 1024 environments and two with 512 start from the same states and see the
same noise, on CPU and GPU, and a resumed run draws the same numbers as an uninterrupted one.

The generator is SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators",
OOPSLA 2014), whose n-th output is a hash of ``key + n * GAMMA``, in torch and in NumPy alike. So
any draw is reached directly. It is about 15 tensor operations, where Philox 4x32-10 would be 140:
7 % of a Cartpole step on a CPU.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from envlab.envs.masks import rows_of
from envlab.errors import ConfigurationError
from envlab.sim.host import on_host
from envlab.state import State

_DRAWS_PER_TICK = 1 << 20
"""Most draws of one stream between two ticks, per environment."""


def _offset(tick: int) -> int:
    """Return the offset that a tick adds to SplitMix64's states."""
    return signed(tick * _DRAWS_PER_TICK * GAMMA)


def check_bounds(bounds: Sequence[tuple[float, float]]) -> None:
    """Refuse ranges whose ends are swapped.

    Raises:
        ConfigurationError: If there is such a range, or a range that is not a pair of numbers.
    """
    for bound in bounds:
        if len(bound) != 2 or not bound[0] <= bound[1]:
            raise ConfigurationError(
                f"A range to draw from is {list(bound)}, but must be [lower, upper], in this order."
            )


Bounds = tuple[tuple[float, float], ...]
"""Lower and upper bounds, by column."""


class EnvRandom:
    """The random streams of a batch of environments."""

    STATE = State(shared=("base_seed", "tick"))

    def __init__(
        self,
        seed: int,
        first_env: int,
        num_envs: int,
        device: torch.device,
        *,
        draws_ahead: bool | None = None,
    ) -> None:
        """Make streams for environments ``first_env`` to ``first_env + num_envs - 1``.

        Args:
            seed: The run's base seed, the same on every rank.
            first_env: Global index of this process's first environment.
            num_envs: Number of environments of this process.
            device: Device of all draws.
            draws_ahead: Whether all draws of a tick are made together; None: except on a CPU.
        """
        self.device = device
        self.env_ids = torch.arange(first_env, first_env + num_envs, device=device)
        self._offset: torch.Tensor | None = None
        self.tick = 0
        if draws_ahead is None:
            draws_ahead = not on_host(device)
        self.ahead = DrawsAhead() if draws_ahead else None
        """Makes a step's draws together; None if separate draws are cheaper."""
        self._streams: dict[str, RandomStream] = {}
        self.seed(seed)

    @property
    def tick(self) -> int:
        """Draw counter: advanced once per step and reset, equally on all ranks."""
        return self._tick

    @tick.setter
    def tick(self, tick: int) -> None:
        self._tick = tick
        if self._offset is not None:
            self._offset.fill_(_offset(tick))

    def seed(self, seed: int) -> None:
        """Restart all streams from ``seed``."""
        self.base_seed = int(seed)
        self.tick = 0
        for stream in self._streams.values():
            stream.set_keys(self._keys(stream.name, shared=stream.shared))
        if self.ahead is not None:
            self.ahead.forget()

    def on_restore(self) -> None:
        """Let all streams continue from the restored seed and tick."""
        tick = self.tick
        self.seed(self.base_seed)
        self.tick = tick

    def advance(self) -> None:
        """Move to the next tick, whose draws are independent of all earlier ones."""
        self._tick += 1
        if self._offset is not None:
            self._offset.fill_(_offset(self._tick))

    def draw_ahead(self) -> None:
        """Make the tick's draws that :attr:`ahead` has planned, without waiting for the first."""
        assert self.ahead is not None
        self.ahead.start(self.tick, self.offset)

    def keep_offset(self) -> None:
        """Keep :attr:`offset` at a fixed address, where graphs read it."""
        self._offset = torch.tensor(_offset(self.tick), device=self.device)

    @property
    def offset(self) -> torch.Tensor | int:
        """The tick's offset in SplitMix64's states: a number, or 0-d after :meth:`keep_offset`."""
        return _offset(self.tick) if self._offset is None else self._offset

    def stream(self, name: str, *, shared: bool = False) -> RandomStream:
        """Return the stream called ``name``; its draws do not depend on those of other streams.

        Args:
            name: Its purpose.
            shared: Whether all environments, including those of other processes, draw the same.
        """
        if name not in self._streams:
            keys = self._keys(name, shared=shared)
            self._streams[name] = RandomStream(self, name, keys, shared=shared)
        return self._streams[name]

    def joined(self, parts: Sequence[tuple[RandomStream | None, int]]) -> JoinedStream:
        """Return the streams of ``parts`` side by side, with so many columns each; not on a CPU.

        A part without a stream has columns of nothing random, whose bounds must be equal.
        """
        return JoinedStream(self, parts)

    def fingerprint(self) -> torch.Tensor:
        """Return numbers that identify the environments' randomness, int64 ``(num_envs,)``.

        They depend on the seed and the environments alone, and draw no random number.
        """
        return self._keys("fingerprint")

    def _keys(self, name: str, *, shared: bool = False) -> torch.Tensor:
        text = f"{self.base_seed}/{name}".encode()
        stream_key = int.from_bytes(hashlib.sha256(text).digest()[:8], "little")
        ids = torch.zeros_like(self.env_ids) if shared else self.env_ids
        return mix(ids * signed(GAMMA) + signed(stream_key))


class RandomStream:
    """Draws for one purpose, one row per environment. Get it from :meth:`EnvRandom.stream`."""

    def __init__(
        self, source: EnvRandom, name: str, keys: torch.Tensor, *, shared: bool = False
    ) -> None:
        self.name, self.shared = name, shared
        self._source = source
        self._columns: dict[int, torch.Tensor] = {}
        self._steps: dict[int, np.ndarray] = {}
        self._scales: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self.set_keys(keys)

    def set_keys(self, keys: torch.Tensor) -> None:
        """Set SplitMix64's start state of each environment, int64 ``(num_envs,)``, and rewind."""
        self._keys = keys.unsqueeze(1)
        self._on_cpu = self._source.ahead is None
        if self._on_cpu:
            self._numpy_keys = self._keys.numpy().view(np.uint64)
        self._tick, self._drawn = -1, 0

    def bits(self, num: int) -> torch.Tensor:
        """Return the next ``num`` outputs of each environment, int64 ``(num_envs, num)``."""
        if self._on_cpu:
            return torch.from_numpy(self._bits_numpy(num).view(np.int64))
        before = self._count(num)
        ready = self._take(before, num, None)
        return mix(self.states(before, num) + self._source.offset) if ready is None else ready

    def states(self, before: Any, num: int) -> torch.Tensor:
        """Return the inputs of :func:`mix` for outputs in tick 0, int64 ``(num_envs, num)``.

        Args:
            before: What :meth:`_count` returned.
            num: Number of outputs.
        """
        if num not in self._columns:
            steps = torch.arange(1, num + 1, device=self._source.device)
            self._columns[num] = steps * signed(GAMMA)
        return self._keys + (self._columns[num] + signed(before * GAMMA))

    def _take(self, before: Any, num: int, bounds: Bounds | None) -> torch.Tensor | None:
        """Return the draws just counted, if they were made ahead."""
        ahead = self._source.ahead
        if ahead is None:
            return None
        ahead.start(self._source.tick, self._source.offset)
        return ahead.take(_Draws(self, before, num, bounds))

    def ranges(
        self, bounds: Sequence[tuple[float, float]], mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return float32 draws, ``(num_envs, len(bounds))``, of column ``i`` from ``bounds[i]``.

        Args:
            bounds: Lower and upper bounds; the upper ones are excluded.
            mask: Environments whose draws are needed, bool ``(num_envs,)``; None: all. Other rows
                are meaningless. It saves time on a CPU; a GPU draws for all, without waiting.
        """
        key: Bounds = tuple(map(tuple, bounds))  # type: ignore[arg-type]
        low, width = self._scales.get(key) or self.scale(key)
        if not self._on_cpu:
            before = self._count(len(key))
            ready = self._take(before, len(key), key)
            if ready is not None:
                return ready
            return scaled(self.states(before, len(key)) + self._source.offset, low, width)
        rows = None if mask is None else rows_of(mask)
        values = (self._bits_numpy(len(key), rows) >> U40).astype(np.float32)
        values *= width
        values += low
        if rows is None:
            return torch.from_numpy(values)
        num_envs = self._numpy_keys.shape[0]
        spread = np.zeros((len(key), num_envs), dtype=np.float32).T  # fast by column
        spread[rows] = values
        return torch.from_numpy(spread)

    def scale(self, bounds: Bounds) -> tuple[Any, Any]:
        """Return the summand for 24 random bits and then their factor.

        Raises:
            ConfigurationError: If a range's ends are swapped.
        """
        if bounds not in self._scales:
            check_bounds(bounds)
            self._scales[bounds] = self._make_scale(bounds)
        return self._scales[bounds]

    def _make_scale(self, bounds: Bounds) -> tuple[Any, Any]:
        low = np.array([bound[0] for bound in bounds], dtype=np.float32)
        # Both ends may be infinite: a time that never comes.
        widths = [0.0 if low == high else high - low for low, high in bounds]
        width = np.array(widths, dtype=np.float32)
        width *= np.float32(2.0**-24)
        if self._on_cpu:
            return low, width
        device = self._source.device
        return torch.from_numpy(low).to(device), torch.from_numpy(width).to(device)

    def _bits_numpy(self, num: int, rows: np.ndarray | None = None) -> np.ndarray:
        """Return the result of :meth:`bits` as uint64: NumPy takes a third of torch's time here."""
        if num not in self._steps:
            self._steps[num] = np.arange(1, num + 1, dtype=np.uint64) * np.uint64(GAMMA)
        if self._tick != self._source._tick:
            self._tick, self._drawn = self._source._tick, 0
        before, self._drawn = self._tick * _DRAWS_PER_TICK + self._drawn, self._drawn + num
        start = np.uint64((before * GAMMA) & 0xFFFFFFFFFFFFFFFF)
        keys = self._numpy_keys if rows is None else self._numpy_keys[rows]
        return mix_numpy(keys + (self._steps[num] + start))

    def _count(self, num: int) -> Any:
        """Count the next ``num`` outputs of this tick; return how many precede them."""
        tick = self._source._tick
        if self._tick != tick:
            self._tick, self._drawn = tick, 0
        self._drawn += num
        return self._drawn - num

    def uniform(
        self, low: float, high: float, num: int, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return float32 draws from ``[low, high)``, ``(num_envs, num)``; see :meth:`ranges`."""
        return self.ranges([(low, high)] * num, mask)

    def normal(self, mean: float, std: float, num: int) -> torch.Tensor:
        """Return float32 normal draws, ``(num_envs, num)``, by the Box-Muller transform."""
        unit = self.uniform(0.0, 1.0, 2 * num)
        radius = torch.sqrt(-2.0 * torch.log1p(-unit[:, :num]))
        return radius * torch.cos(2.0 * math.pi * unit[:, num:]) * std + mean

    def integers(self, low: int, high: int) -> torch.Tensor:
        """Return int64 draws from ``[low, high)``, ``(num_envs,)``."""
        return shift_right(self.bits(1)[:, 0], 1) % (high - low) + low


class JoinedStream(RandomStream):
    """Several streams side by side, each with the draws that it would make alone.

    So a device for which each operation is a kernel to launch adds all of a group's noise at once.
    """

    def __init__(self, source: EnvRandom, parts: Sequence[tuple[RandomStream | None, int]]) -> None:
        names = "+".join(stream.name for stream, _ in parts if stream is not None)
        super().__init__(source, names, torch.zeros_like(source.env_ids))
        self._parts = parts

    def states(self, before: Any, num: int) -> torch.Tensor:
        blocks = [
            self._keys.expand(-1, width) if stream is None else stream.states(first, width)
            for (stream, width), first in zip(self._parts, before, strict=True)
        ]
        return torch.cat(blocks, dim=1)

    def _count(self, num: int) -> Any:
        return tuple(0 if stream is None else stream._count(width) for stream, width in self._parts)


class _Draws(NamedTuple):
    """Draws of one stream within a tick, identified by the number of draws before them."""

    stream: RandomStream
    before: Any
    num: int
    bounds: Bounds | None
    """None: plain bits."""


class DrawsAhead:
    """All draws of a tick in one batch, for devices where each operation launches a kernel.

    A step usually repeats the draws of the step before; others are drawn separately. The numbers
    are the same either way.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Draw nothing ahead until a tick has shown what is needed: the streams' keys changed."""
        self._tick = -1
        self._asked: list[_Draws] = []
        self._planned: list[_Draws] = []
        self._groups: list[_Group] = []
        self._ready: dict[_Draws, torch.Tensor] = {}

    def start(self, tick: int, offset: torch.Tensor | int) -> None:
        """Repeat for ``tick`` the draws of the tick before, unless that has been done.

        Args:
            tick: The draw counter.
            offset: :attr:`EnvRandom.offset`.
        """
        if tick == self._tick:
            return
        self._tick = tick
        if self._asked != self._planned:
            self._planned = self._asked
            self._groups = _groups(self._planned)
        self._asked = []
        self._ready = {}
        for group in self._groups:
            self._ready |= group.draw(offset)

    def take(self, draws: _Draws) -> torch.Tensor | None:
        """Return draws that were made ahead, ``(num_envs, num)``, if any; each only once."""
        self._asked.append(draws)
        return self._ready.pop(draws, None)


class _Group(NamedTuple):
    """Draws made by the same operations. Each row is a column of draws, contiguous."""

    draws: list[_Draws]
    states: torch.Tensor
    """SplitMix64's states in tick 0, int64 ``(k, num_envs)``."""
    low: torch.Tensor | None
    """``(k, 1)``; None: plain bits."""
    width: torch.Tensor | None

    def draw(self, offset: torch.Tensor | int) -> Iterator[tuple[_Draws, torch.Tensor]]:
        """Return all draws of a tick, each ``(num_envs, num)``."""
        states = self.states + offset
        if self.low is None or self.width is None:
            rows = mix(states)
        else:
            rows = scaled(states, self.low, self.width)
        parts = rows.split([one.num for one in self.draws])
        return zip(self.draws, (part.T for part in parts), strict=True)


def _groups(planned: Sequence[_Draws]) -> list[_Group]:
    groups = []
    for is_plain in (False, True):
        draws = [one for one in planned if (one.bounds is None) == is_plain]
        if not draws:
            continue
        states = torch.cat([draw.stream.states(draw.before, draw.num) for draw in draws], dim=1)
        scales = [draw.stream.scale(draw.bounds) for draw in draws if draw.bounds is not None]
        low, width = (
            torch.cat(list(values)).unsqueeze(1) if scales else None
            for values in (zip(*scales, strict=True) if scales else ((), ()))
        )
        groups.append(_Group(draws, states.T.contiguous(), low, width))
    return groups


GAMMA = 0x9E3779B97F4A7C15
_MULTIPLIER_1 = 0xBF58476D1CE4E5B9
_MULTIPLIER_2 = 0x94D049BB133111EB


def signed(value: int) -> int:
    """Return the 64-bit two's complement of ``value``: torch has no unsigned 64-bit arithmetic."""
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >= 1 << 63 else value


def shift_right(values: torch.Tensor, bits: int) -> torch.Tensor:
    """Shift logically; torch's ``>>`` on int64 repeats the sign bit."""
    return (values >> bits) & ((1 << (64 - bits)) - 1)


def mix(values: torch.Tensor) -> torch.Tensor:
    """Return SplitMix64's output function of int64 ``values`` (any shape), taken modulo 2^64."""
    values = _mix_upper(values)
    return values ^ shift_right(values, 31)


def _mix_upper(values: torch.Tensor) -> torch.Tensor:
    """Return the same except for the lower 33 bits, which only the last step completes."""
    values = (values ^ shift_right(values, 30)) * signed(_MULTIPLIER_1)
    return (values ^ shift_right(values, 27)) * signed(_MULTIPLIER_2)


# Made once: a reset draws few numbers at a time, and a conversion takes as long as a draw.
_U27, _U30, _U31, U40 = (np.uint64(shift) for shift in (27, 30, 31, 40))
_U_MULTIPLIER_1, _U_MULTIPLIER_2 = np.uint64(_MULTIPLIER_1), np.uint64(_MULTIPLIER_2)


def mix_numpy(values: np.ndarray) -> np.ndarray:
    """Return the same for uint64 ``values``, overwriting them."""
    values ^= values >> _U30
    values *= _U_MULTIPLIER_1
    values ^= values >> _U27
    values *= _U_MULTIPLIER_2
    values ^= values >> _U31
    return values


def scaled(states: torch.Tensor, low: torch.Tensor, width: torch.Tensor) -> torch.Tensor:
    """Return float32 draws of SplitMix64's states: 24 bits each, times ``width``, plus ``low``."""
    return (shift_right(_mix_upper(states), 40) * width).add_(low)
