"""A population in the training loop: its members act at the same time, and meet at tournaments."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import evaluation_seed
from envlab.errors import ConfigurationError
from envlab.learner import Curve, Iteration, IterationRecord, OnStep
from envlab.skrl.learner import UNEQUAL, summaries
from envlab.skrl.library import ON_POLICY
from envlab.skrl.torch.ranks import join_ranks
from envlab.state import State, restore, save
from envlab.training.plan import RunPlan
from envlab_populations.evolution.cfg import EvolutionCfg
from envlab_populations.evolution.member import Member, Nursery
from envlab_populations.evolution.models import seen_by
from envlab_populations.evolution.mutations import Change, Mutations
from envlab_populations.evolution.replay import ReplayMemory
from envlab_populations.population.environments import check_share
from envlab_populations.population.generations import Generations
from envlab_populations.population.member import adopted


class OwnMembers:
    """The members of a learner's process in checkpoints, where others do not have them."""

    def __init__(self, learner: EvolutionLearner) -> None:
        self._learner = learner

    def state(self) -> dict[str, Any]:
        """Return the members that only this process has, and all members' noise."""
        one = self._learner
        return {
            "members": {i: one.members[i].state() for i in one.own if one.is_shared},
            "noise": {i: save(_Noise(one.members[i].agent)) for i in one.own},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore the noise of members that are loaded."""
        one = self._learner
        for position, noise in state["noise"].items():
            restore(_Noise(one.members[position].agent), noise, one.nursery.env.env.device)


class _Noise:
    STATE = State(per_env=("agent._exploration_noise.state",))

    def __init__(self, agent: Any) -> None:
        self.agent = agent


@dataclass(frozen=True, kw_only=True)
class Succession:
    """The next generation, as plain data."""

    stay: list[int]
    """Places of the members that stay."""
    elite: Change | None
    """The mutation of the fittest, if it stays and is not spared."""
    children: list[tuple[int, Change]]
    """Places of parents, and the mutations of their copies."""


class EvolutionLearner(Generations):
    """Members with equal shares of this process's environments, and their evolution.

    With ``--parallel data`` every process has all members, and their gradients are averaged. With
    ``members`` a process trains its share of them, and they exchange members before a tournament.

    Attributes:
        members: The population; the same on all processes right after a tournament.
        own: Places of the members that this process trains.
        is_shared: Whether other processes train the others.
    """

    STATE = State(parts=("_own_members", "nursery.memory"))

    def __init__(
        self, env: Any, eval_env: Any, cfg: EvolutionCfg, context: DistributedContext
    ) -> None:
        """Make the first generation.

        Args:
            env: The environments that members share.
            eval_env: The environments in which fitness is measured.
            cfg: The agent's configuration, resolved.
            context: The process's context.

        Raises:
            ConfigurationError: If members cannot be distributed, or their algorithm does not fit.
        """
        population = cfg.population
        super().__init__(population, population.generation_iterations, cfg.seed, env, context)
        self._cfg = cfg
        self.is_shared = population.parallel == "members" and context.is_distributed
        self._together = context.alone() if self.is_shared else context
        join_ranks(self._together)
        self.env = seen_by(cfg.algorithm, env)
        self._eval_env = eval_env
        self.own = list(range(population.size))
        if self.is_shared:
            check_share(population.size, context.world_size)
            self.own = self.own[context.rank :: context.world_size]
        num_envs = _envs_of_each(env.num_envs, len(self.own))
        memory = None
        if cfg.algorithm not in ON_POLICY:
            gathering = context if population.replay == "gathered" else None
            size = int(cfg.memory["memory_size"])
            memory = ReplayMemory(size, num_envs, env.device, gathering)
        self.nursery = Nursery(
            cfg=cfg, env=self.env, num_envs=num_envs, memory=memory, context=self._together
        )
        self._own_members = OwnMembers(self)
        self.members = [Member.first(self.nursery, index) for index in range(population.size)]
        selection = {name: cfg.bounds(name) for name in cfg.mutations.rl_hp_selection}
        self.mutations = Mutations(cfg.mutations, selection, cfg.network)
        self._steps = int(cfg.num_steps_per_env or 0)
        self._total = 0
        self._elite_index = self.members[0].index
        self._apart: Member | None = None
        self._was_fit = False
        self._met: list[dict[str, Any]] = []
        self._note_meeting()

    def start(self, total: int) -> None:
        self._total = total

    def train(self, number: int, on_step: OnStep) -> Iteration:
        begin = time.perf_counter()
        learn_s = self._train(number, on_step)
        collect_s = time.perf_counter() - begin - learn_s
        own = [self.members[position] for position in self.own]
        ranks = 1 if self.is_shared else self._context.world_size
        for member in own:
            member.frames += self._steps * self.nursery.num_envs * ranks
        return Iteration(
            frames=self._steps * self.env.env.num_envs,
            collect_s=collect_s,
            learn_s=learn_s,
            learning_rate=0.0,
            losses=_mean_losses(own),
        )

    def leading(self) -> dict[str, Any]:
        """Return the fittest member's learning rate, the same on all processes."""
        rate = self._cfg.agent["learning_rate"]
        return {
            "learning_rate": float(self._elite.genes.hyperparameters.get("learning_rate", rate))
        }

    def _train(self, number: int, on_step: OnStep) -> float:
        """Have this process's members act and learn; return the seconds of learning."""
        own = [self.members[position].agent for position in self.own]
        size, learn_s = self.nursery.num_envs, 0.0
        observations, _ = self.env.observe()
        for timestep in range((number - 1) * self._steps, number * self._steps):
            when = {"timestep": timestep, "timesteps": self._total * self._steps}
            seen = observations.split(size)
            with torch.no_grad():
                acted = []
                for agent, part in zip(own, seen, strict=True):
                    agent.pre_interaction(**when)
                    acted.append(agent.act(part, None, **when)[0])
                step = self.env.advance(torch.cat(acted))
                on_step(step.returns, step.ended, step.info)
                outcome = {
                    "rewards": step.rewards.split(size),
                    "next_observations": step.final_observations.split(size),
                    "terminated": step.terminated.split(size),
                    "truncated": step.truncated.split(size),
                }
                for i, agent in enumerate(own):
                    agent.record_transition(
                        observations=seen[i],
                        states=None,
                        next_states=None,
                        actions=acted[i],
                        infos=step.info,
                        **{name: parts[i] for name, parts in outcome.items()},
                        **when,
                    )
            before = time.perf_counter()
            for agent in own:
                agent.post_interaction(**when)
            learn_s += time.perf_counter() - before
            observations = step.observations
        return learn_s

    def is_meeting(self, number: int) -> bool:
        """Return whether members are measured after an iteration: each generation, and the end."""
        return super().is_meeting(number) or number == self._total

    def meet(self, number: int) -> None:
        """See :meth:`Generations.meet`; a short last generation is only measured."""
        is_short = number % self._interval > 0
        last = self.generations[-1]["generation"] if self.generations else 0
        if last == -(-number // self._interval):  # a short one, which a resume has completed
            self.generations.pop()
            for position in self.own:
                self.members[position].fitness.pop()
        # A resumed run continues as if training had not ended within a generation.
        with torch.random.fork_rng(enabled=is_short):
            super().meet(number)
        self._note_meeting()

    def measure(self, generation: int) -> tuple[list[float | None], list[dict[str, Any]]]:
        self._evaluate(generation)
        self._meet()
        scores = [member.score(self._cfg.population.evo_step) for member in self.members]
        return [*scores], [member.report() for member in self.members]

    def is_complete(self, number: int, record: Mapping[str, Any]) -> bool:
        target, population = self._cfg.population.target_fitness, self._cfg.population
        best = max(member.score(population.evo_step) for member in self.members)
        self._was_fit = target is not None and best >= target
        if self._was_fit or number % self._interval > 0:
            self._elite_index, self._apart = record["elite"], None
            return False
        self.mutations.rng = np.random.default_rng((self._seed, record["generation"], 1))
        return True

    def decide(
        self, pairs: Iterator[tuple[int, int]], fittest: int, rng: np.random.Generator
    ) -> Succession:
        """Return who stays, and children with their mutations."""
        drawn = list(pairs)
        stay = sorted({*range(self._size)} - {target for target, _ in drawn})
        is_mutated = fittest in stay and self._cfg.mutations.mutate_elite
        return Succession(
            stay=stay,
            elite=self.mutations.draw(self.members[fittest]) if is_mutated else None,
            children=[(one, self.mutations.draw(self.members[one])) for _, one in drawn],
        )

    def succeed(self, decided: Succession, fittest: int) -> None:
        """Put the members that stay first, and then the children, with new indices."""
        elite, first = self.members[fittest], 1 + max(member.index for member in self.members)
        children = [
            self.members[parent].clone(first + i, change.genes, change.seed)
            for i, (parent, change) in enumerate(decided.children)
        ]
        # If it does not stay as it is, the fittest is kept as it was measured, to be played.
        is_spared = fittest in decided.stay and decided.elite is None
        self._elite_index = elite.index
        self._apart = None if is_spared else Member.of(self.nursery, elite.state())
        self.members = [*(self.members[place] for place in decided.stay), *children]
        if decided.elite is not None:
            self.mutations.apply(elite, decided.elite)
        for child, (_, change) in zip(children, decided.children, strict=True):
            self.mutations.apply(child, change)
        gc.collect()  # skrl's agents refer to themselves, so the last generation's stay in memory

    def _evaluate(self, generation: int) -> None:
        """Note this process's members' mean returns, over all processes that have them.

        All start in the same states, which differ between generations.
        """
        seed = (evaluation_seed(self._cfg.seed) + generation) % 2**31
        with self._context.progress.during("evaluate"):
            for position in self.own:
                self.members[position].test(self._eval_env, seed)

    def _meet(self) -> None:
        """Exchange members with the other processes."""
        if not self.is_shared:
            return
        mine = {position: self.members[position].state() for position in self.own}
        for states in self._context.gather(mine):
            for position, state in states.items():
                if position not in self.own:
                    self.members[position] = Member.of(self.nursery, state)

    def _note_meeting(self) -> None:
        """Keep the common state of all processes until they meet again."""
        if self.is_shared:
            self._met = [adopted(member.state()) for member in self.members]

    @property
    def _elite(self) -> Member:
        """The fittest of the last generation: one kept apart, or the member with its index.

        Members are recreated when they meet and when they are restored, so it is looked up.
        """
        if self._apart is not None:
            return self._apart
        return next(member for member in self.members if member.index == self._elite_index)

    def curves(self, record: IterationRecord) -> list[Curve]:
        """Return losses, and a generation's fitness and hyper-parameters by place."""
        return [Curve(record.frames, dict(record.losses)), *super().curves(record)]

    def is_finished(self, record: IterationRecord) -> bool:
        return self._was_fit

    def close(self) -> None:
        self._eval_env.close()

    def model_state(self) -> dict[str, Any]:
        members = self._met if self.is_shared else [member.state() for member in self.members]
        return {
            "members": members,
            "elite": self._elite_index,
            "apart": None if self._apart is None else self._apart.state(),
            "frames": self._frames,
            "generations": self.generations,
        }

    def load_models(self, values: Mapping[str, Any]) -> None:
        state = values["model"]
        self.check_size(len(state["members"]))
        # What a process trains since the last meeting, only its own part of a checkpoint has.
        part = values["ranks"][self._context.rank] or {}
        trained = part["learner"]["own_members"]["members"] if part else {}
        saved = [
            trained.get(i, one) if i in self.own else one for i, one in enumerate(state["members"])
        ]
        self.members = [Member.of(self.nursery, one) for one in saved]
        apart = state["apart"]
        self._elite_index = state["elite"]
        self._apart = None if apart is None else Member.of(self.nursery, apart)
        self.generations, self._frames = list(state["generations"]), state["frames"]
        self._met = list(state["members"]) if self.is_shared else []


def build(plan: RunPlan, env: Any, context: DistributedContext) -> EvolutionLearner:
    """Return the learner of a settled plan.

    Raises:
        ConfigurationError: If the configuration cannot evolve.
    """
    cfg: EvolutionCfg = plan.agent_cfg.resolved()
    if plan.flags.grad_sync != "ddp":
        raise ConfigurationError(
            f"--grad_sync is {plan.flags.grad_sync}, which has no effect on members: their "
            "gradients are averaged before each step of an optimizer. Leave it out."
        )
    is_shared = cfg.population.parallel == "members"
    changes = {"scene": {"num_envs": cfg.population.eval_episodes}}
    eval_env = plan.task.make(
        merge(plan.env_cfg, changes, "env"), context=context.alone() if is_shared else context
    )
    return EvolutionLearner(env, eval_env, cfg, context)


def dealt(saved: Mapping[str, Any], num_ranks: int) -> list[Any]:
    """Return the members that processes train apart, from which each of other processes takes some.

    Memories and everything else that a checkpoint has per process start afresh.
    """
    parts = [part["learner"]["own_members"]["members"] for part in saved["ranks"] if part]
    members = {place: one for part in parts for place, one in part.items()}
    return [{"learner": {"own_members": {"members": members}}}] * num_ranks


def _envs_of_each(num_envs: int, num_members: int) -> int:
    if num_envs % num_members:
        raise ConfigurationError(
            f"There are {num_envs} environments per process, which {num_members} members cannot "
            "share equally. Use a multiple, such as "
            f"--num_envs={-(-num_envs // num_members) * num_members}."
        )
    return num_envs // num_members


def _mean_losses(members: list[Member]) -> dict[str, float]:
    """Return the members' mean losses by skrl's names, and clear them."""
    found: dict[str, list[float]] = {}
    for member in members:
        for tag, value in summaries(member.agent, member.nursery.env.spaces).items():
            if not tag.startswith(UNEQUAL):
                found.setdefault(tag, []).append(value)
    return {tag: sum(values) / len(values) for tag, values in found.items()}
