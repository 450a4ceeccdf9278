"""Playing and exporting the leader of a checkpoint, which is all that is left of it here."""

from __future__ import annotations

from typing import Any

from envlab.distributed.context import DistributedContext
from envlab.skrl.library import ON_POLICY
from envlab.skrl.play import SkrlPlayer
from envlab.skrl.torch.ranks import join_ranks
from envlab.training.plan import RunPlan
from envlab_populations.evolution.cfg import EvolutionCfg
from envlab_populations.evolution.models import seen_by
from envlab_populations.evolution.nursery import SkrlNursery
from envlab_populations.evolution.replay import ReplayMemory
from envlab_populations.population.member import Genes


class EvolutionPlayer(SkrlPlayer):
    """See :class:`envlab.learner.Player`."""

    def __init__(
        self, plan: RunPlan, env: Any, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        cfg: EvolutionCfg = plan.agent_cfg.resolved()
        join_ranks(context)
        wrapper = seen_by(cfg.algorithm, env)
        memory = None if cfg.algorithm in ON_POLICY else ReplayMemory(1, 1, env.device, None)
        nursery = SkrlNursery(cfg=cfg, env=wrapper, num_envs=1, memory=memory, context=context)
        super().__init__(nursery.restored(Genes.of(values["member"]), values))
