"""The houses in memory: one in each slot, with rotation.

A house is 0.5 MB, so 10,000 of them would be 5 GB. If there are more houses than slots, each slot
switches to another house after a while. The houses in memory depend on the number of steps alone,
so that they are the same on every rank and after a resume. No episode loses its house, because
none begins in a slot whose turn ends before it would.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch

from envlab.config import check_ranges
from envlab.errors import ConfigurationError
from envlab_navigation.furniture import TARGETS
from envlab_navigation.geodesics import UNREACHABLE
from envlab_navigation.house_cache import Arrays, HouseCache
from envlab_navigation.nav_cfg import HousesCfg


class HouseSet:
    """Houses as tensors, a row for each slot.

    Attributes:
        arrays: :data:`.house_cache.Arrays`, ``(num_slots, ...)``, at fixed addresses.
        numbers: Results of :meth:`number_of`, int64 ``(num_slots,)``.
        offers: Goals that have a place to start from, bool ``(num_slots, NUM_GOALS)``.
        open_slots: The slots in which episodes may begin, int32 ``(num_slots,)``, of which the
            first ``num_open`` are valid.
        num_open: Number of these.
    """

    def __init__(
        self,
        cfg: HousesCfg,
        *,
        goals: list[int],
        start_range_m: tuple[float, float],
        max_episode_length: int,
        device: torch.device,
    ) -> None:
        """Load the first houses.

        Args:
            cfg: Which houses.
            goals: Goals that episodes may have.
            start_range_m: Minimum and maximum distance between a start and its goal.
            max_episode_length: In steps.
            device: Device of the tensors.

        Raises:
            ConfigurationError: If there are no such houses, or no episode can begin in them.
        """
        check_ranges(cfg, "env.houses")
        self.cfg, self.device = cfg, device
        self._cache = HouseCache(cfg.cache_dir, cfg.files)
        self.num_houses = _num_houses(cfg, self._cache)
        _check_targets(goals, self._cache)
        cfg.check_turns(max_episode_length, self.num_houses)
        self.num_slots = min(cfg.num_slots, self.num_houses)
        self._episode_length = max_episode_length
        self._goals = np.array(goals)
        # Cells without a path are at the value of the unreachable, however far a start may be.
        self._range_mm = [min(round(1000 * limit), UNREACHABLE - 1) for limit in start_range_m]
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="houses")
        self._coming: dict[int, Future[Arrays]] = {}
        self._held = [-1] * self.num_slots
        self._offers = np.zeros((self.num_slots, 0), bool)
        self.arrays: dict[str, torch.Tensor] = {}
        self.numbers: torch.Tensor
        self.offers: torch.Tensor
        self.open_slots: torch.Tensor
        self.set_clock(0)

    @property
    def rotates(self) -> bool:
        """Whether there are more houses than slots."""
        return self.num_houses > self.num_slots

    def number_of(self, slot: int) -> int:
        """Return the index of a slot's house, in its split or among the files."""
        return self.cfg.first_house + self._held[slot]

    def name_of(self, slot: int) -> str:
        """Return the name of the house in a slot, such as ``val_7``, or that of its file."""
        number = self.number_of(slot)
        files = self._cache.files
        return f"{self.cfg.split}_{number}" if files is None else files.names[number]

    def set_clock(self, steps: int) -> None:
        """Load the houses of the slots after a number of steps."""
        turns = steps // self.cfg.rotate_every if self.rotates else 0
        for slot in range(self.num_slots):
            self._put(slot, self._house_at(slot, turns))
        self._open(steps)

    def advance(self, steps: int) -> None:
        """Advance to the next step, before which ``steps - 1`` were made."""
        if not self.rotates:
            return
        period = self.cfg.rotate_every
        if steps % period == 0:
            turns = steps // period
            slot = (turns - 1) % self.num_slots
            self._put(slot, self._house_at(slot, turns))
        if steps % period == 0 or (steps + self._episode_length) % period == 0:
            self._open(steps)

    def close(self) -> None:
        """End the thread that loads houses."""
        self._loader.shutdown(cancel_futures=True)

    def _house_at(self, slot: int, turns: int) -> int:
        """Return a slot's house after a number of turns; each turn changes one slot."""
        rounds = (turns - slot + self.num_slots - 1) // self.num_slots
        return (slot + rounds * self.num_slots) % self.num_houses

    def _open(self, steps: int) -> None:
        """Open the slots in which episodes end before the slot's turn; load the next house."""
        slots = np.arange(self.num_slots)
        is_open = self._offers.any(axis=1)
        if self.rotates:
            period = self.cfg.rotate_every
            next_turn = steps // period + 1
            wait = (slots - (next_turn - 1)) % self.num_slots  # earlier turns of other slots
            is_open &= (next_turn + wait) * period > steps + self._episode_length
            house = self._house_at((next_turn - 1) % self.num_slots, next_turn)
            if house not in self._coming:
                self._coming = {house: self._load(house)}
        chosen = slots[is_open]
        self.num_open = len(chosen)
        if not self.num_open:
            raise ConfigurationError(
                f"None of the {self.num_slots} {self.cfg.source} in memory "
                f"has a goal of this task that is {self._range_mm[0] / 1000:g} to "
                f"{self._range_mm[1] / 1000:g} m from a free place. Take more houses "
                "(env.houses.num_houses), other goals or another env.start_range_m."
            )
        padded = np.resize(chosen, self.num_slots).astype(np.int32)
        self._send("open_slots", padded)
        self._send("offers", self._offers)
        self._send("numbers", self.cfg.first_house + np.array(self._held))

    def _load(self, house: int) -> Future[Arrays]:
        number = self.cfg.first_house + house
        return self._loader.submit(self._cache.load, self.cfg.split, number)

    def _put(self, slot: int, house: int) -> None:
        """Put a house into a slot, unless the slot has it."""
        if self._held[slot] == house:
            return
        arrays = (self._coming.pop(house, None) or self._load(house)).result()
        if not self.arrays:
            for name, values in arrays.items():
                shape = (self.num_slots, *values.shape)
                dtype = torch.from_numpy(values).dtype
                self.arrays[name] = torch.zeros(shape, dtype=dtype, device=self.device)
            self._offers = np.zeros((self.num_slots, len(arrays["fields"])), bool)
        for name, values in arrays.items():
            self._copy(self.arrays[name][slot], values)
        nearest, farthest = self._range_mm
        fields = arrays["fields"][self._goals]
        fits = (fields >= nearest) & (fields <= farthest) & arrays["starts"]
        self._offers[slot, self._goals] = fits.any(axis=(1, 2))
        self._held[slot] = house

    def _send(self, name: str, values: np.ndarray) -> None:
        """Set an attribute to a tensor with these values, which keeps its address."""
        if not hasattr(self, name):
            setattr(self, name, torch.from_numpy(values).to(self.device, copy=True))
        self._copy(getattr(self, name), values)

    def _copy(self, tensor: torch.Tensor, values: np.ndarray) -> None:
        source = torch.from_numpy(values)
        if self.device.type == "cuda":  # only pinned memory is copied asynchronously
            source = source.pin_memory()
        tensor.copy_(source, non_blocking=True)


def _num_houses(cfg: HousesCfg, cache: HouseCache) -> int:
    """Return the number of houses.

    Raises:
        ConfigurationError: If the first one lies beyond the last file.
    """
    if cache.files is None:
        return cfg.num_houses
    if cfg.first_house >= len(cache.files):
        raise ConfigurationError(
            f"env.houses.first_house is {cfg.first_house}, but there are {len(cache.files)} house "
            "files, counted from 0."
        )
    return min(cfg.num_houses, len(cache.files) - cfg.first_house)


def _check_targets(goals: list[int], cache: HouseCache) -> None:
    """Refuse chosen target classes that no file has.

    Raises:
        ConfigurationError: With the existing classes.
    """
    chosen = [TARGETS[goal] for goal in goals if goal < len(TARGETS)]
    if cache.files is None or len(chosen) == len(TARGETS):
        return
    for name in chosen:
        if name not in cache.files.classes:
            raise ConfigurationError(
                f"env.targets names {name!r}, but no house file has an instance that an agent can "
                f"get near. They have {', '.join(sorted(cache.files.classes)) or 'no target'}."
            )
