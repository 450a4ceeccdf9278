"""Replay memories that a program of AgileRL's fills itself, on its own process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils.data import IterableDataset

from envlab.errors import ConfigurationError

FIELDS = ("obs", "action", "reward", "next_obs", "done")
"""Parts of a transition."""
_WAITING = 256
"""Most steps that are written together."""


class Transition(dict[str, Any]):
    """A step of one environment or of several, under the names of :data:`FIELDS`."""

    batch_size: Any = None  # for AgileRL's tensor dictionaries; here rewards give the size

    def __init__(self, *values: Any, batch_size: Any = None, **named: Any) -> None:
        """Take the parts in the order of :data:`FIELDS`, or by name."""
        super().__init__(zip(FIELDS, values, strict=False), **named)
        self.batch_size = batch_size

    def to_tensordict(self) -> Transition:
        """Return it as it is."""
        return self


class ReplayBuffer:
    """The newest transitions, from which batches are drawn uniformly and with replacement.

    Attributes:
        counter: All transitions that were ever added.
    """

    def __init__(self, *arguments: Any, device: Any = None, **named: Any) -> None:
        """Make an empty memory by ``max_size``; in 0.1, by ``action_dim`` and ``memory_size``.

        Raises:
            ConfigurationError: If no size is given.
        """
        size = named.get("max_size") or named.get("memory_size")
        if size is None and arguments:
            is_old = len(arguments) > 1 and isinstance(arguments[1], int)
            size = arguments[1] if is_old or "action_dim" in named else arguments[0]
        if not isinstance(size, int) or size < 1:
            raise ConfigurationError(
                f"The size of a ReplayBuffer is {size!r}, but must be a number of transitions. "
                "Give it by max_size."
            )
        self.max_size, self.counter = size, 0
        self._device = torch.device(device or "cpu")
        self._rows: dict[str, torch.Tensor] = {}
        self._agents: dict[str, dict[str, int]] = {}
        """With several agents, the size of each agent's part, by name."""
        self._waiting: list[dict[str, np.ndarray[Any, Any]]] = []

    def __len__(self) -> int:
        return min(self.counter, self.max_size)

    @property
    def size(self) -> int:
        """Transitions that it holds."""
        return len(self)

    def add(self, transition: Mapping[str, Any], is_vectorised: bool = True) -> None:
        """Add a step of one environment or of several.

        Raises:
            ConfigurationError: If it is no transition.
        """
        missing = [name for name in FIELDS if name not in transition.keys()]  # noqa: SIM118, a TensorDict
        if missing:
            raise ConfigurationError(
                f"A transition lacks {missing[0]}; it has {', '.join(transition) or 'nothing'}. "
                f"Give {', '.join(FIELDS)}."
            )
        parts = {name: self._joined(name, transition[name]) for name in FIELDS}
        if isinstance(transition["reward"], Mapping):
            count = next(iter(parts.values())).shape[0]
            self._keep(parts, count)
            return
        count = parts["reward"].size
        self._keep(parts, count)

    def _keep(self, parts: Mapping[str, np.ndarray[Any, Any]], count: int) -> None:
        self._waiting.append({name: part.reshape(count, -1) for name, part in parts.items()})
        self.counter += count
        if len(self._waiting) == _WAITING:
            self._write()

    def _joined(self, name: str, value: Any) -> np.ndarray[Any, Any]:
        """Return a part as an array; with several agents, a row of all their parts."""
        if not isinstance(value, Mapping):
            return _plain(value)
        arrays = {agent: _plain(one) for agent, one in value.items()}
        is_one = name in ("reward", "done") and all(a.ndim == 0 for a in arrays.values())
        if name == "obs":
            self._is_one = all(a.ndim == 1 for a in arrays.values())
        is_one = is_one or (name not in ("reward", "done") and self._is_one)
        rows = {
            agent: a.reshape(1 if is_one else len(a), -1).astype(np.float32)
            for agent, a in arrays.items()
        }
        self._agents[name] = {agent: row.shape[1] for agent, row in rows.items()}
        return np.concatenate(list(rows.values()), 1)

    def _write(self) -> None:
        """Write waiting steps together: one by one, reading a data set would take minutes."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for name in FIELDS:
            values = torch.from_numpy(np.concatenate([rows[name] for rows in waiting]))
            values = values.to(self._device, _kept_type(values))
            if name not in self._rows:
                shape = (self.max_size, values.shape[1])
                self._rows[name] = torch.zeros(shape, dtype=values.dtype, device=self._device)
            where = torch.arange(self.counter - len(values), self.counter) % self.max_size
            newest = slice(-self.max_size, None)  # a row that is written twice keeps either
            self._rows[name][where[newest].to(self._device)] = values[newest]

    def save_to_memory(self, *values: Any, is_vectorised: bool = False) -> None:
        """Add the parts of a transition in the order of 0.1: the state after the reward."""
        obs, action, reward, next_obs, done = values
        self.add(Transition(obs, action, reward, next_obs, done))

    save2memory = save2memoryVectEnvs = save2memorySingleEnv = save_to_memory
    save_to_memory_vect_envs = save_to_memory_single_env = save_to_memory

    def sample(self, batch_size: int, *_: Any, **__: Any) -> dict[str, Any]:
        """Return a batch, ``(batch_size, dim)`` of each part; several agents' by name.

        Raises:
            ConfigurationError: If it is empty.
        """
        if len(self) == 0:
            raise ConfigurationError("The ReplayBuffer is empty. Add transitions before sampling.")
        self._write()
        rows = torch.randint(len(self), (int(batch_size),), device=self._device)
        batch: dict[str, Any] = {
            name: values.index_select(0, rows) for name, values in self._rows.items()
        }
        for name, sizes in self._agents.items():
            parts = batch[name].split(list(sizes.values()), 1)
            batch[name] = dict(zip(sizes, parts, strict=True))
        return batch


class ReplayDataset(IterableDataset):
    """Batches of a memory, without end, for a ``DataLoader`` that a program makes."""

    def __init__(self, buffer: ReplayBuffer, batch_size: int = 256) -> None:
        self.buffer, self.batch_size = buffer, batch_size

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        while True:
            yield self.buffer.sample(self.batch_size)


class Sampler:
    """Draws batches from this process's own memory, whether a loader was prepared or not.

    Accelerate's ``prepare`` would replace the loader by a ``DataLoaderDispatcher``, through which
    all processes get batches that rank 0 drew from its own memory (measured with 1.15): the others'
    steps would never be learned from.
    """

    def __init__(
        self,
        *_: Any,
        memory: ReplayBuffer | None = None,
        dataset: ReplayDataset | None = None,
        **__: Any,
    ) -> None:
        """Take a memory, or the data set of one.

        Raises:
            ConfigurationError: If it is given neither.
        """
        found = dataset.buffer if dataset is not None else memory
        if found is None:
            raise ConfigurationError("A Sampler needs memory or dataset. Give one of them.")
        self.memory = found

    def sample(self, batch_size: int, *_: Any, **__: Any) -> dict[str, torch.Tensor]:
        """Return a batch."""
        return self.memory.sample(batch_size)


class Handed:
    """Stands in for a skrl agent's memory: hands out the batch that a program gave."""

    def __init__(self, **_: Any) -> None:
        self.batch: dict[str, torch.Tensor] = {}

    def create_tensor(self, **_: Any) -> None:
        """Do nothing: the program keeps the transitions."""

    def sample(self, names: list[str], **_: Any) -> list[list[torch.Tensor | None]]:
        """Return the batch."""
        return [[self.batch.get(name) for name in names]]


def _plain(value: Any) -> np.ndarray[Any, Any]:
    """Return a copy as an array: environments reuse their arrays in the next step."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy().copy()
    return np.array(value)


def _kept_type(values: torch.Tensor) -> torch.dtype:
    """Return the type that rows are kept in: images stay bytes, actions whole numbers."""
    if values.dtype in (torch.uint8, torch.bool):
        return values.dtype
    return torch.float32 if values.is_floating_point() else torch.int64
