"""A member of a population: a skrl agent with its genes, and how children inherit."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.optim import Optimizer

from envlab.distributed.context import DistributedContext
from envlab.errors import CheckpointError
from envlab.skrl.agents import agent_class, make_agent
from envlab.skrl.env import SkrlEnv
from envlab.skrl.library import library_errors, misfit
from envlab.skrl.play import BestActions
from envlab.skrl.torch.heads import Head
from envlab.skrl.torch.learner import TorchLearner, averaging
from envlab.skrl.torch.memory import QuickMemory
from envlab.skrl.torch.noise import scale_noise
from envlab.skrl.torch.ranks import PooledScaler, pooled_advantages
from envlab.training.evaluation import evaluate
from envlab_populations.evolution.architecture import Architecture
from envlab_populations.evolution.cfg import ALIASES, NOISY, SEVERAL, EvolutionCfg
from envlab_populations.evolution.models import make_models
from envlab_populations.evolution.networks import grafted, moved
from envlab_populations.evolution.replay import ReplayMemory
from envlab_populations.population.member import adopted


@dataclass(frozen=True, kw_only=True)
class Genes:
    """The parts that mutations change, in addition to weights: plain data that can be sent."""

    architecture: Architecture
    """Shape of its networks."""
    hyperparameters: Mapping[str, float]
    """Settings of ``agent.agent`` that evolve, by skrl's names."""


@dataclass(kw_only=True)
class Nursery:
    """Makes all members of a population."""

    cfg: EvolutionCfg
    """The configuration, resolved."""
    env: SkrlEnv
    """The environments that they share."""
    num_envs: int
    """Environments of each member."""
    memory: ReplayMemory | None
    """The replay memory that they share; None for algorithms that learn from rollouts."""
    context: DistributedContext
    """Context of the processes that train a member together, or of this one alone."""

    def first_genes(self) -> Genes:
        """Return the genes that all members of a new population have."""
        agent, shape = self.cfg.agent, self.env.spaces["agent"].observation_space.shape
        names = [ALIASES.get(name, name) for name in self.cfg.mutations.rl_hp_selection]
        return Genes(
            architecture=self.cfg.network.architecture(image=len(shape or ()) == 3),
            hyperparameters={name: agent[name] for name in names},
        )

    def make(self, genes: Genes) -> TorchLearner:
        """Return an agent with fresh weights, drawn from torch's generator."""
        agent = self.cfg.agent | dict(genes.hyperparameters)
        critic_rate = agent.pop("critic_learning_rate", 0.0)
        if critic_rate > 0:
            rate = agent["learning_rate"]  # SAC's third is that of the entropy's coefficient
            agent["learning_rate"] = [rate, critic_rate, *([rate] * (self.cfg.algorithm == "sac"))]
        cfg = dataclasses.replace(self.cfg, agent=agent)
        device = self.env.env.device
        name = cfg.algorithm
        with library_errors():
            models = make_models(
                name, self.env.spaces["agent"], genes.architecture, device, self.context
            )
            learner = TorchLearner(
                make_agent(
                    self._agent_class(name),
                    {"agent": models},
                    self.env,
                    cfg,
                    device=device,
                    memory_class=self._memory,
                    scaler_class=PooledScaler.of(self.context),
                ),
                self.env,
                cfg,
            )
        learner.agent.enable_training_mode(True)
        if name in NOISY:
            scale_noise(learner.agent, models["policy"].half_width)
        entropy = getattr(learner.agent, "log_entropy_coefficient", None)
        if entropy is not None and self.context.is_distributed:
            entropy.register_hook(averaging(self.context))
        return learner

    def _agent_class(self, algorithm: str) -> Any:
        if algorithm in ("dqn", "ddqn"):
            from envlab_populations.evolution.dqn import DDQN, DQN

            return DDQN if algorithm == "ddqn" else DQN
        if algorithm in SEVERAL:
            from envlab_populations.evolution.maddpg import AGENTS

            return AGENTS[algorithm]
        context = self.context
        pooled = {"compute_gae": lambda stock: pooled_advantages(stock, context)}
        return agent_class(algorithm, "torch", pooled)

    def _memory(self, **settings: Any) -> Any:
        """Return the shared replay memory, or a new one for a member's own rollout."""
        if self.memory is not None:
            return self.memory
        return QuickMemory(**settings | {"num_envs": self.num_envs})


