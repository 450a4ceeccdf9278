"""AgileRL's agents: members that act and learn when a program asks."""

from __future__ import annotations

import dataclasses
import os
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from gymnasium import spaces

from envlab.distributed.context import DistributedContext
from envlab.errors import CheckpointError, ConfigurationError, LaunchError
from envlab.skrl.env import Spaces
from envlab.skrl.torch.memory import QuickMemory
from envlab.skrl.torch.ranks import join_ranks
from envlab_populations.agilerl.accelerator import CONFIG, context_of
from envlab_populations.agilerl.counts import Steps
from envlab_populations.agilerl.memory import Handed
from envlab_populations.agilerl.rollouts import collect_rollouts
from envlab_populations.agilerl.seeing import Seeing, plain_space, space_of
from envlab_populations.agilerl.settings import (
    HyperparameterConfig,
    agent_values,
    member_cfg,
    network_of,
    numbers_of,
    tell,
)
from envlab_populations.evolution.cfg import ALIASES, BoundsCfg
from envlab_populations.evolution.models import check_actions
from envlab_populations.evolution.nursery import SkrlNursery
from envlab_populations.old_states import whole_member
from envlab_populations.population.member import Genes, Member

When = {"timestep": 0, "timesteps": 1}


@dataclass(kw_only=True)
class ProgramNursery(SkrlNursery):
    """Makes members whose numbers have AgileRL's names and units."""

    algorithm: str
    numbers: Mapping[str, Any]
    """All numbers, before they evolve."""
    bounds: Mapping[str, BoundsCfg]
    """Bounds of the numbers that evolve."""

    def first_genes(self) -> Genes:
        hyperparameters = {ALIASES.get(name, name): self.numbers[name] for name in self.bounds}
        return dataclasses.replace(super().first_genes(), hyperparameters=hyperparameters)

    def numbers_of(self, genes: Genes) -> dict[str, Any]:
        """Return all numbers of a member."""
        evolved = {name: genes.hyperparameters[ALIASES.get(name, name)] for name in self.bounds}
        return {**self.numbers, **evolved}

    def make(self, genes: Genes) -> Any:
        values = agent_values(self.algorithm, self.numbers_of(genes))
        made_with = dataclasses.replace(
            self, cfg=dataclasses.replace(self.cfg, agent=self.cfg.agent | values)
        )
        return SkrlNursery.make(made_with, dataclasses.replace(genes, hyperparameters={}))

    def _agent_class(self, algorithm: str) -> Any:
        if self.algorithm != "cqn":
            return super()._agent_class(algorithm)
        from envlab_populations.agilerl.cqn import CQN, DoubleCQN

        return DoubleCQN if self.numbers["double"] else CQN

    def _memory(self, **settings: Any) -> Any:
        return super()._memory(**settings) if self.algorithm == "ppo" else Handed()


