"""Cost of asynchronous SAC's gradient step, and speed-up of sessions that share networks.

``step`` compares CPU time of skrl's own agent and of a session's with the bare forward and backward
passes of the same networks; ``sessions`` compares frames per second of whole trials. Measurements
of the variants alternate, so that other work on the machine affects all of them equally::

    python scripts/benchmarks/hogwild.py step
    python scripts/benchmarks/hogwild.py sessions
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tabulate import tabulate
from torch.nn import functional

from envlab.arguments import ArgumentParser
from envlab.distributed.context import DistributedContext
from envlab.distributed.interrupt import interruptible
from envlab.distributed.program import guarded
from envlab.distributed.timeouts import DEFAULT_TIMEOUT_S
from envlab.run.records import Records
from envlab.skrl.agents import agent_class, make_agent
from envlab.skrl.env import Spaces
from envlab.training.plan import settle
from envlab.training.preparation import make_env
from envlab_populations.hogwild.agents import make_session_agent
from envlab_populations.hogwild.cfg import HogwildCfg
from envlab_populations.hogwild.networks import make_networks
from envlab_populations.hogwild.preparation import Options
from envlab_populations.hogwild.session import plan_session
from envlab_populations.hogwild.sharing import Shared
from envlab_populations.hogwild.spec import make_spec
from envlab_populations.hogwild.translation import Plan, make_plan
from envlab_populations.hogwild.trial import run_trial

BATCH = 256
SESSIONS = {  # name: distributed, sessions
    "1 session, independent": (False, 1),
    "1 session, shared": ("shared", 1),
    "2 sessions, shared": ("shared", 2),
}


def main() -> int:
    """Measure, print a table, and return 0."""
    parser = ArgumentParser(prog="hogwild", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("part", choices=("step", "sessions"))
    parser.add_argument("--env", default="HalfCheetah-v5", help="of Gymnasium (%(default)s)")
    parser.add_argument("--rounds", type=int, default=12, help="turns (default: %(default)s)")
    parser.add_argument(
        "--steps", type=int, default=12, help="gradient steps of a turn (default: %(default)s)"
    )
    parser.add_argument(
        "--frames", type=int, default=8000, help="of a session in a turn (default: %(default)s)"
    )
    flags = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("envlab").setLevel(logging.ERROR)
    if flags.part == "step":
        measure_steps(flags.env, flags.rounds, flags.steps)
    else:
        measure_sessions(flags.env, flags.rounds, flags.frames)
    return 0


def plan_of(env: str, distributed: Any, sessions: int, frames: int) -> Plan:
    """Return a plan with a gradient step for each frame."""
    spec = {
        "agent": {
            "algorithm": {"name": "SoftActorCritic", "training_frequency": 4, "training_iter": 4},
            "memory": {"name": "Replay", "batch_size": BATCH, "max_size": 200_000},
            "net": {"hid_layers": [256, 256], "optim_spec": {"name": "Adam", "lr": 3e-4}},
        },
        "env": {"name": env, "num_envs": 4, "max_frame": frames * sessions},
        "meta": {"distributed": distributed, "max_session": sessions, "log_frequency": 400},
    }
    return make_plan(make_spec("benchmark", spec, origin="a benchmark"))


def measure_steps(env_id: str, rounds: int, steps: int) -> None:
    """Print CPU milliseconds of a gradient step, and ratios to the bare passes."""
    plan = plan_of(env_id, False, 1, 8000)
    context = replace(DistributedContext.single("cpu"), num_threads=1)
    env = make_env(settle(plan_session(plan, device="cpu"), context), context)
    bfloat16 = replace(plan.agent, precision="auto")
    cases = {
        "bare forward and backward": bare_step(env, plan.agent, context),
        "skrl's SAC, its own memory and optimizers": skrl_step(env, plan.agent, context),
        "a session's": session_step(env, plan.agent, context),
        "a session's, shared": session_step(env, plan.agent, context, shared=True),
        "a session's, bfloat16": session_step(env, bfloat16, context),
    }
    env.close()
    table(measure(cases, rounds, steps), "ms a gradient step", "bare forward and backward")


def measure(
    cases: Mapping[str, Callable[[], None]], rounds: int, steps: int
) -> dict[str, list[float]]:
    """Return milliseconds of CPU time of each case, one number a round."""
    taken: dict[str, list[float]] = {name: [] for name in cases}
    for number in range(-1, rounds):  # the first warms up
        for name, step in cases.items():
            begin = time.process_time()
            for _ in range(steps):
                step()
            if number >= 0:
                taken[name].append(1000.0 * (time.process_time() - begin) / steps)
    return taken


def session_step(
    env: Any, cfg: HogwildCfg, context: DistributedContext, *, shared: bool = False
) -> Callable[[], None]:
    """Return a gradient step of a session's agent."""
    agent, _, _ = make_session_agent(env, cfg, context)
    if shared:
        Shared.of(agent, cfg.optimizer).join(agent, synced=False)
    return updating(agent)


