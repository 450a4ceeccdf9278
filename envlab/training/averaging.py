"""Ranks that learn alone, and average what they have learned once in some iterations.

Gradients averaged in each minibatch cross the wire some twenty times an iteration, which nodes far
apart spend waiting. Here ranks meet once in ``agent.sync_interval`` iterations: local SGD
(Stich, arXiv 1805.09767) with the moments of Adam averaged too, and, with an outer step, DiLoCo
(Douillard et al., arXiv 2311.08105).

Between two averages a rank's learner works as if alone, and differs from the others. Records,
audits, checkpoints and the end of a run therefore wait for an average, after which all ranks are
equal to the last bit.

A run that does without is told early on what it waits for a slow network.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import torch

from envlab.agent_cfg import AgentCfg
from envlab.distributed.audit import flatten
from envlab.distributed.context import DistributedContext
from envlab.distributed.gathering import ROOM
from envlab.learner import Learner

logger = logging.getLogger(__name__)

MEANS = {"running_var": "running_mean", "running_variance": "running_mean", "_var": "_mean"}
"""Names of variances in normalisers, with those of their means: envlab's and rl_games', skrl's,
rsl_rl's."""
DEVIATIONS = {"_std": "_var"}
"""Names of standard deviations, with those of their variances: rsl_rl's."""

DIRECT_BYTES = 2**23
"""Bytes up to which all ranks' values go to every rank."""
T = TypeVar("T")


