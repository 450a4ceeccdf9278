"""AgileRL's loops over a population: its ``train_*`` functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from envlab.errors import ConfigurationError
from envlab_populations.agilerl.agent import DDPG, DQN, PPO, Agent
from envlab_populations.agilerl.crew import MADDPG
from envlab_populations.agilerl.environments import default_progress_bar
from envlab_populations.agilerl.memory import ReplayBuffer, Transition
from envlab_populations.agilerl.parallel import summed
from envlab_populations.agilerl.rollouts import collect_rollouts, note_scores
from envlab_populations.agilerl.settings import tell
from envlab_populations.population.member import Member

Trained = tuple[list[Agent], list[list[float]]]


def train_off_policy(
    env: Any,
    env_name: str,
    algo: str,
    pop: list[Agent],
    memory: ReplayBuffer,
    *_: Any,
    evo_steps: int = 10_000,
    learning_delay: int = 0,
    eps_start: float = 1.0,
    eps_end: float = 0.01,
    eps_decay: float = 0.999,
    **rest: Any,
) -> Trained:
    """Train agents that share a memory; return them, and their fitness by generation.

    Args:
        env: The environments, in which one agent after the other acts.
        env_name: Ignored.
        algo: Ignored: agents know theirs.
        pop: The agents.
        memory: The memory that all write into and learn from.
        evo_steps: Steps of each agent between two tournaments.
        learning_delay: Transitions that the memory must hold before learning starts.
        eps_start: The first share of random choices, for DQN.
        eps_end: The smallest share.
        eps_decay: Factor of the share in each step.
        **rest: See :func:`_train`.

    Raises:
        ConfigurationError: If agents are on-policy, or something else does not fit.
    """
    exploration = [eps_start]

    def turn(agent: Agent) -> None:
        if isinstance(agent, PPO):
            raise ConfigurationError("PPO learns on-policy. Train it by train_on_policy.")
        begin = exploration[0]
        exploration[0] = _act_and_learn(
            agent, env, memory, evo_steps, learning_delay, (begin, eps_end, eps_decay)
        )
        turns.append(exploration[0])
        exploration[0] = begin if len(turns) % len(pop) else turns[-1]

    turns: list[float] = []
    return _train(pop, turn, env, evo_steps=evo_steps, **rest)


def train_multi_agent_off_policy(*arguments: Any, **named: Any) -> Trained:
    """Train crews; see :func:`train_off_policy`.

    Raises:
        ConfigurationError: If an agent is not a crew.
    """
    named.pop("sum_scores", None)  # returns are of all agents together
    pop = named.get("pop", arguments[3] if len(arguments) > 3 else [])
    if not all(isinstance(agent, MADDPG) for agent in pop):
        raise ConfigurationError(
            "train_multi_agent_off_policy trains MADDPG and MATD3. Use train_off_policy for others."
        )
    return train_off_policy(*arguments, **named)


def _act_and_learn(
    agent: Any,
    env: Any,
    memory: ReplayBuffer,
    evo_steps: int,
    learning_delay: int,
    exploration: tuple[float, float, float],
) -> float:
    """Have an agent act in all environments for a turn and learn; return the last epsilon."""
    epsilon, least, decay = exploration
    count = env.num_envs
    obs, info = env.reset()
    scores = np.zeros(count)
    for step in range(evo_steps // count):
        if isinstance(agent, DQN):
            action = agent.get_action(obs, epsilon, action_mask=info.get("action_mask"))
            epsilon = max(least, epsilon * decay)
        else:
            action = agent.get_action(obs)
            action = action[0] if isinstance(action, tuple) else action
        following, reward, terminated, truncated, info = env.step(action)
        memory.add(Transition(obs, action, reward, following, terminated))
        if isinstance(reward, Mapping):
            ends = env.ended(terminated, truncated)
            ended = note_scores(agent, scores, summed(reward), ends)
        else:
            ended = note_scores(agent, scores, reward, np.logical_or(terminated, truncated))
        if isinstance(agent, DDPG):
            agent.reset_action_noise(ended)
        if len(memory) >= agent.batch_size and len(memory) > learning_delay:
            for _ in range(_updates(step, agent.learn_step, count)):
                agent.learn(memory.sample(agent.batch_size))
        obs = following
    agent.steps += evo_steps // count * count
    return epsilon


def _updates(step: int, learn_step: int, num_envs: int) -> int:
    """Return the number of gradient steps after a step of all environments."""
    if learn_step > num_envs:
        return int(step % (learn_step // num_envs) == 0)
    return num_envs // int(learn_step)


def train_on_policy(
    env: Any,
    env_name: str,
    algo: str,
    pop: list[Agent],
    *_: Any,
    evo_steps: int = 10_000,
    **rest: Any,
) -> Trained:
    """Train PPO's agents; return them, and their fitness by generation. See :func:`_train`."""

    def turn(agent: Agent) -> None:
        if not isinstance(agent, PPO):
            raise ConfigurationError(f"{agent.algo} learns off-policy: use train_off_policy.")
        last: tuple[Any, ...] = (None, None, None, None)
        for _ in range(-(evo_steps // -int(agent.learn_step))):
            _, *last = collect_rollouts(agent, env, None, *last)  # type: ignore[assignment]
            agent.steps += len(agent.rollout_buffer) * env.num_envs
            agent.learn()

    return _train(pop, turn, env, evo_steps=evo_steps, **rest)


def train_offline(
    env: Any,
    env_name: str,
    dataset: Any,
    algo: str,
    pop: list[Agent],
    memory: ReplayBuffer,
    *_: Any,
    evo_steps: int = 10_000,
    **rest: Any,
) -> Trained:
    """Train agents from a data set alone; return them, and their fitness by generation.

    Args:
        env: The environment in which fitness is measured.
        env_name: Ignored.
        dataset: ``observations``, ``actions``, ``rewards`` and ``terminals`` by step.
        algo: Ignored.
        pop: The agents.
        memory: The memory that the data set is read into.
        evo_steps: Gradient steps of each agent between two tournaments.
        **rest: See :func:`_train`.
    """
    count = len(dataset["rewards"]) - 1
    memory.add(
        Transition(
            np.asarray(dataset["observations"][:count]),
            np.asarray(dataset["actions"][:count]),
            np.asarray(dataset["rewards"][:count]),
            np.asarray(dataset["observations"][1 : count + 1]),
            np.asarray(dataset["terminals"][:count]).astype(bool),
        )
    )

    def turn(agent: Any) -> None:
        for _ in range(evo_steps):
            agent.learn(memory.sample(agent.batch_size))
        agent.steps += evo_steps

    return _train(pop, turn, env, evo_steps=evo_steps, **rest)


def _train(
    pop: list[Agent],
    turn: Callable[[Agent], None],
    env: Any,
    *,
    evo_steps: int,
    max_steps: int = 1_000_000,
    eval_steps: int | None = None,
    eval_loop: int = 1,
    target: float | None = None,
    selection_strategy: Any = None,
    tournament: Any = None,
    mutation: Any = None,
    checkpoint: int | None = None,
    checkpoint_path: str | None = None,
    save_elite: bool = False,
    elite_path: str | None = None,
    wb: bool = False,
    accelerator: Any = None,
    verbose: bool = True,
    **rest: Any,
) -> Trained:
    """Train agents one after another, measure and evolve them, until an agent has made its steps.

    As in AgileRL, training ends early when the mean of all agents' last ten evaluations reaches
    the target after a hundred generations.

    Raises:
        ConfigurationError: For an argument of another release, or one for Rainbow.
    """
    _check_arguments(rest)
    if wb:
        tell("wb has no effect: results are printed, and not sent to Weights & Biases")
    selection = selection_strategy or tournament
    bar, fitnesses, saved = default_progress_bar(max_steps), [], 0
    if accelerator is None and mutation is not None:
        pop = mutation.mutation(pop, pre_training_mut=True)
    while all(agent.steps < max_steps for agent in pop):
        for agent in pop:
            agent.set_training_mode(True)
            turn(agent)
            bar.update(evo_steps // len(pop))
        fitnesses.append([agent.test(env, max_steps=eval_steps, loop=eval_loop) for agent in pop])
        if verbose:
            bar.write(report(pop))
        recent = [float(np.mean(agent.fitness[-10:])) for agent in pop]
        if target is not None and len(fitnesses) >= 100 and min(recent) >= target:
            break
        if selection is not None and mutation is not None:
            pop = evolved(pop, selection, mutation)
        if checkpoint is not None and int(pop[0].steps) // checkpoint > saved:
            saved = int(pop[0].steps) // checkpoint
            _save(pop, checkpoint_path or "checkpoint")
    if save_elite:
        best = max(pop, key=lambda agent: agent.fitness[-1] if agent.fitness else -np.inf)
        best.save_checkpoint(elite_path or f"elite_{best.algo}.pt")
    bar.close()
    return pop, fitnesses


_SILENT = (
    *("INIT_HP", "MUT_P", "init_hp", "mut_p", "swap_channels", "overwrite_checkpoints"),
    *("tensorboard", "tensorboard_log_dir", "wandb_api_key", "wandb_kwargs"),
)
"""Arguments without influence on learning."""


def _check_arguments(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if name in _SILENT or value in (None, False):
            continue
        raise ConfigurationError(
            f"{name}={value!r} is not among what envlab's train_off_policy, train_on_policy and "
            "train_offline take: they are those of AgileRL 2, without Rainbow's memories. Leave "
            "it out."
        )


def report(pop: Sequence[Agent]) -> str:
    """Return a line on each agent: mutation, architecture, steps and fitness."""
    lines = [
        f"{agent.index:>4}  {agent.mut:<24}  {agent.member.genes.architecture!s:<20}  "
        f"steps {agent.steps}  fitness {agent.fitness[-1]:.2f}"
        for agent in pop
    ]
    return "\n".join(lines)


def evolved(pop: list[Agent], selection: Any, mutation: Any) -> list[Agent]:
    """Return the next generation: rank 0 decides and mutates, and the others follow."""
    context = pop[0].member.nursery.context
    if context.rank == 0:
        pop = mutation.mutation(selection.select(pop)[1])
    if not context.is_distributed:
        return pop
    states = context.broadcast([agent.member.whole() for agent in pop])
    for agent, state in zip(pop, states, strict=True):
        agent.member = Member.of(agent.member.nursery, state, state)
    return pop


def _save(pop: Sequence[Agent], path: str) -> None:
    stem = path.removesuffix(".pt")
    for place, agent in enumerate(pop):
        agent.save_checkpoint(Path(f"{stem}_{place}_{agent.steps}.pt"))
