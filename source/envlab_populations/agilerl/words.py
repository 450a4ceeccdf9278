"""From a configuration file of AgileRL's to the words of a command line: ``--agilerl FILE``.

So all that flags and overrides offer, and refuse, holds for such files too, and words on the
command line override the file. Meanings are those of AgileRL 2.9.1 (``agilerl/models``,
``agilerl/training``). AgileRL's members train one after another, each in all environments; here
they share them, so that a process has ``num_envs`` for each of its members.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envlab.arguments import ArgumentParser
from envlab.config import Trust
from envlab.distributed.ranks import launched_rank, read_ranks
from envlab.errors import ConfigurationError, did_you_mean
from envlab.training.inputs import check_task, trust_of
from envlab_populations.agilerl.file import Settings, read_agilerl
from envlab_populations.agilerl.file_network import network_values
from envlab_populations.crew import ENV_ID, MODULE, PACKAGES
from envlab_populations.evolution.cfg import NOISY, SEVERAL, EvolutionCfg
from envlab_populations.hogwild.environments import newer_version, read_heirs

NUM_ENVS = 16
"""Environments of a member if a file does not say (``GymEnvSpec``)."""
EPISODE_STEPS = 500
"""Steps of all environments in an episode of 0.1's loops, which ignore episodes' ends."""
STEPS_PER_ITERATION = 64
"""Approximate steps between two lines of metrics, for algorithms without rollouts."""
ALGORITHMS = ("dqn", "ddpg", "td3", "ppo", "maddpg", "matd3")
"""Algorithms of AgileRL's that populations train, in lower case."""
_LANGUAGE = (
    *("grpo", "gspo", "cispo", "dpo", "sft", "llmppo", "llmreinforce", "reinforcellm", "ppollm"),
    *("reinforce", "ilql", "bclm"),
)
REFUSED = {
    **dict.fromkeys(
        ("rainbowdqn", "rainbow"),
        "whose distributional, noisy networks do not evolve here. The nearest that does is double "
        "DQN: add --algorithm=ddqn",
    ),
    **dict.fromkeys(
        ("ippo", "mappo"),
        "which does not evolve here; of several agents, MADDPG and MATD3 do. Without evolution, "
        "see envlab train skrl --algorithm=IPPO",
    ),
    "cqn": "which learns from a data set, but members here learn from environments. Without the "
    "conservative loss it is double DQN: add --algorithm=ddqn",
    **dict.fromkeys(
        ("neuralucb", "neuralts"),
        "which learns contextual bandits, which envlab does not have. Use AgileRL for it",
    ),
    **dict.fromkeys(_LANGUAGE, "which tunes language models, which envlab does not. Use AgileRL"),
}
"""Algorithms of AgileRL's that populations do not train, in lower case, and why."""
_NO_EFFECT = {
    "algorithm.action_std_init": "the standard deviation of a policy begins at 1",
    "algorithm.cudagraphs": "members are not recorded as CUDA graphs",
    "algorithm.max_action": "the task has its bounds",
    "algorithm.min_action": "the task has its bounds",
    "algorithm.policy_freq": "the policy learns in every gradient step",
    "algorithm.share_encoders": "policy and critic have separate networks",
    "algorithm.target_kl": "a member makes all of its epochs",
    "network.head_config.output_activation": "the task's bounds decide it",
    "network.mlp_output_activation": "the task's bounds decide it",
    "training.eval_steps": "an evaluation plays whole episodes",
    "training.learning_delay": "the algorithm has no replay memory",
    "run.WANDB": "add --logger=wandb",
    "run.CHANNELS_LAST": "images are turned as networks want them",
    "run.DISCRETE_ACTIONS": "the environment says that",
    "run.DISTRIBUTED_TRAINING": "add --nproc=N for N processes",
}
_NOISE = {"expl_noise": 0.1, "mean_noise": 0.0, "theta": 0.15, "dt": 0.01}
"""AgileRL's own noise of actions."""
PATHS = {
    **{"gamma": "discount_factor", "tau": "polyak", "lr": "learning_rate"},
    **{"clip_coef": "ratio_clip", "ent_coef": "entropy_loss_scale", "vf_coef": "value_loss_scale"},
    **{"max_grad_norm": "grad_norm_clip", "update_epochs": "learning_epochs"},
    **{"gae_lambda": "gae_lambda", "policy_freq": "policy_delay", "batch_size": "batch_size"},
}
"""AgileRL's names of numbers, and skrl's, where they mean the same."""


