"""Small runs of a task that must be equal: of one seed, restored, and on one process and two.

Episodes are short, so that the runs contain resets. Where a restored run goes another way, the
attributes that the task changes and does not declare (:mod:`envlab.state`) are found by trying
them.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import torch
from gymnasium import spaces

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.envs import BatchedEnv, VectorEnv
from envlab.envs.random import EnvRandom
from envlab.errors import ConfigurationError, SimulationError
from envlab.sim.host import as_on_a_gpu
from envlab.sim.recordable import RepeatedOperations
from envlab.state import Share, deal
from envlab.task import Task
from envlab.tools.agents import draw_actions
from envlab.training.plan import without_recorders

NUM_ENVS = 8
EPISODE_STEPS = 8
NUM_STEPS = 20
BEFORE = 11
"""Steps before a state is saved: within an episode, after the first resets."""
REWARD_TOLERANCE = 1e-5
"""Relative: torch sums a reward's terms in an order that depends on the number of environments."""
REWARD = "reward"
Row = dict[str, torch.Tensor]
"""Observations and results of a step by name, ``(num_envs, ...)`` each."""


class Broken(Exception):
    """A promise that the task does not keep; the text says how."""


def check(task: Task, cfg: Any) -> Iterator[tuple[str, str | None]]:
    """Yield each promise, and how the task breaks it; None if it keeps it.

    Args:
        task: The task.
        cfg: Its configuration, such as that of :func:`brief`.

    Raises:
        EnvlabError: If the task cannot be built.
    """
    probe = Probe(task, cfg)
    yield f"{task.id} is built, and steps with finite results", _found(probe.steps)
    promises: list[tuple[str, Callable[[], None]]] = [
        ("two runs of one seed are equal", probe.repeats)
    ]
    if probe.resumes_exactly:
        promises += [
            ("a saved and restored run continues as it would have", probe.resumes),
            ("two processes give the results of one", probe.shards),
            ("two processes continue what one saved, and one what two saved", probe.is_dealt),
        ]
    if probe.has_physics:
        promises.append(("steps may be recorded as a GPU's graphs", probe.records))
    for what, promise in promises:
        yield what, _found(promise)


def brief(cfg: Any) -> Any:
    """Return an environment's configuration with episodes of :data:`EPISODE_STEPS` steps."""
    cfg = without_recorders(cfg)
    for name in ("max_episode_length", "max_episode_steps"):
        if dataclasses.is_dataclass(cfg) and name in {one.name for one in dataclasses.fields(cfg)}:
            return merge(cfg, {name: EPISODE_STEPS}, "env")
    return merge(cfg, {"episode_length_s": EPISODE_STEPS * cfg.step_dt}, "env")


def _found(promise: Callable[[], None]) -> str | None:
    try:
        promise()
    except Broken as broken:
        return str(broken)
    return None


