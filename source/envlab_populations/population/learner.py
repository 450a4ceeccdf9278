"""Members of any library: a rank's take turns, each in environments of its own."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envlab.agent_cfg import AgentCfg
from envlab.distributed.audit import flatten
from envlab.distributed.context import DistributedContext
from envlab.distributed.digest import combined, digests
from envlab.errors import CheckpointError, ConfigurationError, RankDivergenceError
from envlab.learner import Curve, Iteration, IterationRecord, Learner, OnStep
from envlab.libraries import get_library
from envlab.state import State
from envlab.training.plan import RunPlan
from envlab.training.preparation import make_env
from envlab_populations.population.cfg import ROOT, PopulationCfg, label, spans_of
from envlab_populations.population.environments import MemberEnvs, MembersTracker
from envlab_populations.population.exploration import explored, first_values
from envlab_populations.population.folders import MemberFolders
from envlab_populations.population.generations import Generations
from envlab_populations.population.member import BuildLearner, Member, Report


@dataclass(frozen=True, kw_only=True)
class Copy:
    """One member takes over another's networks, and continues with other hyper-parameters."""

    target: int
    source: int
    hyperparameters: dict[str, float]
    """The target's new hyper-parameters, by path."""


class PopulationLearner(Generations):
    """Members, each trained by one process; ranks share their identities, not their networks.

    Attributes:
        members: This rank's members.
        reports: All members' last iterations, by their places.
    """

    STATE = State(of_rank=("_since",), parts=("_members",))
    steps_alike = False

    def __init__(
        self,
        cfg: PopulationCfg,
        agent_cfg: AgentCfg,
        envs: MemberEnvs,
        build: BuildLearner,
        context: DistributedContext,
        facts: Mapping[str, Any],
    ) -> None:
        """Make the first generation.

        Args:
            cfg: The population's configuration.
            agent_cfg: The initial configuration of all members, settled.
            envs: Environments of this rank's members.
            build: Builds a member's learner.
            context: The process's context.
            facts: Facts in all members' manifests, in addition to their own.

        Raises:
            ConfigurationError: If the population is impossible.
        """
        super().__init__(cfg, cfg.interval, agent_cfg.seed, envs, context)
        self.stream = cfg.size
        self._cfg, self._spans = cfg, spans_of(cfg, agent_cfg)
        self._values = [
            first_values(self._spans, np.random.default_rng((self._seed, 0, index)))
            for index in range(cfg.size)
        ]
        self.members = [
            Member(index, agent_cfg, self._values[index], env, build)
            for index, env in envs.by_index.items()
        ]
        self.tracker = MembersTracker([member.tracker for member in self.members])
        self._check_alike()
        self._facts = dict(facts)
        self._folders: MemberFolders | None = None
        self.reports: dict[int, Report] = {}
        self._leader = 0
        self._best: float | None = None
        self._parents: list[int | None] = [None] * cfg.size
        self._copies: list[dict[str, Any]] = []

    def _check_alike(self) -> None:
        """Refuse numbers that make networks of different shapes, which cannot be copied.

        Raises:
            ConfigurationError: On every rank, naming all numbers that members differ in.
        """
        shapes = {
            str([(k, v.shape) for k, v in flat.items() if isinstance(v, torch.Tensor)])
            for flat in (flatten(member.learner.model_state()) for member in self.members)
        }
        if len(set().union(*self._context.gather(shapes))) > 1:
            raise ConfigurationError(
                "The members' networks would have different shapes, so that none could copy "
                f"another: {', '.join(span.path for span in self._spans)} change more than "
                "numbers. Leave the settings of the networks' layers out of population.ranges."
            )

    def start(self, total: int) -> None:
        for member in self.members:
            member.start(total)

    def train(self, number: int, on_step: OnStep) -> Iteration:
        told = {}
        for turn, member in enumerate(self.members):
            self.tracker.turn = turn
            told[member.index] = member.iterate(number, on_step, self.tracker.means)
        everyone = self._context.gather(told)
        self.reports = dict(sorted(pair for part in everyone for pair in part.items()))
        return Iteration.joined([report.iteration for report in told.values()])

    def leading(self) -> dict[str, Any]:
        """Choose the member with the best mean return; a member that has just copied has none."""
        known = {
            index: value
            for index, report in self.reports.items()
            if (value := report.record.mean_return) is not None and not math.isnan(value)
        }
        if known:
            self._leader = max(known, key=lambda index: known[index])
            self._best = known[self._leader]
        return {
            "learning_rate": self.reports[self._leader].iteration.learning_rate,
            "details": {"leader": self._leader, "leader_return": self._best},
        }

    def measure(self, generation: int) -> tuple[list[float | None], list[dict[str, Any]]]:
        """Return mean returns since the last meeting."""
        paths = [span.path for span in self._spans]
        fitness = [report.fitness for report in self.reports.values()]
        return fitness, [
            {
                "index": index,
                "parent": self._parents[index],
                "copied": self._parents[index] is not None,
                "mutation": "none" if self._parents[index] is None else self._cfg.explore,
                "hyperparameters": {
                    label(path, paths): value for path, value in self._values[index].items()
                },
                "fitness": math.nan if fitness[index] is None else fitness[index],
                "frames": report.record.frames,
            }
            for index, report in self.reports.items()
        ]

    def decide(
        self, pairs: Iterator[tuple[int, int]], fittest: int, rng: np.random.Generator
    ) -> list[Copy]:
        """Return who copies whom, with explored hyper-parameters."""
        return [
            Copy(
                target=target,
                source=source,
                hyperparameters={
                    span.path: explored(span, self._values[source][span.path], self._cfg, rng)
                    for span in self._spans
                },
            )
            for target, source in pairs
        ]

    def succeed(self, decided: list[Copy], fittest: int) -> None:
        for member in self.members:
            member.meet()
        self._parents = [None] * self._size
        self._copies = []
        # Before any is overwritten, as a copy may be another's source.
        sources = {copy.source for copy in decided}
        states = {
            one.index: one.learner.model_state() for one in self.members if one.index in sources
        }
        for copy in decided:
            self._exchange(copy, states.get(copy.source))
            self._values[copy.target] = copy.hyperparameters
            self._parents[copy.target] = copy.source
            blank = dataclasses.replace(self.reports[copy.target].record, mean_return=None)
            self.reports[copy.target].record = blank

    def _exchange(self, copy: Copy, state: Mapping[str, Any] | None) -> None:
        """Make one member take over another's networks, across ranks if necessary.

        Args:
            copy: Who copies whom.
            state: The source's ``model_state``, on the rank that has it.

        Raises:
            RankDivergenceError: If the received values are not the sent ones.
        """
        share = len(self.members)
        source, target = copy.source // share, copy.target // share
        if source != target:
            state = self._context.transfer(state, source=source, target=target)
        mine = None if state is None else combined(digests(flatten(state)))
        found = {one for one in self._context.gather(mine) if one is not None}
        if len(found) > 1:
            raise RankDivergenceError(
                f"The networks of member {copy.source} arrived at member {copy.target}, on rank "
                f"{target}, with other values than they left rank {source}. The run stops here "
                "because its results would be wrong."
            )
        self._copies.append({**dataclasses.asdict(copy), "digest": found.pop()})
        if copy.target in self._members and state is not None:
            self._members[copy.target].become(state, copy.hyperparameters)

    def curves(self, record: IterationRecord) -> list[Curve]:
        """Write the members' own folders, and return the population's curves."""
        if self._folders is None:
            folder = Path(self._env.log_dir or ".")
            self._folders = MemberFolders(folder, self._facts, self.reports)
        self._folders.write(self.reports)
        own = Curve(record.frames, {"Population/leader_return": self._best})
        return [own, *super().curves(record)]

    def progress(self, record: IterationRecord) -> str:
        return "" if self._best is None else f"leader {self._leader}: {self._best:.2f}"

    def merit(self, record: IterationRecord) -> float | None:
        """Return the leader's mean return; the best checkpoint is that of the best leader."""
        return self._best

    def is_finished(self, record: IterationRecord) -> bool:
        return self.reports[self._leader].is_finished

    def model_state(self) -> dict[str, Any]:
        """Return the state known to all ranks; members' networks are in their own state."""
        return {
            "population": {
                "size": self._size,
                "leader": self._leader,
                "best": self._best,
                "frames": self._frames,
                "values": self._values,
                "parents": self._parents,
                "copies": self._copies,
                "generations": self.generations,
            }
        }

    def load_models(self, values: Mapping[str, Any]) -> None:
        state = values["model"].get("population")
        if state is None:
            raise CheckpointError(
                "The checkpoint is of a single learner, but --population_size is "
                f"{self._size}. Leave it out, or choose a checkpoint of a population."
            )
        self.check_size(state["size"])
        if [set(one) for one in state["values"]] != [set(value) for value in self._values]:
            raise CheckpointError(
                f"The checkpoint's members differ in {', '.join(state['values'][0])}, but "
                f"population.ranges names {', '.join(self._values[0])}. Resume with the former."
            )
        self._leader, self._best, self._frames = state["leader"], state["best"], state["frames"]
        self._values = [dict(one) for one in state["values"]]
        self._parents, self._copies = list(state["parents"]), list(state["copies"])
        self.generations = list(state["generations"])
        saved = values["ranks"][self._context.rank]["learner"]["members"]
        for member in self.members:
            member.load(saved[member.index])

    @property
    def _members(self) -> dict[int, Member]:
        """This rank's members by their place in the population, as checkpoints name them."""
        return {member.index: member for member in self.members}


