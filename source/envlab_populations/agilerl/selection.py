"""Tournaments and mutations of a program's agents, on the process that calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from envlab.errors import ConfigurationError
from envlab_populations.agilerl.agent import Agent, ProgramNursery
from envlab_populations.agilerl.crew import crew_spaces
from envlab_populations.agilerl.settings import tell
from envlab_populations.evolution.cfg import ALIASES, SEVERAL, MutationsCfg
from envlab_populations.evolution.mutations import Mutations as MemberMutations
from envlab_populations.population.architecture import NetworkCfg
from envlab_populations.population.cfg import StrategyCfg
from envlab_populations.population.member import Change, Member
from envlab_populations.population.strategy import ranking
from envlab_populations.population.tournament import Tournament

selected_parts = [3]
"""Number of ``select``'s results: since 2.9 indices are the third. Set by the launcher."""


class TournamentSelection:
    """The fittest of a few drawn at random has a child, for each place of a generation."""

    def __init__(
        self,
        tournament_size: int,
        elitism: bool,
        population_size: int,
        eval_loop: int = 1,
        *,
        evo_step: int | None = None,
        rand_seed: int | None = None,
        **_: Any,
    ) -> None:
        """Take AgileRL's arguments; a tournament larger than the population is all of it."""
        size = min(tournament_size, population_size)
        rules = StrategyCfg(size=population_size, tournament_size=size, elitism=elitism)
        self._strategy, self._evo_step = Tournament(rules), evo_step or eval_loop
        self._rng = np.random.default_rng(rand_seed)

    def select(self, population: Sequence[Agent]) -> tuple[Any, ...]:
        """Return the fittest, the next generation, and the places of its members."""
        ranked = ranking([agent.member.score(self._evo_step) for agent in population])
        pairs = list(self._strategy.pairs(ranked, self._rng))
        elite = population[ranked[-1]]
        best = elite.clone()
        children = [elite.clone()] if self._strategy.cfg.elitism else []
        following = max(agent.index for agent in population) + 1
        children += [population[p].clone(following + i) for i, (_, p) in enumerate(pairs)]
        return (best, children, list(range(len(children))))[: selected_parts[0]]


class MultiFrequencySelection(TournamentSelection):
    """Tournaments of one population in place of AgileRL's several ones."""

    def __init__(self, population_size: int, *, seed: int | None = None, **_: Any) -> None:
        super().__init__(min(2, population_size), True, population_size, rand_seed=seed)
        tell("MultiFrequencySelection: members meet in one population, in tournaments")


class Mutations(MemberMutations):
    """One mutation for each agent, drawn by relative probabilities."""

    def __init__(
        self,
        no_mutation: float = 0.4,
        architecture: float = 0.2,
        new_layer_prob: float = 0.2,
        parameters: float = 0.2,
        activation: float = 0.0,
        rl_hp: float = 0.2,
        mutation_sd: float = 0.1,
        activation_selection: Sequence[str] | None = None,
        mutate_elite: bool = True,
        rand_seed: int | None = None,
        device: Any = None,
        accelerator: Any = None,
        rl_hp_selection: Sequence[str] | None = None,
        **_: Any,
    ) -> None:
        """Take AgileRL's arguments; 0.1's ``algo`` and ``arch`` are ignored."""
        cfg = MutationsCfg(
            no_mutation=no_mutation,
            architecture=architecture,
            new_layer_prob=new_layer_prob,
            parameters=parameters,
            activation=activation,
            rl_hp=rl_hp,
            mutation_sd=mutation_sd,
        )
        super().__init__(cfg, {}, NetworkCfg(), rand_seed)
        self._mutate_elite, self._chosen = mutate_elite, rl_hp_selection
        if activation and activation_selection:
            tell(
                f"activation_selection {list(activation_selection)} has no effect: ReLU, ELU, GELU"
            )

    def mutation(
        self,
        population: Sequence[Agent],
        pre_training_mut: bool = False,
        indices: Sequence[int] | None = None,
    ) -> list[Agent]:
        """Mutate agents in place, and return them all.

        Args:
            population: The agents.
            pre_training_mut: Whether each must change, as before training.
            indices: Indices of those that may change; None: all.
        """
        odds = dict(self.odds)
        if pre_training_mut and sum(odds.values()) > odds["none"]:
            self.odds["none"] = 0.0
        for place, agent in enumerate(population):
            is_spared = place == 0 and not self._mutate_elite and not pre_training_mut
            if not is_spared and (indices is None or place in indices):
                agent.member.become(self.draw(agent.member))
        self.odds = odds
        return list(population)

    def draw(self, member: Member) -> Change:
        """Return a mutation between the agent's own bounds."""
        nursery = member.nursery
        assert isinstance(nursery, ProgramNursery)
        bounds = nursery.bounds
        if self._chosen is not None:
            wanted = {ALIASES.get(name, name) for name in self._chosen}
            bounds = {n: b for n, b in bounds.items() if ALIASES.get(n, n) in wanted}
        self._selection, self._bounds = dict(bounds), nursery.cfg.network
        return super().draw(member)


