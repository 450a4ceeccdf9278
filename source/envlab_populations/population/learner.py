"""Population-based training: members of any library take turns, each in its own environments."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from envlab.agent_cfg import AgentCfg
from envlab.distributed.audit import flatten
from envlab.distributed.context import DistributedContext
from envlab.errors import ConfigurationError
from envlab.learner import Curve, Iteration, IterationRecord, Learner, OnStep
from envlab.libraries import get_library
from envlab.training.plan import RunPlan
from envlab.training.preparation import make_env
from envlab_populations.population.cfg import ROOT, PopulationCfg
from envlab_populations.population.generations import Copy, Population
from envlab_populations.population.member import Change, Genes, Member
from envlab_populations.population.ranges import spans_of
from envlab_populations.population.seat import BuildLearner, Report, Seat
from envlab_populations.population.seats import MemberEnvs, MemberFolders, MembersTracker


class PopulationLearner(Population):
    """Members that take turns; processes share their identities, not their networks.

    Attributes:
        reports: All members' last iterations, by their places.
    """

    steps_alike = False
    renumbers = False

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
        super().__init__(cfg, cfg.interval, agent_cfg.seed, envs, context, is_apart=True)
        self.stream = cfg.size
        self._cfg, self._spans = cfg, spans_of(cfg, agent_cfg)
        self._seats = {
            index: Seat(index, agent_cfg, self._spans, env, build)
            for index, env in envs.by_index.items()
        }
        own = {index: Member.first(seat, index) for index, seat in self._seats.items()}
        shown = self._of_all({i: (one.record(), _shapes(one)) for i, one in own.items()})
        self.members = [own.get(i) or Member.of(None, record) for i, (record, _) in shown.items()]
        if len({shapes for _, shapes in shown.values()}) > 1:
            raise ConfigurationError(
                "The members' networks would have different shapes, so that none could copy "
                f"another: {', '.join(span.path for span in self._spans)} change more than "
                "numbers. Leave the settings of the networks' layers out of population.ranges."
            )
        self.tracker = MembersTracker([seat.tracker for seat in self._seats.values()])
        self._facts = dict(facts)
        self._folders: MemberFolders | None = None
        self.reports: dict[int, Report] = {}
        self._best: float | None = None

    def start(self, total: int) -> None:
        for index, seat in self._seats.items():
            seat.start(self.members[index].learner, total)

    def train(self, number: int, on_step: OnStep) -> Iteration:
        told = {}
        for turn, (index, seat) in enumerate(self._seats.items()):
            self.tracker.turn = turn
            member = self.members[index]
            told[index] = seat.iterate(member.learner, number, on_step, self.tracker.means)
            member.frames = told[index].record.frames
        self.reports = self._of_all(told)
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

    def measure(self, generation: int) -> dict[int, float | None]:
        """Note mean returns since the last meeting."""
        found = {}
        for index, seat in self._seats.items():
            found[index] = fitness = self.reports[index].fitness
            self.members[index].fitness.append(math.nan if fitness is None else fitness)
            seat.meet()
        return found

    def change(self, parent: Member, rng: np.random.Generator) -> Change:
        values = {
            span.path: span.explored(parent.genes.hyperparameters[span.path], self._cfg, rng)
            for span in self._spans
        }
        return Change(text=self._cfg.explore, genes=Genes(hyperparameters=values))

    def succeed(self, copies: Sequence[Copy], fittest: int) -> None:
        super().succeed(copies, fittest)
        for copy in copies:
            report = self.reports[copy.target]
            report.record = dataclasses.replace(report.record, mean_return=None)

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
        return {**super().model_state(), "best": self._best}

    def load_models(self, values: Mapping[str, Any]) -> None:
        super().load_models(values)
        self._best = values["model"]["best"]


def _shapes(member: Member) -> str:
    """Return the shapes of all of a member's tensors."""
    flat = flatten(member.learner.model_state())
    return str([(name, v.shape) for name, v in flat.items() if isinstance(v, torch.Tensor)])


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


def _of_member(plan: RunPlan) -> RunPlan:
    """Return the plan by which a member is built: with its library's own parts."""
    return replace(plan, library=get_library(plan.library.name))
