"""fast_sac's gradient step against its networks' bare passes, and holosoma's, on one thread.

    python scripts/benchmarks/gradient_step.py [--task ID] [--repeats 20] [AGENT OVERRIDES...]
    python scripts/benchmarks/gradient_step.py --holosoma [--num_envs 4096] [--updates 8]

A gradient step is all of an update: noise, targets, losses, backward passes, optimizers and the
target critics. The bare passes are those of the same networks on the same batch: the policy and the
target critics forward, the critics forward and backward, and at each update of the policy, the
policy and the critics forward and backward; once with their targets and losses, and
once without.

With ``--holosoma``, a step of training without its physics is timed: the policy acts, the replay
memory is written and read, and updates follow, on random data, with the sizes and settings of
holosoma's FastSAC. It needs ``pip install --no-deps holosoma``, loguru and tyro. Both take turns;
CPU time is measured.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from envlab.config import compose, merge
from envlab.distributed.context import DistributedContext
from envlab.distributed.program import guarded
from envlab.fast_sac.cfg import FastSacCfg
from envlab.fast_sac.learner import FastSacLearner
from envlab.fast_sac.objective import critic_loss, policy_loss, target_values
from envlab.fast_sac.replay import Batch
from envlab.registry import get_task, load_env_cfg

NUM_STEPS = 16
"""Steps that the replay memories hold of each environment: 1,024 as FastSAC has take 8 GB."""
HOLOSOMA: dict[str, dict[str, Any]] = {
    "actor": {"hidden_dims": [512, 256, 128]},
    "critic": {"hidden_dims": [768, 384, 192], "num_atoms": 101},
    "algorithm": {"batch_size": 8192, "policy_frequency": 4, "q_reduction": "mean"},
}
"""The sizes of holosoma 0.0.3 for the G1 with 29 joints (``config_values/algo.py``)."""


def main(arguments: Sequence[str]) -> int:
    """Print one table; return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="Isaac-Ant-v0", metavar="ID")
    parser.add_argument("--repeats", type=int, default=20, metavar="N")
    parser.add_argument("--holosoma", action="store_true", help="compare with it")
    parser.add_argument("--num_envs", type=int, default=4096, metavar="N", help="with --holosoma")
    parser.add_argument("--updates", type=int, default=8, metavar="N", help="likewise")
    flags, words = parser.parse_known_args(arguments)
    torch.set_num_threads(1)
    if flags.holosoma:
        beside_holosoma(flags)
        return 0
    cfg = compose({"agent": FastSacCfg()}, words)["agent"]
    beside_bare_passes(learner_of(flags.task, 2, cfg), flags.repeats)
    return 0


def learner_of(task_id: str, num_envs: int, cfg: FastSacCfg) -> FastSacLearner:
    """Return a learner whose environments are never stepped."""
    task = get_task(task_id)
    env_cfg = merge(load_env_cfg(task), {"scene": {"num_envs": num_envs}, "seed": 1}, "env")
    env = task.make(env_cfg, context=DistributedContext.single("cpu"))
    return FastSacLearner(env, cfg, env.context)


def beside_bare_passes(learner: FastSacLearner, repeats: int) -> None:
    """Time updates and their bare passes alternately."""
    algorithm = learner.cfg.algorithm
    batch = random_batch(learner, algorithm.batch_size)
    frequency = algorithm.policy_frequency

    def step() -> None:
        for _ in range(frequency):
            learner.update(batch)
        learner.take_losses()

    def with_losses() -> None:
        for _ in range(frequency):
            critic_passes(learner, batch, has_loss=True)
        policy_passes(learner, batch, has_loss=True)

    def bare() -> None:
        for _ in range(frequency):
            critic_passes(learner, batch, has_loss=False)
        policy_passes(learner, batch, has_loss=False)

    whole, losses, passes = in_turns((step, with_losses, bare), repeats)
    print("| batch | gradient step | passes and losses | ratio | passes alone | ratio |")
    print("|---|---|---|---|---|---|")
    cells = [str(algorithm.batch_size), f"{1e3 * statistics.median(whole) / frequency:.2f} ms"]
    for parts in (losses, passes):
        cells.append(f"{1e3 * statistics.median(parts) / frequency:.2f} ms")
        ratio = statistics.median(a / b for a, b in zip(whole, parts, strict=True))
        cells.append(f"{ratio:.2f}")
    print(f"| {' | '.join(cells)} |")


def random_batch(learner: FastSacLearner, size: int) -> Batch:
    """Return random transitions."""
    sizes = {name: scaler.shift.numel() for name, scaler in learner.scalers.items()}
    obs, after = torch.randn(2, size, sizes["obs"])
    critic_obs, critic_after = torch.randn(2, size, sizes.get("critic_obs", sizes["obs"]))
    actions = torch.rand(size, learner.half_width.numel()) * 2.0 - 1.0
    rewards, discounts = torch.randn(size), torch.full((size,), 0.97)
    return Batch(obs, critic_obs, actions, rewards, discounts, after, critic_after)


def critic_passes(learner: FastSacLearner, batch: Batch, *, has_loss: bool) -> None:
    """Run the passes of an update of the critics."""
    target, critics = learner.target, learner.bare_critics
    with torch.no_grad():
        actions, _ = learner.actor(batch.next_obs)
        if has_loss:
            rewards, discounts, obs = batch.rewards, batch.discounts, batch.next_critic_obs
            wanted, _ = target_values(target, rewards, discounts, obs, actions, is_least=True)
        else:
            wanted = target.judge(batch.next_critic_obs, actions)
    judged = critics.judge(batch.critic_obs, batch.actions)
    learner.optimizers["critic"].zero_grad()
    if has_loss:
        critic_loss(judged, wanted).backward()
    else:
        judged.backward(wanted)


