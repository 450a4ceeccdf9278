"""rsl_rl's own runners, for scripts of other projects that make and call one.

Loop, logger and checkpoints are the library's. With other ranks
(:mod:`envlab_bridge.ranks`), gradients and statistics are those of all, on gloo as on NCCL;
values that are not finite end the training with a sentence, on all ranks alike; and at its end the
audit compares the ranks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.runners.on_policy_runner import OnPolicyRunner  # not what a guest offers

from envlab.distributed.audit import audit, rank_list
from envlab.errors import SimulationError
from envlab.rsl_rl.distillation import DistributedDistillation
from envlab.rsl_rl.ppo import DistributedPPO
from envlab_bridge.ranks import context

_LOOK = "Look for what makes them so in the task, or take a smaller sim.dt"
_LOWER = "Rewards and observations were; take a lower learning rate"


class RanksPPO(DistributedPPO):
    """PPO without episodes' final observations, which other projects' environments lack."""

    process_env_step = PPO.process_env_step


_OF_RANKS: dict[str, type] = {"PPO": RanksPPO, "Distillation": DistributedDistillation}
"""Algorithms whose statistics are pooled; others only have their gradients averaged."""


class ScriptRunner(OnPolicyRunner):
    """rsl_rl's ``OnPolicyRunner`` on the ranks of a script."""

    observation_names: Mapping[str, str] = {}
    """Names of groups of observations in messages, if they are not the groups' own."""

    def __init__(
        self, env: Any, train_cfg: dict[str, Any], log_dir: str | None = None, device: str = "cpu"
    ) -> None:
        name = train_cfg["algorithm"]["class_name"]
        kind = _OF_RANKS.get(name) if context().is_distributed else None
        if kind is not None:
            ours = {"context": context()} if kind is RanksPPO else {}
            train_cfg["algorithm"] = train_cfg["algorithm"] | {"class_name": kind, **ours}
        super().__init__(env, train_cfg, log_dir, device)
        # No copy of the library's uncommitted code; GitPython's processes outlive a training.
        self.logger.git_status_repos = []
        if kind is not None:
            self.alg.wrap()
        self._iteration = 0
        self._update, self.alg.update = self.alg.update, self._checked_update

    def _configure_multi_gpu(self) -> None:
        """Use the existing process group; the library supports NCCL only."""
        where = context()
        self.is_distributed, self.gpu_world_size = where.is_distributed, where.world_size
        self.gpu_global_rank, self.gpu_local_rank = where.rank, where.local_rank
        ranks = {"global_rank": where.rank, "world_size": where.world_size}
        self.cfg["multi_gpu"] = ranks if where.is_distributed else None

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        self._iteration = self.current_learning_iteration
        super().learn(num_learning_iterations, init_at_random_ep_len)
        equal = {"model": self.alg.save(), "rate": self.alg.learning_rate}
        audit(context(), equal, {}, iteration=self._iteration)

    def _checked_update(self) -> Any:
        """Update the networks; stop all ranks if a value is no longer finite.

        Raises:
            SimulationError: If rewards, observations or, after the update, weights are not finite.
        """
        storage, names = self.alg.storage, self.observation_names
        observed = {
            names.get(group, f"observations {group!r}"): values
            for group, values in storage.observations.items()
        }
        self._refuse_nan({"rewards": storage.rewards} | observed, _LOOK)
        try:
            losses = self._update()
        except (RuntimeError, ValueError):
            # torch's error of a distribution with invalid parameters, which all ranks share; other
            # errors may be one rank's, which the others must not wait for.
            if bool(self._weights()["weights"].isfinite().all()):
                raise
            losses = {}
        self._refuse_nan(self._weights(), _LOWER)
        self._iteration += 1
        return losses

    def _weights(self) -> dict[str, torch.Tensor]:
        groups = self.alg.optimizer.param_groups
        flat = [parameter.detach().flatten() for group in groups for parameter in group["params"]]
        return {"weights": torch.cat(flat)}

    def _refuse_nan(self, values: Mapping[str, torch.Tensor], hint: str) -> None:
        mine = [name for name, tensor in values.items() if not bool(tensor.isfinite().all())]
        found = {rank: names for rank, names in enumerate(context().gather(mine)) if names}
        if found:
            names = dict.fromkeys(name for names in found.values() for name in names)
            ranks = f" on {rank_list(list(found))}" if context().is_distributed else ""
            raise SimulationError(
                f"In iteration {self._iteration} {' and '.join(names)} were not finite{ranks}. "
                f"{hint}.",
                same_on_all_ranks=True,
            )
