"""What a run must remember: declared where it lives, and walked in one place.

A class that changes from step to step names the attributes that a resumed run needs, and what they
belong to; a subclass adds its own::

    class GaitPhase(CommandTerm):
        STATE = State(per_env=("phase", "frequency"))

One walker then does everything else: :func:`save` copies an object and its parts, :func:`restore`
writes them back, :func:`shared` returns what must be equal on all ranks, for the audit, and
:func:`deal` gives each process its rows of what another number of processes saved.

An attribute holds tensors, NumPy arrays, numbers and texts, in lists and dictionaries, or an object
that saves itself by ``state()`` and ``set_state(state)``, such as physics; one whose rows are not
those of environments also has ``deal(saved_by_rank, share)``, such as a replay memory. An attribute
of another library's object is named by its path, ``"agent.dones"``. Where an attribute is missing
or None, None is saved. A class that must act before its attributes are written, or afterwards,
defines ``before_restore()`` or ``on_restore()``.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np
import torch

from envlab.errors import CheckpointError

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class State:
    """The attributes of a class that a run must remember, by what they belong to."""

    per_env: tuple[str, ...] = ()
    """Each environment: ``(num_envs, ...)``."""
    per_env_by_name: tuple[str, ...] = ()
    """The same, in a dictionary by the names of terms; those that were not saved start afresh."""
    per_env_dim_1: tuple[str, ...] = ()
    """Each environment, in the second dimension: ``(steps, num_envs, ...)``."""
    shared: tuple[str, ...] = ()
    """All ranks, which have the same."""
    of_rank: tuple[str, ...] = ()
    """One rank; starts afresh on another number of processes."""
    parts: tuple[str, ...] = ()
    """Objects that have a state, declared or by ``state()`` and ``set_state()``; or a dictionary or
    list of them."""
    wraps: str | None = None
    """Attribute whose state this object's is, whatever its bases declare."""


