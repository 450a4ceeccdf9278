"""skrl's agents as members: how they are made, how children of other genes inherit, and play."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch.optim import Optimizer

from envlab.distributed.context import DistributedContext
from envlab.skrl.agents import agent_class, make_agent
from envlab.skrl.env import SkrlEnv
from envlab.skrl.library import ON_POLICY, library_errors, misfit
from envlab.skrl.play import BestActions, SkrlPlayer
from envlab.skrl.torch.heads import Head
from envlab.skrl.torch.learner import TorchLearner, averaging
from envlab.skrl.torch.memory import QuickMemory
from envlab.skrl.torch.ranks import PooledScaler, join_ranks, pooled_advantages
from envlab.training.plan import RunPlan
from envlab_populations.evolution.cfg import ALIASES, NOISY, SEVERAL, EvolutionCfg
from envlab_populations.evolution.models import make_models, seen_by
from envlab_populations.evolution.networks import grafted, moved
from envlab_populations.evolution.replay import ReplayMemory
from envlab_populations.noise import scale_noise
from envlab_populations.population.architecture import Architecture
from envlab_populations.population.member import Change, Genes, Member, Nursery, adopted


class EvolvingLearner(TorchLearner):
    """An agent of skrl's that inherits from one whose networks have another shape."""

    shape: Architecture
    """The shape of its networks."""
    memories: ClassVar[dict[str, Any]] = {}  # the population saves the one that all share

    @property
    def policy(self) -> Head:
        """The network that acts."""
        models: dict[str, Head] = self.agent.models
        return models["policy" if "policy" in models else "q_network"]

    def best_actions(self) -> BestActions:
        """Return its policy without noise, including the normalisation of observations."""
        return BestActions(self.policy, "policy", (self.agent._observation_preprocessor, None))

    def matrices(self) -> list[torch.Tensor]:
        """Return the weight matrices of its policy."""
        return [one for one in self.policy.net.parameters() if one.dim() == 2]

    def optimizers(self) -> dict[str, Optimizer]:
        """Return its optimizers by name."""
        modules = self._modules()["agent"]
        return {name: one for name, one in modules.items() if isinstance(one, Optimizer)}

    def optimized(self) -> dict[str, list[str]]:
        """Return the names of the parameters of its optimizers, in their order."""
        names = {
            id(parameter): f"{role}.{name}"
            for role, model in self.agent.models.items()
            for name, parameter in model.named_parameters()
        }
        names[id(getattr(self.agent, "log_entropy_coefficient", None))] = "log_entropy_coefficient"
        return {
            key: [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
            for key, optimizer in self.optimizers().items()
        }

    def model_state(self) -> dict[str, Any]:
        return {"agent": super().model_state(), "optimized": self.optimized()}

    def load_models(self, values: Mapping[str, Any]) -> None:
        """Take over weights, moments and counters, as far as shapes allow; the rates stay its own.

        Raises:
            CheckpointError: If they belong to another kind of agent.
        """
        model, own = values["model"], self.optimized()
        state, old, fitted = model["agent"], model["agent"]["modules"]["agent"], {}
        for role, module in self._modules()["agent"].items():
            if role not in old:
                raise misfit("agent", f"it has no {role}")
            fitted[role] = old[role]
            if isinstance(module, Head):
                fresh = module.state_dict()
                fitted[role] = grafted(old[role], fresh, self.shape, module.num_extra)
            elif isinstance(module, Optimizer):
                names = model["optimized"][role]
                moments = _moments(old[role]["state"], names, module, own[role])
                fitted[role] = module.state_dict() | {"state": moments}
        changed = {"modules": {"agent": fitted}, "counters": adopted(state["counters"])}
        super().load_models({"model": {**state, **changed}})


@dataclass(kw_only=True)
class SkrlNursery(Nursery):
    """Makes all members of a population."""

    cfg: EvolutionCfg
    """The configuration, resolved."""
    env: SkrlEnv
    """The environments that they share."""
    num_envs: int
    """Environments of each member."""
    memory: ReplayMemory | None
    """The replay memory that they share; None for algorithms that learn from rollouts."""
    context: DistributedContext = field(default_factory=DistributedContext)
    """Context of the processes that train a member together, or of this one alone."""
    is_apart: bool = False

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        """Where they compute."""
        found: torch.device = self.env.env.device
        return found

    def first_genes(self) -> Genes:
        agent, shape = self.cfg.agent, self.env.spaces["agent"].observation_space.shape
        names = [ALIASES.get(name, name) for name in self.cfg.mutations.rl_hp_selection]
        return Genes(
            architecture=self.cfg.network.architecture(image=len(shape or ()) == 3),
            hyperparameters={name: agent[name] for name in names},
        )

    def make(self, genes: Genes) -> EvolvingLearner:
        """Return an agent with fresh weights, drawn from torch's generator."""
        agent = self.cfg.agent | dict(genes.hyperparameters)
        critic_rate = agent.pop("critic_learning_rate", 0.0)
        if critic_rate > 0:
            rate = agent["learning_rate"]  # SAC's third is that of the entropy's coefficient
            agent["learning_rate"] = [rate, critic_rate, *([rate] * (self.cfg.algorithm == "sac"))]
        cfg = dataclasses.replace(self.cfg, agent=agent)
        name, seen, device = cfg.algorithm, self.env.spaces["agent"], self.device
        shape = genes.architecture
        assert shape is not None
        with library_errors():
            models = make_models(name, seen, shape, device, self.context)
            skrls = make_agent(
                self._agent_class(name),
                {"agent": models},
                self.env,
                cfg,
                device=device,
                memory_class=self._memory,
                scaler_class=PooledScaler.of(self.context),
            )
            learner = EvolvingLearner(skrls, self.env, cfg)
        learner.shape = shape
        learner.agent.enable_training_mode(True)
        if name in NOISY:
            scale_noise(learner.agent, models["policy"].half_width)
        entropy = getattr(learner.agent, "log_entropy_coefficient", None)
        if entropy is not None and self.context.is_distributed:
            entropy.register_hook(averaging(self.context))
        return learner

    def child(self, change: Change, model: Mapping[str, Any], before: Any) -> EvolvingLearner:
        """See :class:`Nursery`; draws come from the change's seed, and leave training's alone."""
        with torch.random.fork_rng():
            torch.manual_seed(change.seed)
            learner = self.make(change.genes)
            learner.load_models({"model": model})
        generator, matrices = torch.Generator().manual_seed(change.seed), learner.matrices()
        for position in change.noise:
            add_noise(matrices[position], change.deviation, generator)
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


class EvolutionPlayer(SkrlPlayer):
    """The leader of a checkpoint, see :class:`envlab.learner.Player`."""

    def __init__(
        self, plan: RunPlan, env: Any, context: DistributedContext, values: dict[str, Any]
    ) -> None:
        cfg: EvolutionCfg = plan.agent_cfg.resolved()
        join_ranks(context)
        seen = seen_by(cfg.algorithm, env)
        memory = None if cfg.algorithm in ON_POLICY else ReplayMemory(1, 1, env.device, None)
        nursery = SkrlNursery(cfg=cfg, env=seen, num_envs=1, memory=memory, context=context)
        super().__init__(Member.of(nursery, values["member"], values).learner)


NOISY_SHARE = 0.1
"""Share of a weight matrix's entries that noise changes."""
SUPER_PROB, RESET_PROB = 0.05, 0.05
"""Shares of those entries that get noise of :data:`SUPER_SD` times their size, and are redrawn."""
SUPER_SD = 10.0
LIMIT = 1e6
"""Largest absolute value of an entry that noise has changed."""


def add_noise(weight: torch.Tensor, deviation: float, generator: torch.Generator) -> None:
    """Change a tenth of a matrix's entries: most a little, some much, and some are redrawn."""
    shape = weight.shape
    chosen = torch.rand(shape, generator=generator) < NOISY_SHARE
    band = torch.rand(shape, generator=generator)
    noise = torch.randn(shape, generator=generator)
    old = weight.detach().cpu()
    much, anew = band < SUPER_PROB, (band >= SUPER_PROB) & (band < SUPER_PROB + RESET_PROB)
    new = old + noise * old.abs() * torch.where(much, SUPER_SD, deviation)
    new = torch.where(anew, noise, new).clamp(-LIMIT, LIMIT)
    with torch.no_grad():
        weight.copy_(torch.where(chosen, new, old))


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