class Averaging:
    """Averages the ranks' learners.

    All tensors of a learner's :meth:`~envlab.learner.Learner.model_state` with fractions are
    averaged: parameters, moments of the optimizers, and the means of normalisers. Their variances
    become those of the samples of all ranks. Learning rates are averaged in their logarithm.

    Parameters and moments cross the wire in ``agent.sync_dtype``, all else in float32. What
    crosses it is, except for the optimizers' moments, the change since the last average,
    which ranks began from alike: float32 is then precise enough for the normalisers' float64.

    Attributes:
        interval: Iterations from one average to the next.
        velocity: Of the outer step, for all parameters; None without momentum.
    """

    def __init__(self, learner: Learner, context: DistributedContext, cfg: AgentCfg) -> None:
        """Prepare to average; :meth:`begin` makes ranks alike."""
        self._learner, self._context = learner, context
        self.interval = cfg.sync_interval
        self._dtype = getattr(torch, cfg.sync_dtype)
        self._rate, self._momentum = cfg.outer_learning_rate, cfg.outer_momentum
        self._last: dict[str, torch.Tensor] = {}
        self._last_rates: list[float] = []
        self.velocity: torch.Tensor | None = None
        if self._momentum:
            sizes = [values.numel() for values in self._parameters().values()]
            self.velocity = torch.zeros(sum(sizes), device=context.device)

    def next_after(self, number: int) -> int:
        """Return the iteration after ``number`` that ends with an average, if none is the last."""
        return number - number % self.interval + self.interval

    @torch.no_grad()
    def begin(self) -> None:
        """Give all ranks the values of rank 0. Called by every rank, before the first iteration."""
        values = list(self._values().values())
        for dtype in dict.fromkeys(value.dtype for value in values):
            kind = [value for value in values if value.dtype == dtype]
            flat = torch.cat([value.reshape(-1) for value in kind])
            if not self._context.is_main:
                flat.zero_()
            _fill(kind, self._context.sum(flat))
        self._remember()

    @torch.no_grad()
    def average(self, word: T) -> list[T]:
        """Average the ranks' learners, and return every rank's ``word``. Called by every rank.

        Args:
            word: Any picklable object, which travels along.
        """
        values, moments, rates = self._values(), self._moments(), self._rates()
        changes = {
            path: value if path in moments else value - self._before(path)
            for path, value in values.items()
        }
        for path, mean in _pairs(changes, MEANS):  # of squares, as variances have other centres
            changes[path] = changes[path] + changes[mean].square()
        logs = [
            math.log(rate / last) if rate and last else 0.0
            for rate, last in zip(rates, self._last_rates, strict=True)
        ]
        parameters = self._parameters()
        learned = {
            path: changes.pop(path) for path in values if path in moments or path in parameters
        }
        flats = [
            _flat(learned.values()).to(self._dtype),
            torch.cat([_flat(changes.values()), torch.tensor(logs)]),
        ]
        flats, words = self._exchange(flats, word)
        for flat, kind in zip(flats, (learned, changes), strict=True):
            kind |= {path: part.to(kind[path]) for path, part in _split(flat, kind).items()}
        changes |= learned
        for path, mean in _pairs(changes, MEANS):
            changes[path] -= changes[mean].square()
        self._step_outside(changes)
        for path, value in values.items():
            value.copy_(changes[path] if path in moments else self._before(path) + changes[path])
        for path, _ in _pairs(values, MEANS):
            values[path].clamp_(min=0.0)
        for path, variance in _pairs(values, DEVIATIONS):
            torch.sqrt(values[variance], out=values[path])
        changed = flats[1][len(flats[1]) - len(logs) :].tolist()
        self._set_rates(
            [
                last * math.exp(log) if log else last
                for last, log in zip(self._last_rates, changed, strict=True)
            ]
        )
        self._remember()
        return words

    def _exchange(self, flats: list[torch.Tensor], word: T) -> tuple[list[torch.Tensor], list[T]]:
        """Return the ranks' means of tensors, float32, and every rank's ``word``.

        Small tensors go from each rank to each, in one exchange together with the word. For large
        ones this would take too many bytes, and they are summed.
        """
        context, num_bytes = self._context, sum(flat.nbytes for flat in flats)
        if num_bytes * context.world_size > DIRECT_BYTES:
            means = [context.sum(flat).float() / context.world_size for flat in flats]
            return means, context.gather(word)
        everyone = context.gather((flats, word), room=num_bytes + ROOM)
        means = [
            torch.stack(ranks).float().mean(dim=0)
            for ranks in zip(*(one[0] for one in everyone), strict=True)
        ]
        return means, [one[1] for one in everyone]

    @property
    def learning_rate(self) -> float:
        """The first optimizer's learning rate."""
        return self._rates()[0]

    def _step_outside(self, changes: dict[str, torch.Tensor]) -> None:
        """Turn the mean change of parameters into a step of Nesterov's momentum."""
        if self.velocity is None and self._rate == 1.0:
            return
        paths = self._parameters()
        steps = torch.cat([changes[path].reshape(-1) for path in paths])
        if self.velocity is not None:
            self.velocity.mul_(self._momentum).add_(steps)
            steps = steps + self._momentum * self.velocity
        changes |= _split(self._rate * steps, paths)

    def _remember(self) -> None:
        """Keep the values from which all ranks continue."""
        moments = self._moments()
        self._last = {
            path: value.clone() for path, value in self._values().items() if path not in moments
        }
        self._last_rates = self._rates()

    def _before(self, path: str) -> torch.Tensor | float:
        """Return a value after the last average; 0 if it has appeared since."""
        return self._last.get(path, 0.0)

    def _values(self) -> dict[str, torch.Tensor]:
        """Return the learner's tensors with fractions, themselves, by path."""
        return {
            path: value
            for path, value in flatten(self._learner.model_state()).items()
            if isinstance(value, torch.Tensor) and value.is_floating_point()
        }

    def _moments(self) -> set[str]:
        """Return the paths of the optimizers' memory."""
        places = {
            value.data_ptr()
            for optimizer in self._learner.all_optimizers()
            for state in optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        }
        return {path for path, value in self._values().items() if value.data_ptr() in places}

    def _parameters(self) -> dict[str, torch.Tensor]:
        """Return what the optimizers change, by path, each once."""
        places = {parameter.data_ptr() for group in self._groups() for parameter in group["params"]}
        return {path: value for path, value in self._values().items() if value.data_ptr() in places}

    def _groups(self) -> Iterator[dict[str, Any]]:
        for optimizer in self._learner.all_optimizers():
            yield from optimizer.param_groups

    def _rates(self) -> list[float]:
        return [float(group["lr"]) for group in self._groups()]

    def _set_rates(self, rates: list[float]) -> None:
        for group, rate in zip(self._groups(), rates, strict=True):
            group["lr"] = rate
        self._learner.follow_rates()


