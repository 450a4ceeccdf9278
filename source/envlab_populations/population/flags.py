"""``--population_size``, and the plan that it makes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from envlab.config import Range, merge
from envlab.training.flags import flag
from envlab_populations.population.cfg import ROOT
from envlab_populations.population.ranges import spans_of
from envlab_populations.population.strategy import make_strategy

if TYPE_CHECKING:
    from envlab.training.plan import RunPlan


@dataclass(kw_only=True)
class PopulationFlags:
    """The number of members; the rest of a population is in ``population.*``."""

    population_size: Annotated[int, Range(at_least=2)] | None = flag(
        "train this many members with different hyper-parameters, which the least fit copy from "
        "the fittest (population.*)",
        "N",
        path="population.size",
    )


def with_members(plan: RunPlan) -> RunPlan:
    """Return a plan with the number of members that its flag or configuration says.

    Raises:
        ConfigurationError: If no such population can be trained.
    """
    cfg, size = plan.guest_cfgs[ROOT], vars(plan.flags).get("population_size")
    if size is not None:
        cfg = merge(cfg, {"size": size}, ROOT)
    if plan.base is not None or not plan.flags.resume:  # else the run's is to come
        spans_of(cfg, plan.agent_cfg)
        if cfg.size:
            make_strategy(cfg)
    others = {root: one for root, one in plan.guest_cfgs.items() if root != ROOT}
    if not cfg.size:
        return replace(plan, guest_cfgs=others)
    learner = "envlab_populations.population.learner"
    env, build = f"{learner}:make_envs", f"{learner}:build"
    deal = "envlab_populations.population.generations:dealt"
    library = replace(plan.library, env=env, build=build, deal=deal)
    guest_cfgs = {**others, ROOT: cfg}
    return replace(plan, guest_cfgs=guest_cfgs, num_members=cfg.size, library=library)
