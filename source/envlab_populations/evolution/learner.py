"""A population in the training loop: its members act at the same time, and meet at tournaments."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping, Sequence
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
from envlab.state import State
from envlab.training.evaluation import evaluate
from envlab.training.plan import RunPlan
from envlab_populations.evolution.cfg import EvolutionCfg
from envlab_populations.evolution.models import seen_by
from envlab_populations.evolution.mutations import Mutations
from envlab_populations.evolution.nursery import EvolvingLearner, SkrlNursery
from envlab_populations.evolution.replay import ReplayMemory
from envlab_populations.population.generations import Copy, Population
from envlab_populations.population.member import Change, Member


class EvolutionLearner(Population):
    """Members with equal shares of this process's environments, and their evolution.

    With ``--parallel data`` every process has all members, and their gradients are averaged. With
    ``members`` a process trains its share of them.
    """

    STATE = State(parts=("nursery.memory",))

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
        is_apart = population.parallel == "members" and context.is_distributed
        interval = population.generation_iterations
        super().__init__(population, interval, cfg.seed, env, context, is_apart=is_apart)
        self._cfg, self._eval_env = cfg, eval_env
        together = context.alone() if is_apart else context
        join_ranks(together)
        num_envs, memory = env.num_envs // len(self.own), None
        if env.num_envs % len(self.own):
            raise ConfigurationError(
                f"There are {env.num_envs} environments per process, which {len(self.own)} members "
                "cannot share equally. Use a multiple, such as "
                f"--num_envs={(num_envs + 1) * len(self.own)}."
            )
        if cfg.algorithm not in ON_POLICY:
            gathering = context if population.replay == "gathered" else None
            size = int(cfg.memory["memory_size"])
            memory = ReplayMemory(size, num_envs, env.device, gathering)
        self.nursery = SkrlNursery(
            cfg=cfg,
            env=seen_by(cfg.algorithm, env),
            num_envs=num_envs,
            memory=memory,
            context=together,
            is_apart=is_apart,
        )
        self.members = [Member.first(self.nursery, index) for index in range(population.size)]
        for place in {*range(population.size)} - {*self.own}:  # all draw alike, whoever trains them
            self.members[place].learner = None
        self.mutations = Mutations(cfg.mutations, cfg.mutations.rl_hp_selection, cfg.network)
        self._steps, self._total = int(cfg.num_steps_per_env or 0), 0
        self._was_fit = False

    def start(self, total: int) -> None:
        self._total = total

    def train(self, number: int, on_step: OnStep) -> Iteration:
        begin = time.perf_counter()
        learn_s = self._train(number, on_step)
        collect_s = time.perf_counter() - begin - learn_s
        own = [self.members[place] for place in self.own]
        ranks = 1 if self.is_apart else self._context.world_size
        for member in own:
            member.frames += self._steps * self.nursery.num_envs * ranks
        return Iteration(
            frames=self._steps * self._env.num_envs,
            collect_s=collect_s,
            learn_s=learn_s,
            learning_rate=0.0,
            losses=_mean_losses(own),
        )

    def leading(self) -> dict[str, Any]:
        """Return the fittest member's learning rate, the same on all processes."""
        numbers = (self._kept or self.members[self._leader]).genes.hyperparameters
        rate = numbers.get("learning_rate", self._cfg.agent["learning_rate"])
        return {"learning_rate": float(rate)}

    def _train(self, number: int, on_step: OnStep) -> float:
        """Have this process's members act and learn; return the seconds of learning."""
        own = [self.members[place].learner.agent for place in self.own]
        env, size, learn_s = self.nursery.env, self.nursery.num_envs, 0.0
        observations, _ = env.observe()
        for timestep in range((number - 1) * self._steps, number * self._steps):
            when = {"timestep": timestep, "timesteps": self._total * self._steps}
            seen = observations.split(size)
            with torch.no_grad():
                acted = []
                for agent, part in zip(own, seen, strict=True):
                    agent.pre_interaction(**when)
                    acted.append(agent.act(part, None, **when)[0])
                step = env.advance(torch.cat(acted))
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
        """See :meth:`Population.meet`; a short last generation is only measured."""
        is_short = number % self._interval > 0
        last = self.generations[-1]["generation"] if self.generations else 0
        if last == -(-number // self._interval):  # a short one, which a resume has completed
            self.generations.pop()
            for place in self.own:
                self.members[place].fitness.pop()
        # A resumed run continues as if training had not ended within a generation.
        with torch.random.fork_rng(enabled=is_short):
            super().meet(number)

    def measure(self, generation: int) -> dict[int, float | None]:
        """Note this process's members' mean returns, over all processes that have them.

        All start in the same states, which differ between generations.
        """
        seed = (evaluation_seed(self._seed) + generation) % 2**31
        found: dict[int, float | None] = {}
        with self._context.progress.during("evaluate"):
            for place in self.own:
                member = self.members[place]
                member.fitness.append(self._played(member.learner, seed))
                found[place] = member.score(self._cfg.population.evo_step)
        return found

    def _played(self, learner: EvolvingLearner, seed: int) -> float:
        """Return the mean of an episode in each environment of all processes that have it."""
        policy = learner.best_actions()
        with torch.inference_mode():
            found = evaluate(self._eval_env, lambda obs: policy(obs["policy"]), seed=seed)
        returns = found.returns.double()
        ended = torch.stack((returns.sum(), torch.ones_like(returns).sum()))
        total = self.nursery.context.sum(ended)
        return float(total[0] / total[1])

    def is_complete(self, number: int, record: Mapping[str, Any]) -> bool:
        population = self._cfg.population
        target = population.target_fitness
        best = max(member.score(population.evo_step) for member in self.members)
        self._was_fit = target is not None and best >= target
        if self._was_fit or number % self._interval > 0:
            indices = [member.index for member in self.members]
            self._leader, self._kept = indices.index(record["elite"]), None
            return False
        self.mutations.rng = np.random.default_rng((self._seed, record["generation"], 1))
        return True

    def decide(
        self, pairs: Iterator[tuple[int, int]], fittest: int, rng: np.random.Generator
    ) -> list[Copy]:
        """See :meth:`Population.decide`; a fittest member that stays may also change."""
        drawn, changed = list(pairs), []
        if self._cfg.mutations.mutate_elite and fittest not in dict(drawn):
            change = self.mutations.draw(self.members[fittest])
            if change.text != "none":
                changed = [Copy(target=fittest, source=fittest, change=change, stays=True)]
        return [*changed, *super().decide(iter(drawn), fittest, rng)]

    def change(self, parent: Member, rng: np.random.Generator) -> Change:
        return self.mutations.draw(parent)

    def succeed(self, copies: Sequence[Copy], fittest: int) -> None:
        """If the fittest does not stay as it is, keep it as it was measured, to be played."""
        elite = self.members[fittest]
        super().succeed(copies, fittest)
        self._leader = fittest
        self._kept = None if self.members[fittest] is elite else elite
        gc.collect()  # skrl's agents refer to themselves, so the last generation's stay in memory

    def curves(self, record: IterationRecord) -> list[Curve]:
        """Return losses, and a generation's fitness and hyper-parameters by place."""
        return [Curve(record.frames, dict(record.losses)), *super().curves(record)]

    def is_finished(self, record: IterationRecord) -> bool:
        return self._was_fit

    def close(self) -> None:
        self._eval_env.close()


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


def _mean_losses(members: list[Member]) -> dict[str, float]:
    """Return the members' mean losses by skrl's names, and clear them."""
    found: dict[str, list[float]] = {}
    for member in members:
        for tag, value in summaries(member.learner.agent, member.nursery.env.spaces).items():
            if not tag.startswith(UNEQUAL):
                found.setdefault(tag, []).append(value)
    return {tag: sum(values) / len(values) for tag, values in found.items()}
