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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any

from envlab.arguments import ArgumentParser
from envlab.config import Trust
from envlab.config.translator import NoEffect, Rows, Take, Translator, override
from envlab.distributed.ranks import launched_rank, read_ranks
from envlab.errors import ConfigurationError, did_you_mean
from envlab.training.inputs import check_task, trust_of
from envlab_populations.agilerl.file import read_agilerl
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
RECURRENT = (
    "members have no recurrent networks: set it to false, or train a recurrent PPO by envlab train "
    "ddppo"
)
PATHS = {
    **{"gamma": "discount_factor", "tau": "polyak", "lr": "learning_rate"},
    **{"clip_coef": "ratio_clip", "ent_coef": "entropy_loss_scale", "vf_coef": "value_loss_scale"},
    **{"max_grad_norm": "grad_norm_clip", "update_epochs": "learning_epochs"},
    **{"gae_lambda": "gae_lambda", "policy_freq": "policy_delay", "batch_size": "batch_size"},
}
"""AgileRL's names of numbers, and skrl's, where they mean the same."""
_BOUNDED = NoEffect("the task has its bounds")
_SHAPED = NoEffect("the task's bounds decide it")
ROWS: Rows = {
    "algorithm.action_std_init": NoEffect("the standard deviation of a policy begins at 1"),
    "algorithm.cudagraphs": NoEffect("members are not recorded as CUDA graphs"),
    "algorithm.max_action": _BOUNDED,
    "algorithm.min_action": _BOUNDED,
    "algorithm.policy_freq": NoEffect("the policy learns in every gradient step"),
    "algorithm.share_encoders": NoEffect("policy and critic have separate networks"),
    "algorithm.target_kl": NoEffect("a member makes all of its epochs"),
    "mutation.mutation_sd": Take("agent.mutations.mutation_sd", Translator.number),
    "mutation.probabilities.no_mut": Take("agent.mutations.no_mutation", Translator.number),
    "mutation.probabilities.arch_mut": Take("agent.mutations.architecture", Translator.number),
    "mutation.probabilities.params_mut": Take("agent.mutations.parameters", Translator.number),
    "mutation.probabilities.act_mut": Take("agent.mutations.activation", Translator.number),
    "mutation.probabilities.rl_hp_mut": Take("agent.mutations.rl_hp", Translator.number),
    "mutation.probabilities.new_layer": Take("agent.mutations.new_layer_prob", Translator.number),
    "mutation.rand_seed": Take("agent.seed", Translator.whole),
    "network.head_config.output_activation": _SHAPED,
    "network.mlp_output_activation": _SHAPED,
    "run.WANDB": NoEffect("add --logger=wandb"),
    "run.CHANNELS_LAST": NoEffect("images are turned as networks want them"),
    "run.DISCRETE_ACTIONS": NoEffect("the environment says that"),
    "run.DISTRIBUTED_TRAINING": NoEffect("add --nproc=N for N processes"),
    "selection_strategy.elitism": Take("agent.population.elitism", Translator.flag, True),
    "training.eval_steps": NoEffect("an evaluation plays whole episodes"),
    "training.learning_delay": NoEffect("the algorithm has no replay memory"),
    "training.target_score": Take(
        "agent.population.target_fitness",
        partial(Translator.number, least=-math.inf),
        note="training ends when the fittest member reaches it; AgileRL waits for the mean of all "
        "members' last 10 evaluations, and 100 generations",
    ),
}
"""What becomes of AgileRL's keys; a new one is a row here. A function below reads those that depend
on others, or on the number of environments."""


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
        for line in settings.lines():
            print(line, file=sys.stderr)
    return [*made, *words]  # of two overrides of the same value, the last one wins


def algorithm_of(settings: Translator) -> str:
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
    settings.refuse("algorithm.recurrent", RECURRENT)
    return "ddqn" if short == "dqn" and settings.flag("algorithm.double") else short


def task_of(settings: Translator, algorithm: str, trust: Trust) -> tuple[str, str]:
    """Return the task of a file's environment, and a line on the difference, if any.

    Raises:
        ConfigurationError: If the file names none, contains code, or names a module that is not
            trusted.
    """
    parts = ("entrypoint", "path", "wrappers", "config")
    own = [part for part in parts if settings.given(f"environment.{part}") not in (None, {})]
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


