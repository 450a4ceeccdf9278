"""Entry points of populations: two ways to train, members of the others, and two commands."""

from __future__ import annotations

from envlab.commands import Command
from envlab.libraries import Library
from envlab.training.flags import GuestFlags

HOGWILD = Library(
    name="hogwild",
    cfg="envlab_populations.hogwild.cfg:default_cfg",
    build="envlab_populations.hogwild.learner:build",
    player="envlab_populations.hogwild.learner:make_player",
    bound="envlab_populations.hogwild.agents:action_bound",
    flags="envlab_populations.hogwild.cfg:HogwildFlags",
    description="sessions on shared parameters, by skrl's agents: see envlab lab run",
    deals_environments=False,
    old_state="envlab_populations.old_states:hogwild_state",
)
EVOLUTION = Library(
    name="evolution",
    cfg="envlab_populations.evolution.cfg:default_cfg",
    build="envlab_populations.evolution.learner:build",
    player="envlab_populations.evolution.nursery:EvolutionPlayer",
    bound="envlab_populations.evolution.models:action_bound",
    flags="envlab_populations.evolution.cfg:EvolutionFlags",
    prepare="envlab_populations.agilerl.words:prepare",
    description="populations of skrl's agents that evolve while they learn",
    packages={"skrl": "skrl.agents.torch.ppo"},
    deals_environments=False,
    deal="envlab_populations.population.generations:dealt",
)
POPULATION = GuestFlags(
    flags="envlab_populations.population.flags:PopulationFlags",
    plan="envlab_populations.population.flags:with_members",
    cfg="envlab_populations.population.cfg:PopulationCfg",
    free="population.ranges",
    only="has_members",
)
LAB = Command(
    name="lab",
    main="envlab_populations.hogwild.command:main",
    usage="lab run SPEC NAME MODE",
    description="run a spec file in sessions, as SLM-Lab does; plot | list",
    words=("run", "plot", "list"),
)
LINEAGE = Command(
    name="lineage",
    main="envlab_populations.descent:main",
    usage="lineage RUN",
    description="descent of the members of a population",
)
