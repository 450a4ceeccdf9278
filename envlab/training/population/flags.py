"""The flag that makes a run one of a population, added as a guest's are."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

from envlab.config import Range, merge
from envlab.training.flags import GuestFlags, flag

if TYPE_CHECKING:
    from envlab.training.plan import RunPlan

POPULATION = GuestFlags(
    flags=f"{__name__}:PopulationFlags", plan=f"{__name__}:with_size", only="has_members"
)


@dataclasses.dataclass(kw_only=True)
class PopulationFlags:
    """The number of members; the rest of a population is in ``population.*``."""

    population_size: Annotated[int, Range(at_least=2)] | None = flag(
        "train so many members with hyper-parameters of their own, which the least fit copy from "
        "the fittest (population.*)",
        "N",
        sets="population.size",
    )


def with_size(plan: RunPlan) -> RunPlan:
    """Return the plan with a population of as many members."""
    size = {"size": vars(plan.flags)["population_size"]}
    population_cfg = merge(plan.population_cfg, size, "population")
    return dataclasses.replace(plan, population_cfg=population_cfg)