class Share(NamedTuple):
    """The environments of one process among those that other processes saved."""

    first: int
    """Global index of its first environment."""
    num_envs: int
    """Number of its environments."""
    num_envs_before: int
    """Number of environments of each process that saved."""

    @property
    def ranks(self) -> range:
        """The processes that saved some of its environments."""
        last = self.first + self.num_envs - 1
        return range(self.first // self.num_envs_before, last // self.num_envs_before + 1)

    def within(self, saved: Sequence[Any]) -> tuple[list[Any], Share]:
        """Return the values of :attr:`ranks` alone, and this share as one of theirs."""
        ranks = self.ranks
        first = self.first - ranks.start * self.num_envs_before
        return list(saved[ranks.start : ranks.stop]), self._replace(first=first)

    def rows(self, saved: Sequence[Any], take: Callable[[Any, int, int], Any]) -> list[Any]:
        """Return the parts of ``saved``, one value a process, that hold this share's rows.

        Args:
            saved: The values by rank.
            take: Returns some rows of a value: ``take(value, first, number)``.
        """
        parts, before = [], self.num_envs_before
        for rank, value in enumerate(saved):
            first = max(self.first - rank * before, 0)
            last = min(self.first + self.num_envs - rank * before, before)
            if first < last:
                parts.append(take(value, first, last - first))
        return parts


class _Field(NamedTuple):
    """A declared attribute."""

    path: str
    kind: str
    """The field of :class:`State` that names it."""


def save(part: Any) -> dict[str, Any]:
    """Return copies on the CPU of all that ``part`` and its parts declare, by name."""
    return {
        name: _save_parts(value) if one.kind == "parts" else _saved(value)
        for name, one, value in _walk(part)
    }


def restore(part: Any, saved: Mapping[str, Any], device: torch.device, where: str = "") -> None:
    """Write what :func:`save` returned back into ``part`` and its parts.

    Terms that ``saved`` does not have start afresh, and so do attributes that were None. ``saved``
    may lack an attribute that is None here.

    Args:
        part: The object.
        saved: What was saved.
        device: Of tensors that do not exist yet, in parts without an attribute ``device``.
        where: Path of ``part``, for errors.

    Raises:
        CheckpointError: If ``saved`` lacks a declared attribute, has another one, or has it in
            another shape.
    """
    cls: type = type(part)
    if hasattr(cls, "before_restore"):
        part.before_restore()
    wrapped = _wrapped(part)
    if wrapped is part:
        _restore_declared(part, saved, getattr(part, "device", device), where)
    else:
        restore(wrapped, saved, device, where)
    if hasattr(cls, "on_restore"):
        part.on_restore()


def _restore_declared(
    part: Any, saved: Mapping[str, Any], device: torch.device, where: str
) -> None:
    cls: type = type(part)
    declared = declared_by(cls)
    for name in sorted(declared.keys() ^ saved.keys()):
        if name in declared and _value_at(part, declared[name].path) is None:
            continue
        raise CheckpointError(
            f"The state of {where or cls.__name__} "
            + (
                f"has no {name!r}, which {cls.__name__} declares."
                if name in declared
                else f"has {name!r}, which {cls.__name__} does not declare."
            )
            + " It was saved by other code: resume with that, or begin from the policy alone, by "
            "--checkpoint."
        )
    for name, one, value in _walk(part):
        path = f"{where}.{name}" if where else name
        if one.kind == "parts":
            _restore_parts(value, saved.get(name), device, path)
        elif one.kind == "per_env_by_name":
            for key in (saved.get(name) or {}).keys() & (value or {}).keys():
                if not _fill(value[key], saved[name][key], f"{path}.{key}"):
                    value[key] = _moved(saved[name][key], device)
        else:
            _write(part, one.path, value, saved.get(name), device, path)


def shared(part: Any) -> dict[str, Any]:
    """Return what all ranks must have alike of ``part`` and its parts, by path; no copies."""
    found: dict[str, Any] = {}
    for name, one, value in _walk(part):
        if one.kind == "shared":
            found[name] = _saved(value) if hasattr(value, "set_state") else value
        elif one.kind == "parts":
            for key, inner in _named_parts(value):
                path = name if key is None else f"{name}.{key}"
                found |= {f"{path}.{below}": leaf for below, leaf in shared(inner).items()}
    return found


def deal(
    part: Any, saved: Sequence[Mapping[str, Any]], share: Share, where: str = ""
) -> dict[str, Any]:
    """Return a process's share of what the processes of another launch saved.

    Args:
        part: The object, which declares what each value belongs to.
        saved: What :func:`save` returned, by rank; of those with none of the share's environments,
            :func:`without_tensors` is enough.
        share: The process's environments.
        where: Path of ``part``, for errors.

    Raises:
        CheckpointError: If ranks differ in what they must have alike.
    """
    dealt = {}
    for name, one, value in _walk(part):
        if any(name in values for values in saved):
            path = f"{where}.{name}" if where else name
            values = [values.get(name) for values in saved]
            dealt[name] = _deal_field(one, value, values, share, path)
    return dealt


@functools.cache
def declared_by(cls: type) -> Mapping[str, _Field]:
    """Return the attributes that a class and its bases declare, by the name they are saved under.

    The name is the attribute's, without the underscores of private ones.
    """
    found: dict[str, _Field] = {}
    for base in reversed(cls.__mro__):
        state = vars(base).get("STATE")
        if isinstance(state, State):
            for kind in fields(state):
                for path in getattr(state, kind.name) if kind.name != "wraps" else ():
                    name = ".".join(step.lstrip("_") for step in path.split("."))
                    found[name] = _Field(path, kind.name)
    return found


def without_tensors(saved: Any) -> Any:
    """Return what was saved with None in place of tensors: the numbers by which ranks differ."""
    if isinstance(saved, Mapping):
        return {name: without_tensors(value) for name, value in saved.items()}
    if isinstance(saved, list | tuple):
        return type(saved)(without_tensors(value) for value in saved)
    return None if isinstance(saved, torch.Tensor) else saved


class Ring(NamedTuple):
    """The steps of a memory that overwrites its oldest."""

    steps: torch.Tensor
    """``(num_steps, num_envs, ...)``; those that exist, in the memory's order."""
    num_added: int
    """Number of steps ever added: where the next one would go, if the memory is full."""

    def in_order(self) -> torch.Tensor:
        """Return the steps, the oldest first."""
        held = len(self.steps)
        return self.steps.roll(-(self.num_added % held), 0) if self.num_added > held else self.steps


def dealt_steps(saved: Sequence[Ring], share: Share, most: int) -> torch.Tensor:
    """Return a share's steps of a memory, the oldest first.

    Args:
        saved: The memory of each process, in which one process may have fewer steps.
        share: The environments.
        most: Most steps to return; the newest.
    """
    most = min(most, *(len(ring.steps) for ring in saved))
    newest = [ring.in_order()[len(ring.steps) - most :] for ring in saved]
    return torch.cat(share.rows(newest, lambda steps, row, num: steps.narrow(1, row, num)), 1)


def rows_of_tree(values: Sequence[Any], share: Share, dim: int, where: str) -> Any:
    """Return a share's rows of one value, which each process saved its rows of.

    Args:
        values: Tensors, in equal lists and dictionaries, by rank.
        share: The process's environments.
        dim: Which dimension is that of environments.
        where: Name of the value, for errors.

    Raises:
        CheckpointError: If a tensor has another number of environments.
    """
    first = values[0]
    if any(value is None for value in values):  # such as a memory before its first step
        return None
    if isinstance(first, Mapping):
        return {
            name: rows_of_tree([value[name] for value in values], share, dim, f"{where}.{name}")
            for name in first
        }
    if isinstance(first, list | tuple):
        return type(first)(
            rows_of_tree(list(parts), share, dim, f"{where}.{place}")
            for place, parts in enumerate(zip(*values, strict=True))
        )
    if not isinstance(first, torch.Tensor) or first.dim() <= dim:
        return _agreed(values, where)
    for value in values:
        if value.shape[dim] != share.num_envs_before:
            raise CheckpointError(
                f"The state has {where} of shape {tuple(value.shape)}, but its processes had "
                f"{share.num_envs_before} environments each, which dimension {dim} must count."
            )
    return torch.cat(share.rows(values, lambda value, row, num: value.narrow(dim, row, num)), dim)


# --------------------------------------------------------------------------------------------------


def _walk(part: Any) -> Iterator[tuple[str, _Field, Any]]:
    """Yield each declared attribute's name, declaration and value."""
    part = _wrapped(part)
    cls: type = type(part)
    for name, one in declared_by(cls).items():
        yield name, one, _value_at(part, one.path)


def _wrapped(part: Any) -> Any:
    """Return the object whose state a part's is: itself, except of wrappers."""
    state = getattr(type(part), "STATE", None)
    wraps = state.wraps if isinstance(state, State) else None
    return part if wraps is None else getattr(part, wraps)


def _value_at(part: Any, path: str) -> Any:
    for step in path.split("."):
        part = getattr(part, step, None)
    return part


def _saved(value: Any) -> Any:
    """Return a copy of a value on the CPU."""
    if isinstance(value, torch.Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy())
    if hasattr(value, "set_state"):
        return value.state()
    if isinstance(value, Mapping):
        return {name: _saved(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_saved(inner) for inner in value)
    return value


def _write(part: Any, path: str, value: Any, saved: Any, device: torch.device, where: str) -> None:
    """Write a saved value into an attribute: in place where there is memory for it."""
    *steps, last = path.split(".")
    owner = _value_at(part, ".".join(steps)) if steps else part
    if saved is None or owner is None:
        return
    if hasattr(value, "set_state"):
        value.set_state(saved)
    elif not _fill(value, saved, where):
        setattr(owner, last, _moved(saved, getattr(value, "device", device)))


def _fill(value: Any, saved: Any, where: str) -> bool:
    """Copy a saved value into the memory of one; return whether that could be done."""
    if isinstance(value, torch.Tensor | np.ndarray):
        shape = tuple(saved.shape) if isinstance(saved, torch.Tensor) else type(saved).__name__
        if shape != tuple(value.shape):
            raise CheckpointError(
                f"The state has {where} of shape {shape}, but here it is {tuple(value.shape)}. "
                "Resume with the run's own settings, or begin from the policy alone, by "
                "--checkpoint."
            )
        if isinstance(value, np.ndarray):
            np.copyto(value, saved.numpy(), casting="unsafe")
            return True
        if value.is_inference() and not torch.is_inference_mode_enabled():
            return False
        value.copy_(saved)
        return True
    if isinstance(value, Mapping) and value:
        if not isinstance(saved, Mapping) or value.keys() != saved.keys():
            names = sorted(map(str, saved)) if isinstance(saved, Mapping) else saved
            raise CheckpointError(
                f"The state has {where} with {names}, but here it has {sorted(map(str, value))}. "
                "Resume with the run's own settings, or begin from the policy alone, by "
                "--checkpoint."
            )
        # All or none: whoever holds the dictionary keeps it.
        filled = [_fill(value[name], saved[name], f"{where}.{name}") for name in value]
        return all(filled)
    return False


def _moved(saved: Any, device: torch.device) -> Any:
    """Return a copy of a saved value on a device."""
    if isinstance(saved, torch.Tensor):
        return saved.to(device, copy=True)
    if isinstance(saved, Mapping):
        return {name: _moved(inner, device) for name, inner in saved.items()}
    if isinstance(saved, list | tuple):
        return type(saved)(_moved(inner, device) for inner in saved)
    return saved


def _named_parts(value: Any) -> list[tuple[Any, Any]]:
    """Return the parts of an attribute by key; the key of a single part is None."""
    if value is None:
        return []
    if isinstance(value, Mapping):
        return list(value.items())
    if isinstance(value, list | tuple):
        return list(enumerate(value))
    return [(None, value)]


def _save_parts(value: Any) -> Any:
    """Save the objects of an attribute: one, None, or many by key."""
    if value is None:
        return None
    saved = {
        key: one.state() if _saves_itself(one) else save(one) for key, one in _named_parts(value)
    }
    return saved.get(None, saved)


def _restore_parts(value: Any, saved: Any, device: torch.device, where: str) -> None:
    if saved is None:
        return
    if value is None:
        logger.info("The checkpoint's %s is ignored: this run has none.", where)
    for key, one in _named_parts(value):
        if key is not None and (key not in saved or saved[key] is None):
            continue
        path, values = (where, saved) if key is None else (f"{where}.{key}", saved[key])
        if _saves_itself(one):
            one.set_state(values)
        else:
            restore(one, values, device, path)


def _saves_itself(part: Any) -> bool:
    is_declared = isinstance(getattr(type(part), "STATE", None), State)
    return not is_declared and hasattr(part, "set_state")


def _deal_field(one: _Field, value: Any, saved: list[Any], share: Share, where: str) -> Any:
    if one.kind == "parts":
        found = dict(_named_parts(value))
        if not found or any(each is None for each in saved):
            return None
        if None in found:
            return _deal_part(found[None], saved, share, where)
        return {
            key: _deal_part(inner, [each[key] for each in saved], share, f"{where}.{key}")
            for key, inner in found.items()
            if all(key in each for each in saved)
        }
    if hasattr(value, "deal"):
        return value.deal(*share.within(saved))
    if one.kind == "of_rank":
        return None
    if one.kind == "shared":
        return _agreed(saved, where)
    return rows_of_tree(*share.within(saved), 1 if one.kind == "per_env_dim_1" else 0, where)


def _deal_part(part: Any, saved: list[Any], share: Share, where: str) -> Any:
    if not _saves_itself(part):
        return deal(part, saved, share, where)
    if hasattr(part, "deal"):
        return part.deal(*share.within(saved))
    return rows_of_tree(*share.within(saved), 0, where)


def _agreed(values: Sequence[Any], where: str) -> Any:
    """Return the value that all ranks saved; of numbers that differ, the largest.

    Counters differ where ranks do not make the same number of steps.
    """
    known = [value for value in values if value is not None]  # see without_tensors()
    if not known:
        return None
    first = known[0]
    if all(isinstance(value, int | float) for value in known):
        return max(known)
    if all(isinstance(value, Mapping) and value.keys() == first.keys() for value in known):
        return {name: _agreed([one[name] for one in known], f"{where}.{name}") for name in first}
    if all(isinstance(value, list | tuple) and len(value) == len(first) for value in known):
        return type(first)(
            _agreed(parts, f"{where}.{place}")
            for place, parts in enumerate(zip(*known, strict=True))
        )
    if all(_is_equal(value, first) for value in known):
        return first
    raise CheckpointError(
        f"The state's {where} differs between the processes that saved it, but must be the same "
        "on all. Resume on as many processes as there were."
    )


def _is_equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return torch.equal(one, other)
    return bool(one == other)