def policy_passes(learner: FastSacLearner, batch: Batch, *, has_loss: bool) -> None:
    """Run the passes of an update of the policy."""
    critics = learner.bare_critics
    actions, log_probs = learner.actor(batch.obs)
    critics.requires_grad_(False)
    learner.optimizers["actor"].zero_grad()
    if has_loss:
        temperature = critics.log_temperature.exp()
        obs = batch.critic_obs
        policy_loss(critics, obs, actions, log_probs, temperature, is_least=True).backward()
    else:
        judged = critics.judge(batch.critic_obs, actions)
        judged.backward(judged.detach())
    critics.requires_grad_(True)


def beside_holosoma(flags: argparse.Namespace) -> None:
    """Time a step of training alternately with holosoma's."""
    settings = HOLOSOMA | {"replay": {"size": NUM_STEPS * flags.num_envs}}
    settings["algorithm"] = {**HOLOSOMA["algorithm"], "updates_per_step": flags.updates}
    cfg = merge(FastSacCfg(), settings, "agent")
    learner = learner_of("Mjlab-Velocity-Flat-Unitree-G1", flags.num_envs, cfg)
    sizes = {name: scaler.shift.numel() for name, scaler in learner.scalers.items()}
    num_obs, num_actions = sizes["obs"], learner.half_width.numel()
    num_critic_obs = sizes.get("critic_obs", num_obs)
    agent = holosoma_agent(flags.num_envs, num_obs, num_critic_obs, num_actions, flags.updates)
    obs, after = torch.randn(2, flags.num_envs, num_obs)
    critic_obs, critic_after = torch.randn(2, flags.num_envs, num_critic_obs)
    rewards, none = torch.randn(flags.num_envs), torch.zeros(flags.num_envs, dtype=torch.bool)

    def ours() -> None:
        with torch.no_grad():
            actions, _ = learner.actor(learner.scalers["obs"](obs))
        before = {"obs": obs, "critic_obs": critic_obs}
        following = {"obs": after, "critic_obs": critic_after}
        kept = [{name: seen[name] for name in sizes} for seen in (before, following)]
        learner.replay.add(kept[0], actions, rewards, none, none, kept[1])
        learner.learn()
        learner.take_losses()

    def theirs() -> None:
        from tensordict import TensorDict

        with torch.no_grad():
            actions = agent.policy(agent.obs_normalizer(obs))
        following = {
            "observations": after,
            "rewards": rewards,
            "truncations": none.long(),
            "dones": none.long(),
            "critic_observations": critic_after,
        }
        taken = {
            "observations": obs,
            "actions": actions,
            "critic_observations": critic_obs,
            "next": following,
        }
        agent.rb.extend(TensorDict(taken, batch_size=(flags.num_envs,)))
        per_env = max(agent.config.batch_size // flags.num_envs, 1)
        batches = agent._sample_and_prepare_batches(
            per_env, flags.updates, agent.obs_normalizer, agent.critic_obs_normalizer
        )
        for number, data in enumerate(batches):
            agent._update_main(data)
            if number % agent.config.policy_frequency == 1:
                agent._update_pol(data)
            with torch.no_grad():
                target = [one.data for one in agent.qnet_target.parameters()]
                torch._foreach_mul_(target, 1.0 - agent.config.tau)
                source = [one.data for one in agent.qnet.parameters()]
                torch._foreach_add_(target, source, alpha=agent.config.tau)

    mine, other = in_turns((ours, theirs), flags.repeats)
    ratio = [b / a for a, b in zip(mine, other, strict=True)]
    print(f"{flags.num_envs} environments, {flags.updates} updates of 8,192 transitions a step\n")
    print("| | frames per CPU second |\n|---|---|")
    for name, seconds in (("fast_sac", mine), ("holosoma", other)):
        print(f"| {name} | {flags.num_envs / statistics.median(seconds):,.0f} |")
    print(
        f"\nratio {statistics.median(ratio):.2f} ({min(ratio):.2f} to {max(ratio):.2f}), "
        f"{len(ratio)} turns"
    )


def holosoma_agent(
    num_envs: int, num_obs: int, num_critic_obs: int, num_actions: int, updates: int
) -> Any:
    """Return holosoma's agent with its settings for a G1, without a simulator."""
    agents = importlib.import_module("holosoma.agents.fast_sac.fast_sac_agent")
    configs = importlib.import_module("holosoma.config_types.algo")
    agent = object.__new__(agents.FastSACAgent)
    observations = SimpleNamespace(
        get_obs_dims=lambda: {"actor_obs": num_obs, "critic_obs": num_critic_obs},
        cfg=SimpleNamespace(groups={}),
    )
    agent.env = SimpleNamespace(
        num_envs=num_envs,
        observation_manager=observations,
        robot_config=SimpleNamespace(actions_dim=num_actions),
        _action_boundaries=torch.ones(num_actions),
    )
    # On a CPU, without compilation and bfloat16, like ours.
    agent.config = configs.FastSACConfig(num_updates=updates, amp=False, compile=False)
    agent.device, agent.is_multi_gpu, agent.gpu_world_size = "cpu", False, 1
    agent.setup()
    return agent


def in_turns(functions: Sequence[Callable[[], None]], repeats: int) -> list[list[float]]:
    """Return the CPU seconds of each, without the first turn."""
    found: list[list[float]] = [[] for _ in functions]
    for turn in range(repeats + 1):
        for function, seconds in zip(functions, found, strict=True):
            start = time.process_time()
            function()
            if turn:
                seconds.append(time.process_time() - start)
    return found


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:]))
