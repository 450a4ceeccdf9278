"""Playing and exporting the fittest member of a checkpoint."""

from __future__ import annotations

from typing import Any

from envlab.distributed.context import DistributedContext
from envlab.skrl.library import ON_POLICY
from envlab.skrl.play import SkrlPlayer
from envlab.skrl.torch.ranks import join_ranks
from envlab.training.plan import RunPlan
from envlab_populations.evolution.cfg import EvolutionCfg
from envlab_populations.evolution.member import Member, Nursery
from envlab_populations.evolution.models import seen_by
from envlab_populations.evolution.replay import ReplayMemory


class EvolutionPlayer(SkrlPlayer):
    """See :class:`envlab.learner.Player`."""

    def __init__(
        self, plan: RunPlan, env: Any, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        cfg: EvolutionCfg = plan.agent_cfg.resolved()
        join_ranks(context)
        wrapper = seen_by(cfg.algorithm, env)
        memory = None
        if cfg.algorithm not in ON_POLICY:
            memory = ReplayMemory(1, 1, env.device, None)
        nursery = Nursery(cfg=cfg, env=wrapper, num_envs=1, memory=memory, context=context)
        state = values["model"]
        elite = state["apart"] or next(
            member for member in state["members"] if member["index"] == state["elite"]
        )
        super().__init__(Member.of(nursery, elite).learner)