@dataclass(kw_only=True)
class Member:
    """A member of a population.

    It acts and learns by ``agent``; the state described below is the same on every process.
    """

    nursery: Nursery = field(repr=False)
    index: int
    """Its number, which never changes; children get new ones."""
    genes: Genes
    learner: TorchLearner = field(repr=False)
    """skrl's agent, with the state that a checkpoint must hold."""
    parent: int | None = None
    """Index of the member that it was copied from; None in the first generation."""
    mutation: str = "none"
    """The mutation that made it from its parent."""
    fitness: list[float] = field(default_factory=list)
    """Mean returns of its evaluations, inherited ones included."""
    frames: int = 0
    """Environment steps of all processes that it learned from, including its ancestors'."""

    @classmethod
    def first(cls, nursery: Nursery, index: int) -> Member:
        """Return a member of the first generation."""
        genes = nursery.first_genes()
        return cls(nursery=nursery, index=index, genes=genes, learner=nursery.make(genes))

    @classmethod
    def of(cls, nursery: Nursery, state: Mapping[str, Any]) -> Member:
        """Return the member that :meth:`state` described.

        Raises:
            CheckpointError: If it does not fit the configuration.
        """
        genes = Genes(
            architecture=Architecture.of(state["architecture"]),
            hyperparameters=dict(state["hyperparameters"]),
        )
        names = nursery.first_genes().hyperparameters
        if set(genes.hyperparameters) != set(names):
            raise CheckpointError(
                f"The checkpoint's members evolve {', '.join(genes.hyperparameters) or 'no number'}"
                f", but the configuration's {', '.join(names) or 'none'}. Use the run's own "
                "configuration: leave out overrides of agent.mutations.rl_hp_selection."
            )
        member = cls(
            nursery=nursery,
            genes=genes,
            learner=nursery.make(genes),
            fitness=list(state["fitness"]),
            **{name: state[name] for name in ("index", "parent", "mutation", "frames")},
        )
        member.inherit(state["agent"], state["optimized"])
        return member

    @property
    def agent(self) -> Any:
        """Skrl's agent."""
        return self.learner.agent

    @property
    def policy(self) -> Head:
        """The network that acts."""
        models: dict[str, Head] = self.agent.models
        return models["policy" if "policy" in models else "q_network"]

    def best_actions(self) -> BestActions:
        """Return its policy without noise, including the normalisation of observations."""
        return BestActions(self.policy, "policy", (self.agent._observation_preprocessor, None))

    def test(self, env: Any, seed: int) -> None:
        """Note the mean return of an episode in each environment of all processes that have it."""
        policy = self.best_actions()
        with torch.inference_mode():
            found = evaluate(env, lambda obs: policy(obs["policy"]), seed=seed)
        returns = found.returns.double()
        ended = torch.stack((returns.sum(), torch.ones_like(returns).sum()))
        total = self.nursery.context.sum(ended)
        self.fitness.append(float(total[0] / total[1]))

    def score(self, num_evaluations: int = 1) -> float:
        """Return the mean of its last evaluations; minus infinity before one."""
        recent = self.fitness[-num_evaluations:]
        return float(np.mean(recent)) if recent else -np.inf

    def report(self) -> dict[str, Any]:
        """Return its report, see :mod:`envlab_populations.population.lineage`."""
        return {
            "index": self.index,
            "parent": self.parent,
            "mutation": self.mutation,
            "architecture": str(self.genes.architecture),
            "hyperparameters": dict(self.genes.hyperparameters),
            "fitness": self.fitness[-1],
            "frames": self.frames,
        }

    def state(self) -> dict[str, Any]:
        """Return its whole state, by reference: weights, moments, genes and history."""
        return {
            "index": self.index,
            "parent": self.parent,
            "mutation": self.mutation,
            "architecture": self.genes.architecture.plain(),
            "hyperparameters": dict(self.genes.hyperparameters),
            "fitness": list(self.fitness),
            "frames": self.frames,
            "agent": self.learner.model_state(),
            "optimized": self._optimized(),
        }

    def clone(self, index: int, genes: Genes | None = None, seed: int = 0) -> Member:
        """Return a copy under another index, which shares no tensor with this member.

        Args:
            index: Its index.
            genes: Its genes, with those weights and moments that fit; None: the same.
            seed: Seed of new weights, the same on all processes.
        """
        genes = genes or self.genes
        changed = {
            "index": index,
            "parent": self.index,
            "architecture": genes.architecture.plain(),
            "hyperparameters": genes.hyperparameters,
        }
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return Member.of(self.nursery, self.state() | changed)

    def become(self, genes: Genes, seed: int) -> None:
        """Change its genes; see :meth:`clone`."""
        self.learner, self.genes = self.clone(self.index, genes, seed).learner, genes

    def inherit(self, state: Mapping[str, Any], optimized: Mapping[str, list[str]]) -> None:
        """Take over weights, moments and counters, as far as shapes allow; the rates stay its own.

        Args:
            state: The result of a learner's ``model_state``.
            optimized: Names of the parameters of its optimizers, in their order.

        Raises:
            CheckpointError: If it belongs to another kind of agent.
        """
        old, own = state["modules"]["agent"], self._optimized()
        fitted = {}
        for role, module in self.learner._modules()["agent"].items():
            if role not in old:
                raise misfit("agent", f"it has no {role}")
            fitted[role] = old[role]
            if isinstance(module, Head):
                shape, fresh = self.genes.architecture, module.state_dict()
                fitted[role] = grafted(old[role], fresh, shape, module.num_extra)
            elif isinstance(module, Optimizer):
                moments = _moments(old[role]["state"], optimized[role], module, own[role])
                fitted[role] = module.state_dict() | {"state": moments}
        counters = adopted(state["counters"])
        self.learner.load_models(
            {"model": {**state, "modules": {"agent": fitted}, "counters": counters}}
        )

    def optimizers(self) -> dict[str, Optimizer]:
        modules = self.learner._modules()["agent"]
        return {name: each for name, each in modules.items() if isinstance(each, Optimizer)}

    def _named_parameters(self) -> dict[int, str]:
        """Return the names of all parameters that are optimized, by their identity."""
        names = {
            id(parameter): f"{role}.{name}"
            for role, model in self.agent.models.items()
            for name, parameter in model.named_parameters()
        }
        entropy = getattr(self.agent, "log_entropy_coefficient", None)
        return names | {id(entropy): "log_entropy_coefficient"}

    def _optimized(self) -> dict[str, list[str]]:
        names = self._named_parameters()
        return {
            key: [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
            for key, optimizer in self.optimizers().items()
        }


def _moments(
    old: Mapping[int, Mapping[str, Any]],
    old_names: Sequence[str],
    optimizer: Optimizer,
    names: Sequence[str],
) -> dict[int, dict[str, Any]]:
    """Return an optimizer's state by the position of its parameters, which are matched by name.

    It has no tensor of the other's, which ``Optimizer.load_state_dict`` would keep for both.
    """
    by_name = {old_names[position]: values for position, values in old.items()}
    steps = [values["step"] for values in old.values() if "step" in values]
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    found = {}
    for position, (name, parameter) in enumerate(zip(names, parameters, strict=True)):
        had = by_name.get(name)
        if had is None and steps:  # a new layer's: no moments, as many steps
            none = torch.zeros_like(parameter)
            had = {"step": max(steps), "exp_avg": none, "exp_avg_sq": none}
        if had is not None:
            found[position] = {key: moved(value, parameter.shape) for key, value in had.items()}
    return found