def prepare(command: str, words: Sequence[str], num_nodes: int | None = None) -> list[str]:
    """Return the words of a command with those that an AgileRL file translates to.

    Args:
        command: ``train``, ``config``, ``play`` or ``export``.
        words: The words after the library; without ``--agilerl`` they are returned as they are.
        num_nodes: Ignored.

    Raises:
        ConfigurationError: If the file cannot be read, or needs what does not evolve here.
    """
    parser = ArgumentParser(add_help=False)
    for name in ("--agilerl", "--task", "--algorithm", "--parallel"):
        parser.add_argument(name)
    for name in ("--population_size", "--num_envs", "--global_num_envs"):
        parser.add_argument(name, type=int)
    for name in ("--max_frames", "--max_iterations"):
        parser.add_argument(name)
    parser.add_argument("--trust", action="append")
    parser.add_argument("--distributed", action="store_true")
    given, rest = parser.parse_known_args(words)
    if given.agilerl is None:
        return list(words)
    settings = read_agilerl(Path(given.agilerl))
    translation = Translation.of(settings, given, rest)
    if command not in ("train", "config"):
        return [*translation.identity(), *words]
    made = translation.training()
    if launched_rank() == 0:
        for line in translation.lines():
            print(line, file=sys.stderr)
    return [*made, *words]  # of two overrides of the same value, the last one wins


def algorithm_of(settings: Settings) -> str:
    """Return our name of a file's algorithm.

    Raises:
        ConfigurationError: If it does not evolve here.
    """
    name = settings.text("algorithm.name") or ""
    short = re.sub(r"[^a-z0-9]", "", name.lower())
    if short in REFUSED:
        raise ConfigurationError(f"{settings.file} trains {name}, {REFUSED[short]}.")
    if short not in ALGORITHMS:
        raise ConfigurationError(
            f"The algorithm in {settings.file} is {name!r}, but must be one of "
            f"{', '.join(map(str.upper, ALGORITHMS))}."
            f"{did_you_mean(name, [one.upper() for one in ALGORITHMS])}"
        )
    if settings.flag("algorithm.recurrent"):
        raise ConfigurationError(
            f"algorithm.recurrent is true in {settings.file}, but members have no recurrent "
            "networks. Set it to false, or train a recurrent PPO by envlab train ddppo."
        )
    return "ddqn" if short == "dqn" and settings.flag("algorithm.double") else short


def task_of(settings: Settings, algorithm: str, trust: Trust) -> tuple[str, str]:
    """Return the task of a file's environment, and a line on the difference, if any.

    Raises:
        ConfigurationError: If the file names none, contains code, or names a module that is not
            trusted.
    """
    own = [part for part in ("entrypoint", "path", "wrappers", "config") if _has(settings, part)]
    name = settings.text("environment.name")
    if own or name is None:
        problem = f"has environment.{own[0]}" if own else "names no environment"
        raise ConfigurationError(
            f"{settings.file} {problem}. Register the environment with Gymnasium, and name it by "
            "--task=gym:<id>, or module:<id> for a task of envlab's."
        )
    if algorithm in SEVERAL:
        if name.partition(".")[0] not in PACKAGES:
            trust.admit(name, name)
        return f"gym:{MODULE}:{ENV_ID}", (
            "environment.name: agents act by numbers, even if the environment also has choices"
        )
    heir = read_heirs().get(name) or newer_version(name)
    check_task(f"gym:{name}", trust)
    line = f"environment.name: {name} no longer exists; {heir} takes its place" if heir else ""
    return f"gym:{heir or name}", line


def _has(settings: Settings, part: str) -> bool:
    path = f"environment.{part}"
    return any(one == path or one.startswith(f"{path}.") for one in settings.unused())