class Probe:
    """Makes and compares small runs of a task."""

    def __init__(self, task: Task, cfg: Any) -> None:
        """Build the task.

        Raises:
            EnvlabError: If that fails.
        """
        self._task, self._cfg = task, cfg
        self._env = self._make(seed=1)
        self.resumes_exactly = self._env.resumes_exactly
        self.has_physics = isinstance(self._env, VectorEnv)
        self._actions = self._draw_actions(self._env)

    def steps(self) -> None:
        """Check that observations and rewards are finite."""
        for number, row in enumerate(_follow(self._env, self._actions)):
            for name, values in row.items():
                if values.is_floating_point() and not bool(values.isfinite().all()):
                    raise Broken(f"{name} is not finite after step {number}")

    def repeats(self) -> None:
        """Check that a seed decides everything."""
        first = list(_follow(self._make(seed=1), self._actions))
        _compare(first, list(_follow(self._make(seed=1), self._actions)), "the second run's")
        self._env.reset(seed=1)
        again = list(_follow(self._env, self._actions))
        _compare(first, again, "after steps and reset(seed=1), the")

    def resumes(self) -> None:
        """Check that all that changes is declared."""
        state, expected = self._saved()
        resumed = self._restored(state)
        found = list(_follow(resumed, self._actions[BEFORE:]))
        if (difference := _difference(expected, found)) is None:
            return
        names = self._undeclared(state, expected)
        if not names:
            raise Broken(f"{difference}, and no attribute was found that explains it")
        raise Broken(
            f"{difference}, since {' and '.join(names)} {'is' if len(names) == 1 else 'are'} "
            "changed by steps but not declared. Name what a resume needs in STATE (see "
            "envlab.state)"
        )

    def shards(self) -> None:
        """Check that environments do not depend on their process."""
        whole = list(_follow(self._make(seed=1), self._actions))
        halves = self._in_halves(lambda env, rank: list(_follow(env, _half(self._actions, rank))))
        _compare(whole, _joined(halves), "on two processes, the")

    def is_dealt(self) -> None:
        """Check that rows of environments are dealt by their global index."""
        state, expected = self._saved()
        half = NUM_ENVS // 2

        def go_on(env: BatchedEnv, rank: int) -> tuple[list[Row], dict[str, Any]]:
            env.set_state(deal(env, [state], Share(rank * half, half, NUM_ENVS)))
            saved = env.state()
            return list(_follow(env, _half(self._actions[BEFORE:], rank))), saved

        halves = self._in_halves(go_on)
        _compare(expected, _joined([rows for rows, _ in halves]), "on two processes, the")
        one = self._make(seed=2)
        one.set_state(deal(one, [saved for _, saved in halves], Share(0, NUM_ENVS, half)))
        found = list(_follow(one, self._actions[BEFORE:]))
        _compare(expected, found, "on one process again, the")

    def records(self) -> None:
        """Check that steps can be repeated without Python: on a CPU, by a GPU's branches.

        Any change that a recording would miss within the steps is found, not only one in those that
        a recording looks at.
        """
        actions = self._actions + self._actions
        with as_on_a_gpu():
            found = self._recorded(actions)
            direct = list(_follow(self._make(seed=1), actions))
            try:
                _compare(direct, found, "recorded, the")
            except Broken:
                self._recorded(actions, num_watched=len(actions))  # which may know the line
                raise

    def _recorded(self, actions: Sequence[Any], *, num_watched: int | None = None) -> list[Row]:
        """Return what recorded steps do; ``num_watched`` of them are only checked."""
        env = self._make(seed=1)
        assert isinstance(env, VectorEnv)
        recording = env.record_steps(lambda: RepeatedOperations, is_required=True)
        if num_watched is not None:
            recording.num_watched = num_watched
        try:
            return list(_follow(env, actions))
        except SimulationError as error:
            raise Broken(str(error)) from None

    # ----------------------------------------------------------------------------------------------

    def _make(self, seed: int, num_envs: int = NUM_ENVS, context: Any = None) -> BatchedEnv:
        context = context or DistributedContext(num_threads=1)
        cfg = merge(self._cfg, {"scene": {"num_envs": num_envs}}, "env")
        env = self._task.make(cfg, context=context, seed=seed)
        if not isinstance(env, BatchedEnv):
            raise ConfigurationError(
                f"{self._task.id} makes a {type(env).__name__}, but only environments of envlab "
                "can be checked."
            )
        return env

    def _draw_actions(self, env: BatchedEnv) -> list[Any]:
        """Return the actions of :data:`NUM_STEPS` steps, of all environments."""
        random = EnvRandom(0, 0, NUM_ENVS, env.device)

        def draw(space: Any, name: str) -> Any:
            if isinstance(space, spaces.Dict):
                return {agent: draw(own, agent) for agent, own in space.items()}
            return draw_actions(space, random.stream(name))

        drawn = []
        for _ in range(NUM_STEPS):
            random.advance()
            drawn.append(draw(env.single_action_space, ""))
        return drawn

    def _saved(self) -> tuple[dict[str, Any], list[Row]]:
        """Return a state after some steps, and what follows it."""
        going = self._make(seed=1)
        list(_follow(going, self._actions[:BEFORE]))
        state = going.state()
        return state, list(_follow(going, self._actions[BEFORE:]))

    def _restored(self, state: Mapping[str, Any]) -> BatchedEnv:
        """Return an environment of another past, with a state restored."""
        env = self._make(seed=2)
        list(_follow(env, self._actions[:3]))
        env.set_state(state)
        return env

    def _undeclared(self, state: Mapping[str, Any], expected: list[Row]) -> list[str]:
        """Return the attributes without which a restored run differs, as few as possible."""
        original = self._make(seed=1)
        list(_follow(original, self._actions[:BEFORE]))
        theirs = {one.path: one for one in _attributes(original)}
        candidates = [
            one.path
            for one in _attributes(self._restored(state))
            if one.path in theirs and not one.equals(theirs[one.path])
        ]

        def works(chosen: Sequence[str]) -> bool:
            env = self._restored(state)
            for one in list(_attributes(env)):
                if one.path in chosen:
                    one.take(theirs[one.path])
            return _difference(expected, list(_follow(env, self._actions[BEFORE:]))) is None

        if not works(candidates):
            return []
        kept = candidates
        for path in candidates:
            fewer = [other for other in kept if other != path]
            if works(fewer):
                kept = fewer
        return [f"{path} of {type(theirs[path].holder).__name__}" for path in kept]

    def _in_halves(self, use: Callable[[BatchedEnv, int], Any]) -> list[Any]:
        """Return what a function makes of each of two processes' environments.

        The processes are threads here, which meet where ranks sum up values.
        """
        together = _Together()

        def of_rank(rank: int) -> Any:
            context = _ThreadContext(rank=rank, world_size=2, num_threads=1, together=together)
            try:
                return use(self._make(seed=1, num_envs=NUM_ENVS // 2, context=context), rank)
            except BaseException:
                together.barrier.abort()
                raise

        with ThreadPoolExecutor(2) as threads:
            return list(threads.map(of_rank, range(2)))


@dataclass(frozen=True)
class _Attribute:
    """An attribute that steps may change: a tensor, or plain values."""

    path: str
    holder: Any
    name: str
    value: Any

    def equals(self, other: _Attribute) -> bool:
        if isinstance(self.value, torch.Tensor) and isinstance(other.value, torch.Tensor):
            same = self.value.shape == other.value.shape
            return same and torch.equal(self.value.nan_to_num(), other.value.nan_to_num())
        return type(self.value) is type(other.value) and bool(self.value == other.value)

    def take(self, other: _Attribute) -> None:
        """Become another environment's, in place where it is a tensor."""
        value = other.value
        if isinstance(self.value, torch.Tensor) and isinstance(value, torch.Tensor):
            if self.value.shape == value.shape:
                self.value.copy_(value)
                return
            value = value.clone()
        setattr(self.holder, self.name, value)


_PLAIN = int | float | str | bool | None
_OTHERS = ("torch", "numpy", "mujoco", "warp")
"""Libraries whose objects are not looked into."""
_FIXED = ("cfg", "context", "random", "sim", "recording", "spec")
"""Attributes of an environment that are not the task's."""


def _attributes(env: BatchedEnv) -> Iterator[_Attribute]:
    """Yield all attributes of a task and its parts that steps may change."""
    seen: set[int] = {id(env)}

    def of(one: Any, where: str) -> Iterator[_Attribute]:
        for name, value in list(vars(one).items()):
            if one is env and name in _FIXED:
                continue
            yield from at(one, name, value, f"{where}{name}")

    def at(holder: Any, name: str, value: Any, path: str) -> Iterator[_Attribute]:
        if isinstance(value, torch.Tensor | _PLAIN):
            yield _Attribute(path, holder, name, value)
        elif id(value) in seen:
            return
        elif isinstance(value, Mapping | list | tuple):
            seen.add(id(value))
            items = value.items() if isinstance(value, Mapping) else enumerate(value)
            for key, inner in list(items):
                if not isinstance(inner, _PLAIN):
                    yield from at(holder, name, inner, f"{path}[{key!r}]")
        elif hasattr(value, "__dict__") and not isinstance(value, type | torch.nn.Module):
            seen.add(id(value))
            if type(value).__module__.partition(".")[0] not in _OTHERS:
                yield from of(value, f"{path}.")

    yield from of(env, "")


@dataclass
class _Together:
    """Sums over ranks that are threads."""

    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(2, timeout=60.0))
    values: dict[int, torch.Tensor] = field(default_factory=dict)

    def sum(self, rank: int, tensor: torch.Tensor) -> torch.Tensor:
        self.values[rank] = tensor.clone()
        self.barrier.wait()
        total = self.values[0] + self.values[1]
        self.barrier.wait()
        return total


@dataclass(frozen=True, kw_only=True)
class _ThreadContext(DistributedContext):
    """The place of a rank that is a thread."""

    together: _Together = field(default_factory=_Together, compare=False)

    def sum(self, tensor: torch.Tensor) -> torch.Tensor:
        return self.together.sum(self.rank, tensor)


def _follow(env: BatchedEnv, actions: Sequence[Any]) -> Iterator[Row]:
    """Yield the observations, and then the results of each step."""
    yield _flat(env.obs_buf)
    for action in actions:
        obs, *results, _ = env.step(action)
        row = _flat(obs)
        for kind, values in zip((REWARD, "terminated", "truncated"), results, strict=True):
            by_agent = values if isinstance(values, Mapping) else {"": values}
            row |= {f"{kind} {agent}".strip(): one.clone() for agent, one in by_agent.items()}
        yield row


def _flat(obs: Mapping[str, Any], where: str = "") -> Row:
    """Return copies of observations by group, or by group and term."""
    row: Row = {}
    for name, values in obs.items():
        is_group = isinstance(values, Mapping)
        row |= _flat(values, f"{where}{name}.") if is_group else {where + name: values.clone()}
    return row


def _half(actions: Sequence[Any], rank: int) -> list[Any]:
    """Return a rank's part of actions."""
    rows = slice(rank * NUM_ENVS // 2, (rank + 1) * NUM_ENVS // 2)
    return [
        {agent: values[rows] for agent, values in action.items()}
        if isinstance(action, Mapping)
        else action[rows]
        for action in actions
    ]


def _joined(halves: Sequence[Sequence[Row]]) -> list[Row]:
    """Return the rows of two ranks as those of one process."""
    return [
        {name: torch.cat([first[name], second[name]]) for name in first}
        for first, second in zip(*halves, strict=True)
    ]


def _difference(expected: Sequence[Row], found: Sequence[Row]) -> str | None:
    """Return where two runs part; None if they are equal."""
    for number, (one, other) in enumerate(zip(expected, found, strict=True)):
        for name, values in one.items():
            if name.startswith(REWARD):
                same = torch.allclose(other[name], values, rtol=REWARD_TOLERANCE, atol=1e-7)
            else:
                same = torch.equal(other[name], values)
            if not same:
                rows = (other[name] != values).reshape(len(values), -1).any(1)
                return (
                    f"{name} differs after step {number} in {int(rows.sum())} of {len(values)} "
                    "environments"
                )
    return None


def _compare(expected: Sequence[Row], found: Sequence[Row], whose: str) -> None:
    """Refuse runs that part."""
    difference = _difference(expected, found)
    if difference is not None:
        raise Broken(f"{whose} {difference}")
