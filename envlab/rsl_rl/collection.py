"""A rollout by the public methods of rsl_rl's algorithms, also in parallel, or as graphs.

In parallel, a copy of the policy collects while the other learns. As graphs, what is done before
and after each step of the environments is recorded. rsl_rl keeps a row of its storage as a number
of Python, which a graph would repeat. Here the row is a tensor, so one graph acts and stores in all
steps, and another one keeps what follows. Between them the environments make their step, by graphs
of their own where a task records (``env.graph``), and the host looks at whatever it likes. The bits
are the library's.
"""

from __future__ import annotations

import copy
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from rsl_rl.storage import RolloutStorage
from rsl_rl.utils import check_nan
from tensordict import TensorDict

from envlab.distributed.context import DistributedContext
from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from envlab.learner import OnStep
from envlab.rsl_rl.algorithms import Algorithm
from envlab.rsl_rl.cfg import RslRlCfg, RunnerCfg
from envlab.rsl_rl.ppo import DistributedPPO
from envlab.sim.recording import NewGraphs, cuda_graphs, recording_of_updates
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


_SETTINGS = ("gamma", "lam")
"""Numbers of the algorithm that a graph contains; populations change some."""


class RecordedRollout:
    """Fills a PPO's storage, as :func:`envlab.rsl_rl.collection.collect` does.

    Attributes:
        recordings: Of acting, of keeping a step's results, and of the returns.
    """

    def __init__(
        self, alg: DistributedPPO, new_graphs: NewGraphs = cuda_graphs, *, is_required: bool = False
    ) -> None:
        """Record, beginning with the first steps.

        Args:
            alg: The algorithm, whose updates are recorded too: see
                :func:`~envlab.rsl_rl.recorded_update.obstacle`.
            new_graphs: See :data:`NewGraphs`.
            is_required: Whether a rollout that cannot be recorded is an error.
        """
        self._alg = alg
        storage = alg.storage
        device = torch.device(alg.device)
        self._row = torch.zeros(1, dtype=torch.int64, device=device)
        self._obs = {name: values[0].clone() for name, values in storage.observations.items()}
        self._final = {name: values.clone() for name, values in self._obs.items()}
        self._rewards = torch.zeros(storage.num_envs, device=device)
        self._ended, self._time_outs = torch.zeros(
            2, storage.num_envs, dtype=torch.bool, device=device
        )
        self._known: tuple[Any, ...] = ()
        self.recordings = {
            function.__name__.strip("_"): recording_of_updates(
                function, new_graphs, is_required=is_required
            )
            for function in (self._act, self._keep, self._returns)
        }

    def __call__(self, env: RslRlVecEnvWrapper, on_step: OnStep) -> None:
        """Make the steps, and compute their returns.

        Args:
            env: The environments.
            on_step: Called after each step.
        """
        alg, storage = self._alg, self._alg.storage
        self._forget_others()
        self._row.zero_()
        obs = env.get_observations()
        for _ in range(storage.num_transitions_per_env):
            _fill(self._obs, obs)
            actions = self.recordings["act"].run()
            obs, rewards, dones, extras = env.step(actions.to(env.device))
            self._take(rewards, dones, extras)
            self.recordings["keep"].run()
            on_step(rewards.to(alg.device), dones.bool().to(alg.device), extras["info"])
        _fill(self._obs, obs)
        storage.step = storage.num_transitions_per_env
        if alg.is_multi_gpu:  # advantages are normalised over ranks, by a collective
            alg.compute_returns(obs.to(alg.device))
        else:
            storage.advantages = self.recordings["returns"].run()

    def _forget_others(self) -> None:
        """Record again if numbers or tensors that graphs contain have been replaced."""
        alg = self._alg
        known = (
            *(getattr(alg, name) for name in _SETTINGS),
            *(one.data_ptr() for one in _memory(alg)),
            id(alg.storage),
        )
        if known != self._known:
            self._known = known
            for recording in self.recordings.values():
                recording.forget()

    def _take(self, rewards: torch.Tensor, dones: torch.Tensor, extras: Mapping[str, Any]) -> None:
        """Have a step's results where a graph reads them."""
        self._rewards.copy_(rewards)
        self._ended.copy_(dones)
        if "final_obs" in extras:  # always on a GPU
            self._time_outs.copy_(extras["time_outs"])
            _fill(self._final, extras["final_obs"])
        else:
            self._time_outs.zero_()

    def _act(self) -> torch.Tensor:
        """Draw actions, and store all that is known before they are applied."""
        alg, storage = self._alg, self._alg.storage
        actions: torch.Tensor = alg.act(TensorDict(self._obs, batch_size=[storage.num_envs]))
        taken = alg.transition
        if storage.distribution_params is None:
            storage.distribution_params = tuple(
                values.new_zeros(storage.num_transitions_per_env, *values.shape)
                for values in taken.distribution_params
            )
        for name, values in self._obs.items():
            self._store(storage.observations[name], values)
        self._store(storage.actions, actions)
        self._store(storage.values, taken.values)
        self._store(storage.actions_log_prob, taken.actions_log_prob)
        for stored, values in zip(
            storage.distribution_params, taken.distribution_params, strict=True
        ):
            self._store(stored, values)
        taken.clear()
        return actions

    def _keep(self) -> None:
        """Store a step's results, and go to the next row."""
        storage = self._alg.storage
        rewards = self._alg.with_final_values(
            self._rewards,
            TensorDict(self._final, batch_size=[storage.num_envs]),
            self._time_outs,
        )
        self._store(storage.rewards, rewards)
        self._store(storage.dones, self._ended)
        self._row += 1

    def _returns(self) -> torch.Tensor:
        """Return the advantages, after returns were stored."""
        alg = self._alg
        alg.compute_returns(TensorDict(self._obs, batch_size=[alg.storage.num_envs]))
        advantages: torch.Tensor = alg.storage.advantages
        return advantages

    def _store(self, stored: torch.Tensor, values: torch.Tensor) -> None:
        """Write to the current row of a part of the storage."""
        stored.index_copy_(0, self._row, values.view(1, *stored.shape[1:]).to(stored.dtype))


def _fill(targets: Mapping[str, torch.Tensor], values: Mapping[str, torch.Tensor]) -> None:
    torch._foreach_copy_(list(targets.values()), [values[name] for name in targets])


def _memory(alg: DistributedPPO) -> Iterator[torch.Tensor]:
    for network in alg.networks.values():
        yield from itertools.chain(network.parameters(), network.buffers())