@dataclass(kw_only=True)
class Translation:
    """The translation of a file into words."""

    settings: Translator
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
    values: dict[str, Any] = field(default_factory=dict)
    """Our settings, by path."""
    _environment: str | None = None
    """PettingZoo's environment, which the task is given."""

    @classmethod
    def of(
        cls, settings: Translator, given: argparse.Namespace, overrides: Sequence[str]
    ) -> Translation:
        """Return the translation of a file under the flags and overrides given with it."""
        algorithm = (given.algorithm or algorithm_of(settings)).lower()
        size = settings.whole("training.pop_size") or 1
        size = given.population_size or _override(overrides, "agent.population.size") or size
        world = read_ranks(given.distributed, os.environ)["world_size"]
        num_own = max(1, size // world) if given.parallel == "members" else size
        envs = settings.whole("environment.num_envs") or NUM_ENVS
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
            self.settings.notes += [line] if line else []
        self.settings.take("environment")
        self.settings.take("algorithm.name")
        if self.given.algorithm is None:
            words.append(f"--algorithm={self.algorithm}")
        return words

    def training(self) -> list[str]:
        """Return all words of the file."""
        words, settings = self.identity(), self.settings
        settings.notes.insert(0, f"{self.size} members with {self.num_envs} environments each")
        if self._environment is not None:
            self.values["env.kwargs.environment"] = self._environment
        words += self._population()
        self.values |= settings.translated(ROWS)
        self._put("agent.network", network_values(settings))
        learning = self._ppo() if self.algorithm == "ppo" else self._off_policy()
        self._put("agent.agent", learning | self._numbers())
        removed = self._selection()
        return [*words, *starmap(override, self.values.items()), *removed]

    def _put(self, path: str, values: Mapping[str, Any]) -> None:
        self.values |= {f"{path}.{name}": value for name, value in values.items()}

    def _note(self, text: str) -> None:
        self.settings.notes.append(text)

    def _population(self) -> list[str]:
        """Translate the population, its tournaments and its budget; return the budget's flag."""
        settings = self.settings
        if not self.is_given:
            self.values["env.scene.num_envs"] = self.num_envs * self.num_own
        size = settings.whole("selection_strategy.tournament_size") or 2
        if size > self.size:
            self._note(f"tournament_size: {size} becomes {self.size}, the whole population")
        if settings.text("selection_strategy.strategy") not in (None, "tournament"):
            settings.take("selection_strategy")
            self._note("selection_strategy: members meet in one population, in tournaments")
        loops = settings.whole("training.eval_loop") or 1
        self.values |= {
            "agent.population.size": self.size,
            "agent.population.tournament_size": min(size, self.size),
            "agent.population.eval_episodes": loops * self.num_envs,
            "agent.mutations.mutate_elite": True,
        }
        episodes, epochs = (settings.whole(f"training.{n}") for n in ("episodes", "evo_epochs"))
        steps = settings.whole("training.max_steps") or 1_000_000
        evo_steps = settings.whole("training.evo_steps") or 10_000
        if episodes is not None:
            steps = episodes * EPISODE_STEPS * self.num_envs
            evo_steps = (epochs or 5) * EPISODE_STEPS * self.num_envs
            self._note(
                f"EPISODES, EVO_EPOCHS: an episode counts {EPISODE_STEPS} steps of each "
                "environment, as in AgileRL 0.1"
            )
        self._generation = max(1, evo_steps // self.num_envs)
        is_limited = self.given.max_frames is not None or self.given.max_iterations is not None
        return [] if is_limited else [f"--max_frames={steps * self.size}"]

    def _iterations(self, steps: int) -> None:
        """Let a generation last whole iterations of about ``steps`` steps of each environment."""
        count = max(1, round(self._generation / steps))
        self.values["agent.population.generation_iterations"] = count
        if count * steps != self._generation:
            self._note(
                f"evo_steps: a generation is {count * steps * self.num_envs:,} steps of each "
                f"member, {count} iterations"
            )

    def _ppo(self) -> dict[str, Any]:
        """Return the settings of rollouts and learning."""
        settings = self.settings
        step = settings.whole("algorithm.learn_step") or 2048
        if settings.whole("training.episodes") is not None:
            step = EPISODE_STEPS * self.num_envs
        self._rollouts = -(-step // self.num_envs)
        self._iterations(self._rollouts)
        values = {
            "rollouts": self._rollouts,
            "mini_batches": self._mini_batches(settings.whole("algorithm.batch_size") or 64),
            "observation_preprocessor": None,
            "value_preprocessor": None,
            "time_limit_bootstrap": False,
        }
        clip = settings.number("algorithm.clip_coef")
        return values if clip is None else values | {"value_clip": clip}

    def _mini_batches(self, batch_size: float) -> int:
        return max(1, int(self._rollouts * self.num_envs // max(batch_size, 1)))

    def _off_policy(self) -> dict[str, Any]:
        """Return the settings of exploration and learning; translate the memory."""
        settings = self.settings
        steps = _divisor_near(self._generation, STEPS_PER_ITERATION)
        self.values["agent.num_steps_per_env"] = steps
        self._iterations(steps)
        size = settings.whole("replay_buffer.max_size")
        if size:
            self.values["agent.memory.memory_size"] = size
        delay = settings.whole("training.learning_delay") or 0
        delay = max(delay, settings.whole("algorithm.batch_size") or 0)
        values = {"learning_starts": math.ceil(delay / (self.num_envs * self.size))}
        step = settings.whole("algorithm.learn_step")
        if step:
            values |= self._learn_every(step)
        if self.algorithm in ("dqn", "ddqn"):
            values |= self._dqn()
        if self.algorithm in NOISY:
            values |= self._noise()
        if self.algorithm in SEVERAL:
            values |= {"grad_norm_clip": 0.0}
        return values

    @property
    def _is_rare(self) -> bool:
        """Whether a DQN learns less often than every step of its environments."""
        step = self.settings.whole("algorithm.learn_step") or 1
        return step > self.num_envs and self.algorithm in ("dqn", "ddqn")

    @property
    def _has_critics(self) -> bool:
        """Whether a file gives critics a separate learning rate."""
        has_rate = self.settings.number("algorithm.lr_critic") is not None
        return has_rate and self.algorithm in ("sac", *NOISY)

    def _learn_every(self, step: int) -> dict[str, Any]:
        """Translate steps of single environments between two gradient steps."""
        if self._is_rare:
            return {"update_interval": step // self.num_envs, "gradient_steps": 1}
        if step > self.num_envs:
            self._note(
                f"learn_step: {step} becomes {self.num_envs}, a gradient step for each step of all "
                "environments of a member: skrl's agents cannot learn less often"
            )
        return {"gradient_steps": max(1, self.num_envs // step)}

    def _dqn(self) -> dict[str, Any]:
        """Return the exploration, and AgileRL's loss."""
        # Defaults of its loop: 2.9.1's, and 2.0's for the older layout, which alone has a run.
        ends = (0.01, 0.999) if self.settings.given("run") is None else (0.1, 0.995)
        start, end, decay = (
            self.settings.number(f"training.eps_{name}", default)
            for name, default in (("start", 1.0), ("end", ends[0]), ("decay", ends[1]))
        )
        formula = f"max({end:g}, {start:g} * {decay!r} ** timestep)"
        return {"exploration_scheduler": formula, "loss": "mse", "grad_norm_clip": 0.0}

    def _noise(self) -> dict[str, Any]:
        """Return the noise of actions."""
        part = self.settings.part("algorithm")
        sigma, theta = part.number("expl_noise", 0.1), part.number("theta", 0.15)
        dt = part.number("dt") or 0.01
        mean = part.number("mean_noise", 0.0, least=-math.inf)
        is_process = part.flag("O_U_noise", True)
        name, values = exploration_noise(sigma, mean, theta, dt, is_process)
        return {"exploration_noise": name, "exploration_noise_kwargs": values}

    def _numbers(self) -> dict[str, Any]:
        """Return the numbers that mean the same in both libraries."""
        part, known = self.settings.part("algorithm"), EvolutionCfg.of(self.algorithm).agent
        rate = part.number("lr") or part.number("lr_actor")
        found = {} if rate is None else {"learning_rate": rate}
        if self._has_critics:
            found["critic_learning_rate"] = part.number("lr_critic")
        for theirs, ours in PATHS.items():
            if ours in known and theirs != "lr":
                kind = Translator.whole if isinstance(known[ours], int) else Translator.number
                found |= part.translated({theirs: Take(ours, kind)})
        return found

    def _selection(self) -> list[str]:
        """Translate the hyper-parameters that evolve; return words that remove the others."""
        ours = "agent.mutations.rl_hp_selection"
        part = self.settings.part("mutation.rl_hp_selection")
        names = self.settings.names("mutation.rl_hp_selection")
        defaults = EvolutionCfg.of(self.algorithm).mutations.rl_hp_selection if names else ()
        found = {}
        for name in names:
            low, high = part.number(f"{name}.min"), part.number(f"{name}.max")
            shrink = part.number(f"{name}.shrink_factor") or 0.8
            grow = part.number(f"{name}.grow_factor") or 1.2
            if low is None or high is None:
                raise part.refusal(name, part.given(name), "must have min and max: add them")
            bounds = {"min": low, "max": high, "shrink": shrink, "grow": grow}
            key = self._evolving(name)
            if key is not None:
                found[key[0]] = self._inverse(name, bounds) if key[1] else self._own(name, bounds)
        self._put(ours, found)
        if names and not found:
            self.values["agent.mutations.rl_hp"] = 0.0
        return [f"~{ours}.{name}" for name in defaults if name not in found]

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
        reason = f"{self.algorithm.upper()} has no such number here"
        if name == "learn_step":
            reason = "rollouts are equally long for all members"
        self._note(f"rl_hp_selection.{name} does not evolve: {reason}")
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
            self._note(
                f"rl_hp_selection.learn_step: its maximum is {self.num_envs}, a gradient step for "
                "each step of all environments of a member"
            )
        return {"min": low, "max": high, **factors}


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