@dataclass(kw_only=True)
class Translation:
    """The translation of a file into words."""

    settings: Settings
    given: argparse.Namespace
    """Flags given along with the file."""
    algorithm: str
    size: int
    """Members of the population."""
    num_envs: int
    """Environments of each member on a process that trains it."""
    num_own: int
    """Members that a process trains."""
    is_given: bool
    """Whether ``num_envs`` comes from the command line."""
    words: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    _environment: str | None = None
    """PettingZoo's environment, which the task is given."""

    @classmethod
    def of(
        cls, settings: Settings, given: argparse.Namespace, overrides: Sequence[str]
    ) -> Translation:
        """Return the translation of a file under the flags and overrides given with it."""
        algorithm = (given.algorithm or algorithm_of(settings)).lower()
        size = settings.count("training.pop_size") or 1
        size = given.population_size or _override(overrides, "agent.population.size") or size
        world = read_ranks(given.distributed, os.environ)["world_size"]
        num_own = max(1, size // world) if given.parallel == "members" else size
        envs = settings.count("environment.num_envs") or NUM_ENVS
        all_envs = given.num_envs or _override(overrides, "env.scene.num_envs")
        if given.global_num_envs:
            all_envs = given.global_num_envs // world
        return cls(
            settings=settings,
            given=given,
            algorithm=algorithm,
            size=size,
            num_envs=max(1, all_envs // num_own) if all_envs else envs,
            num_own=num_own,
            is_given=bool(all_envs),
        )

    def identity(self) -> list[str]:
        """Return the task and algorithm, unless flags set them."""
        words = []
        if self.given.task is None:
            trust = trust_of(self.given.trust)
            task, line = task_of(self.settings, self.algorithm, trust)
            words.append(f"--task={task}")
            if self.algorithm in SEVERAL:
                self._environment = self.settings.text("environment.name")
            self.notes += [line] if line else []
        self.settings.drop("environment")
        self.settings.drop("algorithm.name")
        if self.given.algorithm is None:
            words.append(f"--algorithm={self.algorithm}")
        return words

    def training(self) -> list[str]:
        """Return all words of the file."""
        words = self.identity()
        if self._environment is not None:
            self.put("env.kwargs.environment", self._environment)
        self._population()
        self._mutations()
        self._network()
        if self.algorithm == "ppo":
            self._ppo()
        else:
            self._off_policy()
        self._numbers()
        self._selection()
        self._unused()
        return [*words, *self.words]

    def lines(self) -> list[str]:
        """Return the differences from AgileRL, a line each."""
        head = f"[agilerl] {self.settings.file}: "
        return [
            f"{head}{self.size} members with {self.num_envs} environments each",
            *(head + note for note in self.notes),
        ]

    def put(self, path: str, value: Any, *, adds: bool = False) -> None:
        """Add an override."""
        self.words.append(f"{'++' if adds else ''}{path}={_plain(value)}")

    def note(self, text: str) -> None:
        """Add a line on a difference."""
        self.notes.append(text)

    def _population(self) -> None:
        """Translate the population, its tournaments and its budget."""
        settings = self.settings
        self.put("agent.population.size", self.size)
        if not self.is_given:
            self.put("env.scene.num_envs", self.num_envs * self.num_own)
        size = settings.count("selection_strategy.tournament_size") or 2
        if size > self.size:
            self.note(f"tournament_size: {size} becomes {self.size}, the whole population")
        self.put("agent.population.tournament_size", min(size, self.size))
        self.put("agent.population.elitism", settings.flag("selection_strategy.elitism", True))
        if settings.text("selection_strategy.strategy") not in (None, "tournament"):
            settings.drop("selection_strategy")
            self.note("selection_strategy: members meet in one population, in tournaments")
        loops = settings.count("training.eval_loop") or 1
        self.put("agent.population.eval_episodes", loops * self.num_envs)
        target = settings.number("training.target_score")
        if target is not None:
            self.put("agent.population.target_fitness", target)
            self.note(
                f"target_score: training ends when the fittest member reaches {target:g}; AgileRL "
                "waits for the mean of all members' last 10 evaluations, and 100 generations"
            )
        self._budget()

    def _budget(self) -> None:
        """Translate the steps of each member into frames of all."""
        settings = self.settings
        episodes, epochs = (settings.count(f"training.{n}") for n in ("episodes", "evo_epochs"))
        steps = settings.count("training.max_steps") or 1_000_000
        if episodes is not None:
            steps = episodes * EPISODE_STEPS * self.num_envs
            self.note(
                f"EPISODES, EVO_EPOCHS: an episode counts {EPISODE_STEPS} steps of each "
                "environment, as in AgileRL 0.1"
            )
        if self.given.max_frames is None and self.given.max_iterations is None:
            self.words.append(f"--max_frames={steps * self.size}")
        evo_steps = settings.count("training.evo_steps") or 10_000
        if episodes is not None:
            evo_steps = (epochs or 5) * EPISODE_STEPS * self.num_envs
        self._generation = max(1, evo_steps // self.num_envs)

    def _iterations(self, steps: int) -> None:
        """Let a generation last whole iterations of about ``steps`` steps of each environment."""
        count = max(1, round(self._generation / steps))
        self.put("agent.population.generation_iterations", count)
        if count * steps != self._generation:
            self.note(
                f"evo_steps: a generation is {count * steps * self.num_envs:,} steps of each "
                f"member, {count} iterations"
            )

    def _mutations(self) -> None:
        """Translate the odds of mutations."""
        names = {
            "no_mut": "no_mutation",
            "arch_mut": "architecture",
            "params_mut": "parameters",
            "act_mut": "activation",
            "rl_hp_mut": "rl_hp",
            "new_layer": "new_layer_prob",
        }
        for theirs, ours in names.items():
            value = self.settings.number(f"mutation.probabilities.{theirs}")
            if value is not None:
                self.put(f"agent.mutations.{ours}", value)
        deviation = self.settings.number("mutation.mutation_sd")
        if deviation:
            self.put("agent.mutations.mutation_sd", deviation)
        self.put("agent.mutations.mutate_elite", True)
        seed = self.settings.count("mutation.rand_seed")
        if seed is not None:
            self.put("agent.seed", seed)

    def _network(self) -> None:
        """Translate encoder, latent space and head into one row of layers."""
        values, notes = network_values(self.settings)
        for name, value in values.items():
            self.put(f"agent.network.{name}", value)
        self.notes += notes

    def _ppo(self) -> None:
        """Translate rollouts and learning."""
        settings = self.settings
        step = settings.count("algorithm.learn_step") or 2048
        if settings.number("training.episodes") is not None:
            step = EPISODE_STEPS * self.num_envs
        self._rollouts = -(-step // self.num_envs)
        self.put("agent.agent.rollouts", self._rollouts)
        size = settings.count("algorithm.batch_size") or 64
        self.put("agent.agent.mini_batches", self._mini_batches(size))
        clip = settings.number("algorithm.clip_coef")
        if clip is not None:
            self.put("agent.agent.value_clip", clip)
        self.put("agent.agent.observation_preprocessor", None)
        self.put("agent.agent.value_preprocessor", None)
        self.put("agent.agent.time_limit_bootstrap", False)
        self._iterations(self._rollouts)

    def _mini_batches(self, batch_size: float) -> int:
        return max(1, int(self._rollouts * self.num_envs // max(batch_size, 1)))

    def _off_policy(self) -> None:
        """Translate memory, exploration and the learning interval."""
        settings, members = self.settings, self.size
        steps = _divisor_near(self._generation, STEPS_PER_ITERATION)
        self.put("agent.num_steps_per_env", steps)
        self._iterations(steps)
        size = settings.count("replay_buffer.max_size")
        if size:
            self.put("agent.memory.memory_size", size)
        delay = settings.count("training.learning_delay") or 0
        delay = max(delay, settings.count("algorithm.batch_size") or 0)
        self.put("agent.agent.learning_starts", math.ceil(delay / (self.num_envs * members)))
        step = settings.count("algorithm.learn_step")
        if step:
            self._learn_every(step)
        if self.algorithm in ("dqn", "ddqn"):
            self._dqn()
        if self.algorithm in NOISY:
            self._noise()
        if self.algorithm in SEVERAL:
            self.put("agent.agent.grad_norm_clip", 0.0)

    @property
    def _is_rare(self) -> bool:
        """Whether a DQN learns less often than every step of its environments."""
        step = self.settings.count("algorithm.learn_step") or 1
        return step > self.num_envs and self.algorithm in ("dqn", "ddqn")

    @property
    def _has_critics(self) -> bool:
        """Whether a file gives critics a separate learning rate."""
        has_rate = self.settings.number("algorithm.lr_critic") is not None
        return has_rate and self.algorithm in ("sac", *NOISY)

    def _learn_every(self, step: int) -> None:
        """Translate steps of single environments between two gradient steps."""
        if self._is_rare:
            self.put("agent.agent.update_interval", step // self.num_envs)
            self.put("agent.agent.gradient_steps", 1)
            return
        if step > self.num_envs:
            self.note(
                f"learn_step: {step} becomes {self.num_envs}, a gradient step for each step of all "
                "environments of a member: skrl's agents cannot learn less often"
            )
        self.put("agent.agent.gradient_steps", max(1, self.num_envs // step))

    def _dqn(self) -> None:
        """Translate the exploration, and take AgileRL's loss."""
        settings = self.settings
        start, end, decay = (
            settings.number(f"training.eps_{name}") for name in ("start", "end", "decay")
        )
        # Defaults of its loop: 2.9.1's, and 2.0's for the older layout.
        ends = (0.01, 0.999) if settings.is_manifest else (0.1, 0.995)
        start, end, decay = (
            default if value is None else value
            for value, default in ((start, 1.0), (end, ends[0]), (decay, ends[1]))
        )
        formula = f"max({end:g}, {start:g} * {decay!r} ** timestep)"
        self.put("agent.agent.exploration_scheduler", f"'{formula}'")
        self.put("agent.agent.loss", "mse")
        self.put("agent.agent.grad_norm_clip", 0.0)

    def _noise(self) -> None:
        """Translate the noise of actions."""
        settings = self.settings
        sigma, mean, theta, dt = (
            default if (value := settings.number(f"algorithm.{name}")) is None else value
            for name, default in _NOISE.items()
        )
        is_process = settings.flag("algorithm.O_U_noise", True)
        name, values = exploration_noise(sigma, mean, theta, dt, is_process)
        self.put("agent.agent.exploration_noise", name)
        self.put("agent.agent.exploration_noise_kwargs", values, adds=True)

    def _numbers(self) -> None:
        """Translate the numbers that mean the same in both libraries."""
        known = EvolutionCfg.of(self.algorithm).agent
        rate = self.settings.number("algorithm.lr")
        rate = rate or self.settings.number("algorithm.lr_actor")
        if rate is not None:
            self.put("agent.agent.learning_rate", rate)
        if self._has_critics:
            critic = self.settings.number("algorithm.lr_critic")
            self.put("agent.agent.critic_learning_rate", critic)
        for theirs, ours in PATHS.items():
            is_read = ours in known and ours != "learning_rate"
            value = self.settings.number(f"algorithm.{theirs}") if is_read else None
            if value is not None:
                whole = isinstance(known[ours], int)
                self.put(f"agent.agent.{ours}", int(value) if whole else value)

    def _selection(self) -> None:
        """Translate the hyper-parameters that evolve, and their bounds."""
        path, ours = "mutation.rl_hp_selection", "agent.mutations.rl_hp_selection"
        defaults = EvolutionCfg.of(self.algorithm).mutations.rl_hp_selection
        names = self.settings.names_below(path)
        if not names:
            return
        found = {}
        for name in names:
            keys = ("min", "max", "shrink_factor", "grow_factor")
            low, high, shrink, grow = (self.settings.number(f"{path}.{name}.{k}") for k in keys)
            if low is None or high is None:
                raise ConfigurationError(
                    f"{path}.{name} in {self.settings.file} must have min and max. Add them."
                )
            bounds = {"min": low, "max": high, "shrink": shrink or 0.8, "grow": grow or 1.2}
            key = self._evolving(name)
            if key is None:
                continue
            found[key[0]] = self._inverse(name, bounds) if key[1] else self._own(name, bounds)
        for name, values in found.items():
            self.put(f"{ours}.{name}", values, adds=True)
        self.words += [f"~{ours}.{name}" for name in defaults if name not in found]
        if not found:
            self.put("agent.mutations.rl_hp", 0.0)

    def _evolving(self, name: str) -> tuple[str, bool] | None:
        """Return our name of a hyper-parameter, and whether it grows when AgileRL's shrinks."""
        if name in ("lr", "lr_actor"):
            return "lr", False
        if name == "lr_critic" and self._has_critics:
            return name, False
        if name == "batch_size":
            return ("mini_batches", True) if self.algorithm == "ppo" else (name, False)
        if name == "learn_step" and self.algorithm != "ppo":
            return (name, False) if self._is_rare else ("gradient_steps", True)
        ours = PATHS.get(name)
        if ours is not None and ours in EvolutionCfg.of(self.algorithm).agent:
            return ours, False
        reason = {
            "learn_step": "rollouts are equally long for all members",
        }.get(name, f"{self.algorithm.upper()} has no such number here")
        self.note(f"rl_hp_selection.{name} does not evolve: {reason}")
        return None

    def _own(self, name: str, bounds: dict[str, float]) -> dict[str, float]:
        """Return bounds in our units."""
        if name != "learn_step":
            return bounds
        ends = {end: max(1, int(bounds[end] // self.num_envs)) for end in ("min", "max")}
        return bounds | ends

    def _inverse(self, name: str, bounds: dict[str, float]) -> dict[str, float]:
        """Return the bounds of the divisor of environments, or of a rollout."""
        low, high = (
            self._mini_batches(bounds[end])
            if name == "batch_size"
            else max(1, int(self.num_envs // max(bounds[end], 1)))
            for end in ("max", "min")
        )
        factors = {"shrink": 1 / bounds["grow"], "grow": 1 / (bounds["shrink"] or 1.0)}
        if name == "learn_step" and bounds["max"] > self.num_envs:
            self.note(
                f"rl_hp_selection.learn_step: its maximum is {self.num_envs}, a gradient step for "
                "each step of all environments of a member"
            )
        return {"min": low, "max": high, **factors}

    def _unused(self) -> None:
        """Note settings without effect, and why."""
        for name in self.settings.unused():
            if self.settings.is_off(name):
                continue
            reason = _NO_EFFECT.get(name, f"{self.algorithm.upper()} here has nothing like it")
            self.note(f"{name} has no effect: {reason}")


def exploration_noise(
    sigma: float, mean: float, theta: float, dt: float, is_process: bool
) -> tuple[str, dict[str, float]]:
    """Return skrl's noise of actions for AgileRL's numbers, which count in half ranges of actions.

    AgileRL's step of an Ornstein-Uhlenbeck process is ``x += theta (mean - x) dt + sigma sqrt(dt)
    N(0, 1)``, skrl's ``x += -theta x + sigma N(mean, std)``.
    """
    if not is_process or sigma <= 0:
        return "GaussianNoise", {"mean": mean, "std": sigma}
    share = sigma * math.sqrt(dt)
    values = {"theta": theta * dt, "sigma": share, "base_scale": 1.0}
    return "OrnsteinUhlenbeckNoise", values | {"mean": theta * mean * dt / share, "std": 1.0}


def _override(overrides: Sequence[str], path: str) -> int | None:
    """Return a path's whole number in the overrides, or None."""
    values = [word.partition("=")[2] for word in overrides if word.startswith(f"{path}=")]
    return int(values[-1]) if values and values[-1].isdigit() else None


def _divisor_near(total: int, wanted: int) -> int:
    """Return the divisor nearest to a number, or the number, if none is within a factor of two."""
    near = [n for n in range(wanted // 2, 2 * wanted + 1) if total % n == 0]
    return min(near, key=lambda n: abs(n - wanted)) if near else min(total, wanted)


def _plain(value: Any) -> str:
    """Return a value in Hydra's grammar."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "{" + ",".join(f"{name}:{_plain(part)}" for name, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_plain, value)) + "]"
    return str(value)