def make_envs(plan: RunPlan, context: DistributedContext) -> MemberEnvs:
    """Return the environments of this process's members."""
    return MemberEnvs(plan.num_members, context, functools.partial(make_env, _of_member(plan)))


def build(plan: RunPlan, envs: MemberEnvs, context: DistributedContext) -> PopulationLearner:
    """Return the learner of a settled plan.

    Raises:
        ConfigurationError: If the population is impossible.
    """
    plan, agent_cfg = _of_member(plan), plan.agent_cfg
    make = plan.library.load("build")

    def build_member(agent_cfg: AgentCfg, env: Any) -> Learner:
        learner: Learner = make(replace(plan, agent_cfg=agent_cfg), env, context.alone())
        return learner

    facts = {
        "library": plan.library.name,
        "task": plan.task.id,
        **agent_cfg.origin,
        "num_envs": plan.env_cfg.scene.num_envs,
    }
    cfg = plan.guest_cfgs[ROOT]
    return PopulationLearner(cfg, agent_cfg, envs, build_member, context, facts)


def dealt(saved: Mapping[str, Any], num_ranks: int) -> list[Any]:
    """Return the members of a checkpoint, divided among another number of ranks.

    Everything else that a checkpoint has per rank starts afresh.
    """
    parts = [part["learner"]["members"] for part in saved["ranks"] if part]
    members = {index: one for part in parts for index, one in part.items()}
    share = -(-len(members) // num_ranks)
    return [
        {"learner": {"members": {i: one for i, one in members.items() if i // share == rank}}}
        for rank in range(num_ranks)
    ]


def _of_member(plan: RunPlan) -> RunPlan:
    """Return the plan by which a member is built: with its library's own parts."""
    return replace(plan, library=get_library(plan.library.name))