def _pairs(values: dict[str, torch.Tensor], names: dict[str, str]) -> list[tuple[str, str]]:
    """Return the paths of values with the given names whose partner is in the same place."""
    found = []
    for path in values:
        above, dot, name = path.rpartition(".")
        partner = f"{above}{dot}{names.get(name, '')}"
        if name in names and partner in values:
            found.append((path, partner))
    return found


def _flat(values: Iterable[torch.Tensor]) -> torch.Tensor:
    """Return all numbers, float32 on the CPU."""
    flat = [value.reshape(-1).to("cpu", torch.float32) for value in values]
    return torch.cat([torch.empty(0), *flat])


def _split(flat: torch.Tensor, like: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return parts of ``flat`` in the shapes of ``like``, in its order."""
    sizes = [value.numel() for value in like.values()]
    parts = flat[: sum(sizes)].split(sizes)
    return {
        path: part.view(value.shape)
        for (path, value), part in zip(like.items(), parts, strict=True)
    }


def _fill(values: list[torch.Tensor], flat: torch.Tensor) -> None:
    for value, part in zip(values, flat.split([one.numel() for one in values]), strict=True):
        value.copy_(part.view(value.shape))


SHARE = 0.2
"""Share of an iteration from which waiting is worth a sentence."""
_TRIES = 3


class Waits:
    """Counts optimizer steps, each of which waits for one exchange of gradients between nodes.

    It measures such an exchange once, after the first iteration that is warm and took steps.
    """

    def __init__(self, learner: Learner, context: DistributedContext) -> None:
        several_nodes = context.world_size > context.local_world_size
        self._is_due = several_nodes and learner.averaging is None
        self._learner, self._context, self._steps = learner, context, 0
        optimizers = learner.all_optimizers() if self._is_due else []
        self._hooks = [one.register_step_post_hook(self._count) for one in optimizers]

    def end_iteration(self, seconds: float, *, is_warm: bool) -> None:
        """Log the advice if it is due and earned. Called by every rank, after each iteration.

        Args:
            seconds: Duration of the iteration.
            is_warm: Whether an iteration of this process came before it.
        """
        steps, self._steps = self._steps, 0
        if not (self._is_due and is_warm and steps):
            return
        self._is_due = False
        for hook in self._hooks:
            hook.remove()
        exchange_s = self._measure()
        waited_s = steps * exchange_s
        if self._context.is_main and waited_s > SHARE * seconds:
            logger.warning(
                "Of an iteration's %.2f s, some %.2f s are waiting for the other nodes: gradients "
                "are averaged %d times, %.0f ms each. With --grad_sync local, nodes meet once an "
                "iteration, or once in agent.sync_interval: see docs/distribute.md, Nodes far "
                "apart.",
                *(seconds, waited_s, steps, 1e3 * exchange_s),
            )

    def _count(self, *_: Any) -> None:
        self._steps += 1

    def _measure(self) -> float:
        """Return the seconds that ranks take to sum as many numbers as there are gradients."""
        parameters = {
            parameter
            for optimizer in self._learner.all_optimizers()
            for group in optimizer.param_groups
            for parameter in group["params"]
        }
        gradients = torch.zeros(sum(map(torch.Tensor.numel, parameters)))
        times = []
        for _ in range(_TRIES):
            start = time.perf_counter()
            self._context.sum(gradients)
            times.append(time.perf_counter() - start)
        return min(times)