class Agent:
    """A member under AgileRL's names.

    Attributes:
        member: The part that is inherited and mutated.
        steps: Steps that a program says it has learned from.
        scores: Returns of episodes that a program noted.
        training: Whether actions have noise.
    """

    algorithm: ClassVar[str]

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        *older: Any,
        index: int = 0,
        hp_config: HyperparameterConfig | None = None,
        net_config: Mapping[str, Any] | None = None,
        actor_network: Any = None,
        num_envs: int = 1,
        device: Any = "cpu",
        accelerator: Any = None,
        **numbers: Any,
    ) -> None:
        """Make a member with fresh weights, the same on all of Accelerate's processes.

        Raises:
            ConfigurationError: If the spaces, networks or numbers do not fit.
            LaunchError: If Accelerate does not see the other processes.
        """
        if older or not isinstance(observation_space, spaces.Space):
            raise ConfigurationError(
                f"{type(self).__name__} takes observation_space and action_space, and all other "
                "arguments by name. The dimensions of AgileRL 0.1 go to initialPopulation."
            )
        values = numbers_of(self.algorithm, numbers)
        network = network_of(net_config if actor_network is None else actor_network.net_config)
        cfg = member_cfg(self.algorithm, values, network, is_scaled=False)
        context = context_of(accelerator)
        _check_launch(context)
        join_ranks(context)
        device = torch.device(accelerator.device if accelerator is not None else device)
        check_actions(cfg.algorithm, action_space)
        self.seeing = Seeing.of(observation_space)
        config = HyperparameterConfig.around(values) if hp_config is None else hp_config
        nursery = ProgramNursery(
            cfg=cfg,
            env=_stub(self.seeing, action_space, num_envs, device),
            num_envs=num_envs,
            memory=None,
            context=context,
            algorithm=self.algorithm,
            numbers=values,
            bounds=_evolving(self.algorithm, values, config),
        )
        with torch.random.fork_rng(enabled=context.is_distributed):
            if context.is_distributed:  # weights are the same on all processes
                torch.manual_seed(context.broadcast(int(torch.randint(2**31, ()))))
            self._settle(Member.first(nursery, index), action_space)

    def _settle(self, member: Member, action_space: spaces.Space[Any]) -> None:
        self.member, self.action_space = member, action_space
        self.steps, self.training = Steps(), True
        self.scores: list[float] = []

    @classmethod
    def population(cls, size: int, *spaces: Any, **named: Any) -> list[Self]:
        """Return ``size`` agents."""
        return [cls(*spaces, **named, index=index) for index in range(size)]

    def __getattr__(self, name: str) -> Any:
        """Return a number by AgileRL's name, as it is now."""
        if not name.startswith("_") and name != "member":
            nursery: ProgramNursery = self.member.nursery  # type: ignore[assignment]
            numbers = nursery.numbers_of(self.member.genes)
            if name in numbers:
                return numbers[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def observation_space(self) -> spaces.Space[Any]:
        """The space of its observations, as the environment has it."""
        return self.seeing.space

    def init_training_step(self) -> None:
        """Do nothing: a turn begins."""

    def add_scores(self, scores: Sequence[float]) -> None:
        """Note returns of episodes."""
        self.scores += [float(score) for score in scores]

    def finalize_training_step(self, steps: int) -> None:
        """Count the steps of a turn."""
        self.steps += int(steps)

    @property
    def agent(self) -> Any:
        """Skrl's agent."""
        return self.member.learner.agent

    @property
    def algo(self) -> str:
        """The algorithm's name."""
        return self.algorithm.upper()

    name = algo

    @property
    def index(self) -> int:
        """Its number, which never changes."""
        return self.member.index

    @property
    def mut(self) -> str:
        """The mutation that made it from its parent."""
        return self.member.mutation

    @property
    def fitness(self) -> list[float]:
        """Mean returns of its evaluations."""
        return self.member.fitness

    @property
    def num_envs(self) -> int:
        """Environments that it acts in at the same time."""
        return self.member.nursery.num_envs

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        device: torch.device = self.member.nursery.env.env.device
        return device

    @property
    def accelerator(self) -> None:
        """None: gradients are averaged without Accelerate's wrappers."""

    def set_training_mode(self, training: bool) -> None:
        """Set whether actions have noise."""
        self.training = training

    def unwrap_models(self) -> None:
        """Do nothing: there are no wrappers."""

    wrap_models = unwrap_models

    def normalize(self) -> Self:
        """Have observations normalised by their running statistics, from now on."""
        nursery = self.member.nursery
        network = dataclasses.asdict(nursery.cfg.network)
        assert isinstance(nursery, ProgramNursery)
        cfg = member_cfg(self.algorithm, nursery.numbers, network, is_scaled=True)
        self._settle(
            Member.first(dataclasses.replace(nursery, cfg=cfg), self.index), self.action_space
        )
        return self

    def test(
        self,
        env: Any,
        swap_channels: bool = False,
        max_steps: int | None = None,
        loop: int = 3,
        **_: Any,
    ) -> float:
        """Return the mean return of episodes without noise, over all processes; note it.

        Args:
            env: A Gymnasium environment, or several in one.
            swap_channels: Ignored: images are transposed as networks need them.
            max_steps: Steps after which an episode is given up.
            loop: Episodes in each environment.
        """
        policy = self.member.learner.best_actions()
        returns = [self._episode(env, policy, max_steps) for _ in range(loop)]
        found = torch.tensor([float(np.mean(returns)), 1.0], dtype=torch.float64)
        total = self.member.nursery.context.sum(found.to(self.device))
        self.fitness.append(float(total[0] / total[1]))
        return self.fitness[-1]

    @torch.no_grad()
    def _episode(self, env: Any, policy: Any, max_steps: int | None) -> float:
        obs, _ = env.reset()
        count = getattr(env, "num_envs", 1)
        scores, is_over, steps = np.zeros(count), np.zeros(count, dtype=bool), 0
        while not is_over.all() and (max_steps is None or steps < max_steps):
            action = self._array(policy(self.seeing(obs, self.device)))
            step = env.step(action if hasattr(env, "num_envs") else action[0])
            obs, reward, terminated, truncated, _ = step
            scores += np.where(is_over, 0.0, reward)
            is_over |= np.logical_or(terminated, truncated)
            steps += 1
        return float(scores.mean())

    def _array(self, actions: torch.Tensor) -> np.ndarray[Any, Any]:
        """Return actions as an environment takes them, ``(num_envs,)`` or ``(num_envs, dim)``."""
        values: np.ndarray[Any, Any] = actions.cpu().numpy()
        if isinstance(self.action_space, spaces.Box):
            return values.reshape(-1, *self.action_space.shape)
        return values.reshape(-1)

    def clone(self, index: int | None = None, wrap: bool = True) -> Self:
        """Return a copy that shares no tensor with it."""
        copy = object.__new__(type(self))
        copy.seeing = self.seeing
        member = self.member.clone(self.index if index is None else index)
        copy._settle(member, self.action_space)
        copy.steps, copy.scores = Steps(self.steps), list(self.scores)
        return copy

    def save_checkpoint(self, path: Any) -> None:
        """Write the agent to a file, as plain data and tensors."""
        nursery = self.member.nursery
        assert isinstance(nursery, ProgramNursery)
        values = {
            "agilerl": type(self).__name__,
            "observation_space": plain_space(self.observation_space),
            "action_space": plain_space(self.action_space),
            "numbers": dict(nursery.numbers),
            "bounds": {name: dataclasses.asdict(b) for name, b in nursery.bounds.items()},
            "network": dataclasses.asdict(nursery.cfg.network),
            "is_scaled": nursery.cfg.agent["observation_preprocessor"] is not None,
            "num_envs": self.num_envs,
            "steps": int(self.steps),
            "member": self.member.whole(),
        }
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        torch.save(values, path)

    def load_checkpoint(self, path: Any) -> None:
        """Become the agent that a file holds.

        Raises:
            CheckpointError: If the file holds none, or one of another algorithm.
        """
        values = _read(path, type(self).__name__)
        self.member = Member.of(self.member.nursery, values["member"], values["member"])
        self.steps = Steps(values["steps"])

    @classmethod
    def load(cls, path: Any, device: Any = "cpu", accelerator: Any = None) -> Self:
        """Return the agent that a file holds.

        Raises:
            CheckpointError: If the file holds none, or one of another algorithm.
        """
        values = _read(path, cls.__name__)
        agent = object.__new__(cls)
        action_space = space_of(values["action_space"])
        agent.seeing = Seeing.of(space_of(values["observation_space"]))
        context = context_of(accelerator)
        nursery = ProgramNursery(
            cfg=member_cfg(
                cls.algorithm, values["numbers"], values["network"], is_scaled=values["is_scaled"]
            ),
            env=_stub(agent.seeing, action_space, values["num_envs"], torch.device(device)),
            num_envs=values["num_envs"],
            memory=None,
            context=context,
            algorithm=cls.algorithm,
            numbers=values["numbers"],
            bounds={name: BoundsCfg(**bounds) for name, bounds in values["bounds"].items()},
        )
        member = Member.of(nursery, values["member"], values["member"])
        agent._settle(member, action_space)
        agent.steps = Steps(values["steps"])
        return agent

    saveCheckpoint, loadCheckpoint = save_checkpoint, load_checkpoint

    def losses(self) -> dict[str, float]:
        """Return what skrl's agent recorded of its last update, and clear it."""
        noted = self.agent.tracking_data
        found = {
            tag.removeprefix("Loss / "): float(values[-1])
            for tag, values in noted.items()
            if tag.startswith("Loss / ") and values
        }
        noted.clear()
        return found


class OffPolicyAgent(Agent):
    """An agent that learns from batches of a memory that the program keeps."""

    def learn(self, experiences: Any, *_: Any, **__: Any) -> Any:
        """Make a gradient step on a batch, and return its loss.

        Args:
            experiences: The batch that a memory's ``sample`` returned, or a tuple of
                ``(batch, dim)``: observations, actions, rewards, next observations, and ends.
        """
        if isinstance(experiences, Mapping):
            parts = [experiences[name] for name in ("obs", "action", "reward", "next_obs", "done")]
        else:
            parts = list(experiences[:5])
        obs, action, reward, following, done = (
            torch.as_tensor(part, device=self.device) for part in parts
        )
        self.agent.memory.batch = {
            "observations": self.seeing.flat(obs),
            "actions": action.reshape(len(obs), -1),
            "rewards": reward.float().reshape(-1, 1),
            "next_observations": self.seeing.flat(following),
            "terminated": done.bool().reshape(-1, 1),
        }
        self.agent.update(**When)
        return self._loss()

    def _loss(self) -> Any:
        return next(iter(self.losses().values()))


class DQN(OffPolicyAgent):
    """DQN, and double DQN."""

    algorithm = "dqn"

    @torch.no_grad()
    def get_action(
        self, obs: Any, epsilon: float = 0.0, action_mask: Any = None, *_: Any, **__: Any
    ) -> np.ndarray[Any, Any]:
        """Return the best choices, and with a probability random ones, ``(num_envs,)``."""
        agent = self.agent
        seen = {"observations": agent._observation_preprocessor(self.seeing(obs, self.device))}
        values = agent.q_network(seen, role="q_network")[0]
        chances = torch.rand_like(values)
        if action_mask is not None:
            mask = torch.as_tensor(np.asarray(action_mask), device=self.device)
            is_illegal = mask.reshape(values.shape) == 0
            values = values.masked_fill(is_illegal, -torch.inf)
            chances = chances.masked_fill(is_illegal, -1.0)
        is_random = torch.rand(len(values), device=self.device) < epsilon
        return self._array(torch.where(is_random, chances.argmax(1), values.argmax(1)))

    getAction = get_action


class CQN(DQN):
    """Conservative Q-learning over DQN, from a data set."""

    algorithm = "cqn"


class DDPG(OffPolicyAgent):
    """DDPG, whose actions are those that the environment takes."""

    algorithm = "ddpg"

    @torch.no_grad()
    def get_action(
        self, obs: Any, training: Any = None, *_: Any, **__: Any
    ) -> np.ndarray[Any, Any]:
        """Return actions, ``(num_envs, dim)``, with noise in training.

        Args:
            obs: Observations.
            training: Whether it is for training; None, or 0.1's epsilon: as was set.
        """
        seen = self.seeing(obs, self.device)
        is_noisy = training if isinstance(training, bool) else self.training
        if not is_noisy:
            return self._array(self.member.learner.best_actions()(seen))
        state = getattr(self.agent._exploration_noise, "state", 0)
        if isinstance(state, torch.Tensor) and len(state) != len(seen):
            self.agent._exploration_noise.state = 0
        return self._array(self.agent.act(seen, None, **When)[0])

    getAction = get_action

    def reset_action_noise(self, indices: Sequence[int]) -> None:
        """Restart the noise of these environments."""
        state = getattr(self.agent._exploration_noise, "state", None)
        if isinstance(state, torch.Tensor) and len(indices) > 0:
            state[list(indices)] = 0.0

    def _loss(self) -> tuple[float | None, float]:
        losses = self.losses()
        return losses.get("Policy loss"), losses["Critic loss"]


class TD3(DDPG):
    """TD3."""

    algorithm = "td3"


class Rollout:
    """The steps that a PPO is to learn from next."""

    def __init__(self) -> None:
        self.steps: list[dict[str, Any]] = []
        self.following: Any = None
        """Observations after the last step."""

    def __len__(self) -> int:
        return len(self.steps)

    def reset(self) -> None:
        """Clear all steps."""
        self.steps.clear()

    def add(self, *, next_obs: Any = None, **step: Any) -> None:
        """Add a step of all environments."""
        self.steps.append(step)
        self.following = next_obs

    def compute_returns_and_advantages(self, *_: Any, **__: Any) -> None:
        """Do nothing: learning computes them."""


class PPO(Agent):
    """PPO, without recurrence."""

    algorithm = "ppo"

    def _settle(self, member: Member, action_space: spaces.Space[Any]) -> None:
        super()._settle(member, action_space)
        self.rollout_buffer = Rollout()

    @torch.no_grad()
    def get_action(self, obs: Any, action_mask: Any = None, *_: Any, **__: Any) -> tuple[Any, ...]:
        """Return sampled actions, log-probabilities, entropies and values, a row of each.

        Raises:
            ConfigurationError: If some actions are illegal.
        """
        if action_mask is not None:
            raise ConfigurationError(
                "The environment has an action_mask, which PPO here does not take. Use DQN for it."
            )
        agent = self.agent
        seen = {"observations": agent._observation_preprocessor(self.seeing(obs, self.device))}
        actions, outputs = agent.policy.act(seen, role="policy")
        values, _ = agent.value.act(seen, role="value")
        entropy = agent.policy.get_entropy(role="policy").reshape(len(actions), -1).sum(1)
        rows = (outputs["log_prob"], entropy, agent._value_preprocessor(values, inverse=True))
        return self._array(actions), *(row.reshape(-1).cpu().numpy() for row in rows)

    getAction = get_action

    def collect_rollouts(self, env: Any, n_steps: int | None = None, **last: Any) -> Any:
        """See :func:`envlab_populations.agilerl.rollouts.collect_rollouts`."""
        return collect_rollouts(self, env, n_steps, **last)

    def learn(self, experiences: Sequence[Any] | None = None, *_: Any, **__: Any) -> float:
        """Learn from the rollout, or from lists by step as before 2.9, and return the loss.

        Raises:
            ConfigurationError: If there is no step to learn from.
        """
        if experiences is not None:
            self.take_lists(experiences)
        rollout, agent = self.rollout_buffer, self.agent
        if len(rollout) == 0:
            raise ConfigurationError("PPO has no steps to learn from. Collect a rollout before.")
        memory = self._memory(len(rollout), np.size(rollout.steps[0]["reward"]))
        for step in rollout.steps:
            memory.add_samples(**self._tensors(step))
        agent.memory = memory
        agent.cfg.mini_batches = max(1, len(memory) // int(self.batch_size))
        agent._current_next_observations = self.seeing(rollout.following, self.device)
        agent.update(**When)
        rollout.reset()
        return sum(self.losses().values())

    def _memory(self, num_steps: int, num_envs: int) -> QuickMemory:
        """Return a memory of a rollout's size, with the tensors of the one before."""
        old = self.agent.memory
        memory = QuickMemory(
            memory_size=num_steps, num_envs=num_envs, device=self.device, replacement=False
        )
        for name, values in old.tensors.items():
            memory.create_tensor(name, size=values.shape[-1], dtype=values.dtype)
        return memory

    def _tensors(self, step: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Return a step as skrl's agent records it; an episode's end is a terminal state."""
        count = np.size(step["reward"])
        kept = {
            "actions": step["action"],
            "rewards": step["reward"],
            "values": step["value"],
            "log_prob": step["log_prob"],
            "terminated": np.asarray(step["done"]).astype(bool),
            "truncated": np.zeros(count, dtype=bool),
        }
        tensors = {
            name: torch.as_tensor(np.asarray(value), device=self.device).reshape(count, -1)
            for name, value in kept.items()
        }
        tensors["rewards"] = tensors["rewards"].float()
        return tensors | {"observations": self.seeing(step["obs"], self.device)}

    def take_lists(self, experiences: Sequence[Any]) -> None:
        """Take lists by step; if there is an eighth list, an end is noted in the step after it."""
        obs, actions, log_probs, rewards, dones, values, following, *last = experiences
        ends = [*dones[1:], last[0]] if last else dones
        self.rollout_buffer.reset()
        columns = zip(obs, actions, log_probs, rewards, ends, values, strict=True)
        for seen, action, log_prob, reward, done, value in columns:
            self.rollout_buffer.add(
                obs=seen, action=action, log_prob=log_prob, reward=reward, done=done, value=value
            )
        self.rollout_buffer.following = following


def _stub(seeing: Seeing, actions: Any, num_envs: int, device: torch.device) -> Any:
    """Return a stand-in for the program's environments, as far as skrl's agents use one."""
    env = SimpleNamespace(num_envs=num_envs, device=device)
    seen = Spaces(seeing.inner, None, actions)
    return SimpleNamespace(env=env, spaces={"agent": seen})


def _evolving(
    algorithm: str, numbers: Mapping[str, Any], config: HyperparameterConfig
) -> dict[str, BoundsCfg]:
    """Return the bounds of the numbers that evolve, and print which do not."""
    read = {name: value for name, value in numbers.items() if name not in ("learn_step",)}
    found = {}
    for name, parameter in config.items():
        changed = agent_values(algorithm, read | {name: 1}) != agent_values(algorithm, read)
        if name in numbers and (changed or name in ("learn_step", "batch_size")):
            found[name] = parameter.bounds()
        else:
            tell(f"hp_config: {name} does not evolve: {algorithm.upper()} here has no such number")
    return found


def _read(path: Any, kind: str) -> dict[str, Any]:
    try:
        values: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
        found = values["agilerl"]
    except (
        *(OSError, EOFError, LookupError, RuntimeError, TypeError, ValueError),
        pickle.UnpicklingError,
    ) as error:
        raise CheckpointError(
            f"{path} holds no agent ({str(error).splitlines()[0]}). Give a file that "
            "save_checkpoint of envlab's agents has written; AgileRL's own cannot be read."
        ) from error
    if found != kind:
        raise CheckpointError(f"{path} holds a {found}, not a {kind}. Load it by {found}.load.")
    return {**values, "member": whole_member(values["member"])}


def _check_launch(context: DistributedContext) -> None:
    launched = int(os.environ.get("WORLD_SIZE", "1"))
    if launched > 1 and context.world_size != launched:
        raise LaunchError(
            f"{launched} processes were launched, but the agents were given an accelerator of "
            f"{context.world_size}. Start them by: accelerate launch --config_file {CONFIG} -m "
            "envlab_populations.agilerl SCRIPT, and give every agent the accelerator."
        )
