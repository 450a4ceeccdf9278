"""The first update of skrl's PPO on JAX, see :func:`tests.skrl.jobs.first_update`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.distributed.progress import Progress
from envlab.skrl.jax.arrays import to_jax, tree_state, view_in_torch
from envlab.skrl.jax.learner import make_learner
from envlab.skrl.learner import SkrlLearner
from tests.skrl import jobs

NUM_ENVS = 256


class Recorder:
    """Stands in for an optimizer of skrl, and keeps the gradients that it is given."""

    def __init__(self, found: dict[str, torch.Tensor], name: str) -> None:
        self._found, self._name = found, name

    def step(self, *, grad: Any, **_: Any) -> Recorder:
        for name, values in tree_state(grad).items():
            self._found[f"{self._name}.{name}"] = values
        return self


class CountingProgress(Progress):
    """Counts its marks."""

    num_marks = 0

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if name == "marked_at":
            self.num_marks += 1


@contextlib.contextmanager
def watching(
    learner: SkrlLearner, noise: Any, gradients: dict[str, torch.Tensor]
) -> Iterator[None]:
    """Sample actions from ``noise``, and keep the gradients of the optimizers' steps."""
    policy = learner.agent.policy
    act = policy.act

    def act_with(inputs: dict[str, Any], *, role: str = "", params: Any = None) -> Any:
        if params is not None or "taken_actions" in inputs:
            return act(inputs, role=role, params=params)
        _, outputs = act(dict(inputs), role=role)
        mean, std = outputs["mean_actions"], outputs["stddev"]
        actions = mean + std * to_jax(noise.normal(0.0, 1.0, mean.shape[1]))
        return actions, act({**inputs, "taken_actions": actions}, role=role)[1]

    policy.act = act_with
    for name in ("policy", "value"):
        getattr(learner.agent, f"{name}_optimizer").optimizer = Recorder(gradients, name)
    yield


def first_update(context: DistributedContext) -> dict[str, Any]:
    """Return initial states, gradients over all ranks, normalisers, and marks of progress."""
    counts = []

    @contextlib.contextmanager
    def counting(*args: Any) -> Iterator[None]:
        progress = context.progress
        with watching(*args):
            progress.__class__ = CountingProgress
            yield
            progress.__class__ = Progress
        counts.append(vars(progress).pop("num_marks"))

    found, learner = jobs.first_update(context, NUM_ENVS, "jax", make_learner, counting)
    truncated = view_in_torch(learner.agent.memory.tensors["truncated"])
    return found | {
        "num_time_outs": int(truncated.sum()),
        "num_marks": counts[0],
        "buffers": {
            f"{name}.{key}": values
            for name, arrays in learner.model_state()["arrays"].items()
            if "preprocessor" in name
            for key, values in arrays.items()
        },
    }
