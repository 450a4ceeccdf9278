"""A rollout by the public methods of rsl_rl's algorithms, also in parallel with learning."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from rsl_rl.storage import RolloutStorage
from rsl_rl.utils import check_nan

from envlab.distributed.context import DistributedContext
from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from envlab.learner import OnStep
from envlab.rsl_rl.algorithms import Algorithm
from envlab.rsl_rl.cfg import RslRlCfg, RunnerCfg
from envlab.rsl_rl.ppo import DistributedPPO
from envlab.state import Share, rows_of_tree
from envlab.training.overlap import Overlap, StepLog, copied


def collect(env: RslRlVecEnvWrapper, alg: Algorithm, cfg: RunnerCfg, on_step: OnStep) -> None:
    """Fill an algorithm's storage with steps of all environments, and the returns of these.

    Args:
        env: The environments.
        alg: The acting algorithm, whose policy does not change meanwhile.
        cfg: The agent's configuration.
        on_step: Called after each step.
    """
    device = torch.device(alg.device)
    checks_nan = cfg.check_for_nan and device.type == "cpu"
    obs = env.get_observations().to(device)
    for _ in range(cfg.num_steps_per_env):
        obs, rewards, dones, extras = env.step(alg.act(obs).to(env.device))
        if checks_nan:
            check_nan(obs, rewards, dones)
        obs, rewards, dones = obs.to(device), rewards.to(device), dones.to(device)
        alg.process_env_step(obs, rewards, dones, extras)
        on_step(rewards, dones.bool(), extras["info"])
    alg.compute_returns(obs)


def _gaussian(distribution: Any, generator: torch.Generator) -> torch.Tensor:
    mean, deviation = distribution.params
    return torch.normal(mean, deviation, generator=generator)


SAMPLERS: Mapping[str, Callable[[Any, torch.Generator], torch.Tensor]] = {
    "GaussianDistribution": _gaussian,
    "HeteroscedasticGaussianDistribution": _gaussian,
}
"""Drawing actions of rsl_rl's distributions from a generator, which the library does not offer."""

STORED = ("actions", "dones", "values", "actions_log_prob", "returns")
"""Parts of a storage that an update reads, except observations, distributions and memories."""


class Rollout(NamedTuple):
    """Steps collected in parallel with learning."""

    storage: RolloutStorage
    log: StepLog
    """Information on them for the loop."""

    def state(self) -> dict[str, Any]:
        """Return the state that a resume needs, on the CPU."""
        storage = self.storage
        values: dict[str, Any] = {name: getattr(storage, name) for name in STORED}
        values["observations"] = dict(storage.observations.items())
        values["distribution_params"] = list(storage.distribution_params or ())
        for network in "ac":
            values[f"memories_{network}"] = getattr(storage, f"saved_hidden_state_{network}")
        return {**copied(values, torch.device("cpu")), "log": self.log.state()}

    @classmethod
    def dealt(cls, saved: Sequence[Mapping[str, Any]], share: Share) -> dict[str, Any]:
        """Return a share of what several processes saved; a memory has its layers before rows."""
        dims = {"memories_a": 2, "memories_c": 2}
        found = {
            name: rows_of_tree([each[name] for each in saved], share, dims.get(name, 1), name)
            for name in saved[0]
            if name != "log"
        }
        return {**found, "log": StepLog.dealt([each["log"] for each in saved], share)}

    @classmethod
    def of(
        cls, state: Mapping[str, Any], alg: DistributedPPO, context: DistributedContext
    ) -> Rollout:
        """Return the rollout whose :meth:`state` this is, in a storage like ``alg``'s."""
        storage, values = copy.deepcopy(alg.storage), copied(state, context.device)
        for name in STORED:
            getattr(storage, name).copy_(values[name])
        for group, observed in values["observations"].items():
            storage.observations[group].copy_(observed)
        storage.distribution_params = tuple(values["distribution_params"])
        for network in "ac":
            setattr(storage, f"saved_hidden_state_{network}", values[f"memories_{network}"])
        log = StepLog(context)
        log.set_state(state["log"])
        return cls(storage, log)


class Ahead:
    """Acts in parallel with a learning algorithm.

    Values and distributions are also the copy's, so that everything in a rollout comes from the
    policy that acted, and an adaptive rate depends on the learner's distance from it. With the
    learner's own distributions instead, each update undid the one before, and the rate stayed at
    1e-5 (Cartpole, two seeds). rsl_rl changes normalisers only in updates, so the copy never does.

    Attributes:
        acting: The algorithm with copies of the networks, and its own storage. It is never
            updated.
        overlap: The thread in which it acts.
    """

    def __init__(
        self,
        env: RslRlVecEnvWrapper,
        alg: DistributedPPO,
        cfg: RslRlCfg,
        context: DistributedContext,
    ) -> None:
        self._env, self._alg, self._cfg, self._context = env, alg, cfg, context
        self.overlap: Overlap[Rollout] = Overlap(
            self._collect,
            self._hand_over,
            lambda state: Rollout.of(state, alg, context),
            Rollout,
            context,
        )
        self.acting = alg.acting_copy()
        # One is filled while the learner uses the other.
        self._storages = deque([alg.storage, copy.deepcopy(alg.storage)])
        distribution, generator = self.acting.actor.distribution, self.overlap.generator
        assert cfg.actor.distribution_cfg is not None
        draw = SAMPLERS[cfg.actor.distribution_cfg["class_name"]]
        distribution.sample = lambda: draw(distribution, generator)

    def _hand_over(self) -> None:
        """Copy the networks to the acting algorithm, and give it a storage to fill."""
        self.acting.follow(self._alg)
        self.acting.storage = self._storages[0]
        self._storages.rotate()

    def _collect(self) -> Rollout:
        log = StepLog(self._context)
        collect(self._env, self.acting, self._cfg, log)
        return Rollout(self.acting.storage, log)