def create_population(algo: str, *arguments: Any, **named: Any) -> list[Agent]:
    """Return a population, from AgileRL's arguments by place or by name.

    Args:
        algo: The algorithm.
        *arguments: As in 2.x: spaces, ``net_config``, ``INIT_HP``. See :class:`_Wanted`.
        **named: The same, and ``population_size``, ``num_envs``, ``device``, ...

    Raises:
        ConfigurationError: If the algorithm does not evolve here, or something does not fit.
    """
    from envlab_populations.agilerl.names import agent_class

    kind = agent_class(algo)
    given = _by_name(arguments, named)
    is_several = kind.algorithm in SEVERAL
    observations, actions = (
        crew_spaces(given) if is_several else single_spaces(kind.algorithm, given)
    )
    wrapper, keywords = given.get("agent_wrapper"), given.get("wrapper_kwargs") or {}
    size = int(given.get("population_size") or 1)
    numbers = {**(given.get("INIT_HP") or {}), **(given.get("algo_kwargs") or {})}
    crew = {name.lower(): value for name, value in numbers.items()} if is_several else {}
    crew = {"agent_ids": crew["agent_ids"]} if crew.get("agent_ids") is not None else {}
    numbers = {name: value for name, value in numbers.items() if name.lower() not in _NO_NUMBERS}
    same = ("hp_config", "net_config", "actor_network", "accelerator")
    agents = kind.population(
        size,
        observations,
        actions,
        num_envs=int(given.get("num_envs") or numbers.pop("NUM_ENVS", 1)),
        device=given.get("device") or "cpu",
        **{name: given[name] for name in same if given.get(name) is not None},
        **{name.lower(): value for name, value in numbers.items()},
        **crew,
    )
    return agents if wrapper is None else [wrapper(agent, **keywords) for agent in agents]


_ORDER = ("observation_space", "action_space", "net_config", "INIT_HP", "hp_config")
_OLD_ORDER = (
    *("state_dim", "action_dim", "one_hot", "net_config", "INIT_HP", "actor_network"),
    "population_size",
)
_NO_NUMBERS = ("num_envs", "agent_ids", "n_agents", "algo", "env_name")


def _by_name(arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return arguments by name; 0.1 begins with dimensions where 2.x has spaces."""
    first = arguments[0] if arguments else None
    first = first[0] if isinstance(first, (tuple, list)) and first else first
    is_old = "state_dim" in named or isinstance(first, (tuple, list, int))
    order = _OLD_ORDER if is_old else _ORDER
    return dict(zip(order, arguments, strict=False)) | dict(named)


def single_spaces(algorithm: str, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return the spaces of one environment: a program may give batched ones, or dimensions."""
    from gymnasium import spaces

    if "state_dim" in given:
        return _spaces_of_dimensions(algorithm, given)
    observations, actions = given.get("observation_space"), given.get("action_space")
    count = given.get("num_envs")
    if isinstance(actions, spaces.MultiDiscrete) and actions.shape == (count,):
        assert isinstance(observations, spaces.Box)
        bounds = observations.low[0], observations.high[0]
        return spaces.Box(*bounds, dtype=observations.dtype.type), spaces.Discrete(actions.nvec[0])
    for name, space in (("observation_space", observations), ("action_space", actions)):
        if not isinstance(space, spaces.Space):
            raise ConfigurationError(
                f"create_population has {name}={space!r}, but it must be a space of Gymnasium's. "
                f"Give env.single_{name}."
            )
    return observations, actions


def _spaces_of_dimensions(algorithm: str, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """Return spaces for 0.1's ``state_dim``, ``action_dim`` and ``one_hot``."""
    from gymnasium import spaces

    hp, shape = given.get("INIT_HP") or {}, given["state_dim"]
    if given.get("one_hot"):
        observations: Any = spaces.Discrete(int(shape))
    else:
        observations = spaces.Box(-np.inf, np.inf, tuple(shape), np.float32)
    is_choice = algorithm in ("dqn", "cqn") or (
        algorithm == "ppo" and hp.get("DISCRETE_ACTIONS", True)
    )
    count = int(given["action_dim"])
    if is_choice:
        return observations, spaces.Discrete(count)
    limit = float(np.max(hp.get("MAX_ACTION", 1.0)))
    return observations, spaces.Box(-limit, limit, (count,), np.float32)


def RSNorm(agent: Agent, **_: Any) -> Agent:
    """Return an agent whose observations are normalised by their running statistics."""
    return agent.normalize()


def print_hyperparams(population: Sequence[Agent]) -> None:
    """Print each agent's numbers and its fitness."""
    for agent in population:
        nursery = agent.member.nursery
        assert isinstance(nursery, ProgramNursery)
        numbers = {name: getattr(agent, name) for name in nursery.bounds}
        fitness = agent.fitness[-1] if agent.fitness else "not measured"
        numbers_text = ", ".join(f"{name} {value:.4g}" for name, value in numbers.items())
        print(f"Agent {agent.index}: fitness {fitness}, {numbers_text}, mutation {agent.mut}")