def skrl_step(env: Any, cfg: HogwildCfg, context: DistributedContext) -> Callable[[], None]:
    """Return a gradient step of skrl's agent with skrl's memory and optimizers."""
    from skrl.memories.torch import RandomMemory
    from skrl.models.torch import Model

    _, wrapper, skrl_cfg = make_session_agent(env, cfg, context)
    skrl_cfg.memory["replacement"] = False
    models: dict[str, Any] = make_networks(cfg, wrapper.spaces["agent"], env.device, context)
    for model in models.values():
        model.update_parameters = Model.update_parameters.__get__(model)
    for name in ("critic_1", "critic_2"):
        models[name].compute = whole_compute(models[name])
    agent = make_agent(
        agent_class("sac", "torch", {}),
        {"agent": models},
        wrapper,
        skrl_cfg,
        device=env.device,
        memory_class=RandomMemory,
        scaler_class=None,
    )
    return updating(agent)


def whole_compute(critic: Any) -> Callable[..., Any]:
    """Return a critic's function with gradients of its weights in every pass."""

    def compute(inputs: Mapping[str, torch.Tensor], role: str = "") -> Any:
        return critic.net(inputs["observations"], inputs["taken_actions"]), {}

    return compute


def updating(agent: Any) -> Callable[[], None]:
    """Return a function that takes one gradient step, from a memory that is full of noise."""
    agent.init(trainer_cfg=None)
    agent.write_interval = sys.maxsize
    agent.cfg.gradient_steps = 1
    agent.cfg.learning_starts = 0
    for name, tensor in agent.memory.tensors.items():
        if tensor.dtype == torch.bool:
            tensor.zero_()
        elif name != "states":
            tensor.normal_().clamp_(-1.0, 1.0)
    agent.memory.filled = True
    agent.enable_training_mode(True)
    agent.enable_models_training_mode(True)

    timesteps = itertools.count()

    def step() -> None:
        agent.post_interaction(timestep=next(timesteps), timesteps=sys.maxsize - 1)
        agent.tracking_data.clear()

    return step


def bare_step(env: Any, cfg: HogwildCfg, context: DistributedContext) -> Callable[[], None]:
    """Return SAC's forward and backward passes alone: no memory, no optimizer, no targets."""
    groups = env.single_observation_space
    seen = Spaces(groups["policy"], None, env.single_action_space)
    models = make_networks(cfg, seen, env.device, context)
    policy, critics = models["policy"], [models["critic_1"], models["critic_2"]]
    targets = [models["target_critic_1"], models["target_critic_2"]]
    whole = {id(one): whole_compute(one) for one in (*critics, *targets)}
    for target in targets:
        target.freeze_parameters(True)
    temperature = torch.zeros(1, requires_grad=True)
    obs, final = torch.randn(2, BATCH, policy.num_observations)
    actions = torch.rand(BATCH, policy.num_actions) * 2.0 - 1.0
    rewards = torch.randn(BATCH, 1)

    def least(networks: list[Any], obs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
        inputs = {"observations": obs, "taken_actions": actions}
        return torch.min(*(whole[id(network)](inputs)[0] for network in networks))

    def step() -> None:
        alpha = temperature.detach().exp()
        with torch.no_grad():
            following, outputs = policy.act({"observations": final})
            value = least(targets, final, following) - alpha * outputs["log_prob"]
            wanted = rewards + 0.99 * value
        inputs = {"observations": obs, "taken_actions": actions}
        loss = sum(functional.mse_loss(whole[id(critic)](inputs)[0], wanted) for critic in critics)
        for model in models.values():
            model.zero_grad()
        torch.as_tensor(loss).backward()
        taken, outputs = policy.act({"observations": obs})
        (alpha * outputs["log_prob"] - least(critics, obs, taken)).mean().backward()
        (-(temperature * outputs["log_prob"].detach()).mean()).backward()

    return step


def measure_sessions(env: str, rounds: int, frames: int) -> None:
    """Print frames per second of trials, their first quarter left out."""
    taken: dict[str, list[float]] = {name: [] for name in SESSIONS}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for _ in range(rounds):
            for name, (distributed, sessions) in SESSIONS.items():
                plan = plan_of(env, distributed, sessions, frames)
                options = Options(device="cpu", timeout_s=DEFAULT_TIMEOUT_S)
                with contextlib.redirect_stderr(io.StringIO()), interruptible() as flag:
                    run = run_trial(plan, options, flag)
                taken[name].append(frames_per_second(run.directory))
    table(taken, "frames/s", "1 session, independent")


def frames_per_second(directory: Path) -> float:
    """Return the frames per second of a trial's sessions together."""
    total = 0.0
    for path in directory.glob("sessions/*/metrics.jsonl"):
        records = list(Records(path).read())
        first, last = records[len(records) // 4], records[-1]
        total += (last["frames"] - first["frames"]) / (last["wall_s"] - first["wall_s"])
    return total


def table(taken: Mapping[str, list[float]], unit: str, base: str) -> None:
    """Print medians, and medians of the ratios of each round to the base's."""
    rows = []
    for name, values in taken.items():
        ratios = [value / other for value, other in zip(values, taken[base], strict=True)]
        rows.append((name, statistics.median(values), min(values), statistics.median(ratios)))
    headers = ("", unit, "least", "ratio")
    print(tabulate(rows, headers=headers, floatfmt=("", ".2f", ".2f", ".3f")))


if __name__ == "__main__":
    raise SystemExit(guarded(lambda _: main(), []))
