"""PPO's rollout as graphs: what is done before and after each step of the environments.

rsl_rl keeps a row of its storage as a number of Python, which a graph would repeat. Here the row is
a tensor, so one graph acts and stores in all steps, and another one keeps what follows. Between
them the environments make their step, by graphs of their own where a task records
(``env.graph``), and the host looks at whatever it likes. The bits are the library's.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from tensordict import TensorDict

from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from envlab.learner import OnStep
from envlab.rsl_rl.ppo import DistributedPPO
from envlab.sim.recording import NewGraphs, cuda_graphs, recording_of_updates

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
