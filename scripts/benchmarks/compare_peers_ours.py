"""Contenders of compare_peers.py in envlab's own Python: its environments, and libraries over them.

Arguments: a function of this file, and its arguments.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, NoReturn

import gymnasium
import torch
from rl_games.torch_runner import Runner as RlGamesRunner
from rsl_rl.runners import OnPolicyRunner
from skrl.utils.runner.torch import Runner as SkrlRunner

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.envs import (
    BatchedEnv,
    DirectEnv,
    DirectEnvCfg,
    DiscreteCfg,
    SceneCfg,
    SimulationCfg,
    VectorEnv,
)
from envlab.envs.batched_env import Step
from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from envlab.envs.wrappers.skrl import SkrlVecEnvWrapper
from envlab.libraries import get_library
from envlab.registry import get_task, load_agent_values, load_env_cfg
from envlab.rl_games.env import Packed, RlGamesVecEnv
from envlab.skrl.env import final_values
from envlab.training.arguments import train_parser
from envlab.training.launch import train as train_library
from envlab.training.plan import plan_run
from envlab_populations.evolution.cfg import EvolutionCfg
from envlab_populations.evolution.models import seen_by
from envlab_populations.evolution.nursery import SkrlNursery
from envlab_populations.evolution.replay import ReplayMemory
from envlab_populations.population.member import Member
from scripts.benchmarks.compare_peers_others import (
    DQN_BATCH,
    DQN_ENVS,
    DQN_EPSILON,
    DQN_MEMORY,
    Turns,
    main,
    repeat,
)

FOREVER = 1_000_000
"""Iterations, more than there are turns."""


@dataclass(kw_only=True)
class AntV5Cfg(DirectEnvCfg):
    """Gymnasium's Ant-v5 without contact forces."""

    decimation: int = 5
    episode_length_s: float = 50.0
    action_space: int | DiscreteCfg = 8
    observation_space: int | list[int] | None = 27
    sim: SimulationCfg = field(default_factory=lambda: SimulationCfg(dt=0.01))
    scene: SceneCfg = field(
        default_factory=lambda: SceneCfg(model="gymnasium:envs/mujoco/assets/ant.xml")
    )


class AntV5(DirectEnv):
    """Run forwards: speed, plus 1 for a healthy height, minus the actions' cost."""

    cfg: AntV5Cfg

    def _pre_physics_step(self, actions: torch.Tensor) -> None:
        self._cost = 0.5 * actions.square().sum(dim=1)

    def _apply_action(self) -> None:
        self.sim.ctrl.copy_(self.actions)

    def _get_observations(self) -> dict[str, torch.Tensor]:
        return {"policy": torch.cat((self.sim.data.qpos[:, 2:], self.sim.data.qvel), dim=1)}

    def _get_dones(self) -> tuple[torch.Tensor, torch.Tensor]:
        height = self.sim.data.qpos[:, 2]
        self._fallen = (height < 0.2) | (height > 1.0)
        return self._fallen, self.episode_length_buf >= self.max_episode_length

    def _get_rewards(self) -> torch.Tensor:
        speed = (self.sim.data.qpos[:, 0] - self.last_qpos[:, 0]) / self.step_dt
        return speed + (~self._fallen).float() - self._cost

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        num_positions = self.reset_qpos.shape[1]
        stream = self.random.stream("reset")
        self.reset_qpos += stream.uniform(-0.1, 0.1, num_positions, mask)
        self.reset_qvel += 0.1 * stream.normal(0.0, 1.0, self.reset_qvel.shape[1])
        return {}


def step(task: str, num_envs: str) -> NoReturn:
    """Step a task with random actions."""
    turns = Turns(int(num_envs))
    env = make(task, int(num_envs))
    _step_at_random(turns, env)


def ant(num_envs: str) -> NoReturn:
    """Step Gymnasium's ``ant.xml`` with its own settings: RK4, 0.01 s, five physics steps."""
    turns = Turns(int(num_envs))
    context = DistributedContext.single("cpu")
    _step_at_random(turns, AntV5(AntV5Cfg(), context=context, num_envs=int(num_envs), seed=0))


def ant_async(num_envs: str) -> NoReturn:
    """Step Gymnasium's own Ant-v5 in processes, one per environment."""
    turns = Turns(int(num_envs))
    env = gymnasium.make_vec(
        "Ant-v5",
        num_envs=int(num_envs),
        vectorization_mode="async",
        include_cfrc_ext_in_observation=False,
        contact_cost_weight=0.0,
    )
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = env.action_space.sample()
    repeat(turns, lambda: env.step(actions))


def train(library: str, task: str, num_envs: str) -> NoReturn:
    """Train with envlab's command: a turn is made of whole iterations."""
    words = [f"--task={task}", f"--num_envs={num_envs}", "--headless", "--device=cpu"]
    _take_turns(library, words, int(num_envs))
    raise SystemExit(train_library(library, [*words, f"--max_iterations={FOREVER}"]))


def stock(library: str, task: str, num_envs: str) -> None:
    """Train with a library's own runner, by the same configuration."""
    words = [f"--task={task}", f"--max_iterations={FOREVER}"]
    cfg = _take_turns(library, words, int(num_envs))
    env = make(task, int(num_envs))
    own = {"rsl_rl": _stock_rsl_rl, "rl_games": _stock_rl_games, "skrl": _stock_skrl}
    own[library](env, cfg, task)


def dqn(units: str) -> NoReturn:
    """Run a member of a population, alone: act in all environments, remember, and learn once.

    Args:
        units: Of each of three hidden layers; 0: the default network.
    """
    turns, size = Turns(DQN_ENVS), int(units)
    env = make("gym:LunarLander-v3", DQN_ENVS)
    memory = ReplayMemory(DQN_MEMORY, DQN_ENVS, env.device, None)
    values: dict[str, Any] = {"agent": {"gradient_steps": 1, "batch_size": DQN_BATCH}}
    values |= {"network": {"hidden_dims": [size] * 3}} if size else {}
    nursery = SkrlNursery(
        cfg=merge(EvolutionCfg.of("dqn"), values, "agent").resolved(),
        env=seen_by("dqn", env),
        num_envs=DQN_ENVS,
        memory=memory,
        context=DistributedContext(device=env.device),
    )
    agent, obs = Member.first(nursery, 0).learner.agent, env.reset()[0]["policy"]

    def make_step() -> None:
        nonlocal obs
        actions = agent.get_action(obs, DQN_EPSILON)
        seen, rewards, terminated, _, info = env.step(actions)
        memory.add_samples(
            observations=obs,
            actions=actions,
            rewards=rewards[:, None],
            next_observations=final_values(seen, info)["policy"],
            terminated=terminated[:, None],
        )
        if len(memory) >= DQN_BATCH:
            agent.update(timestep=0, timesteps=1)
        obs = seen["policy"]

    repeat(turns, make_step)


def make(task_id: str, num_envs: int) -> Any:
    """Return environments of a task."""
    task = get_task(task_id)
    cfg = merge(load_env_cfg(task), {"scene": {"num_envs": num_envs}, "seed": 1}, "env")
    return task.make(cfg, context=DistributedContext.single("cpu"))


def _step_at_random(turns: Turns, env: VectorEnv) -> NoReturn:
    # Episodes end at different times, as in training, not all in one step.
    env.episode_length_buf = env.random.stream("benchmark").integers(0, env.max_episode_length)
    actions = torch.rand(env.actions.shape, generator=torch.Generator().manual_seed(0)) * 2 - 1
    repeat(turns, lambda: env.step(actions))


def _take_turns(library: str, words: list[str], num_envs: int) -> Any:
    """Have every step of environments wait for its turn; return the agent's configuration."""
    named = get_library(library)
    flags, overrides = train_parser(named).parse_with_overrides(words)
    cfg = plan_run(flags, overrides, named).agent_cfg.resolved()
    turns = Turns(num_envs, whole=cfg.num_steps_per_env)
    step_all = BatchedEnv.step

    def step_in_turn(env: BatchedEnv, actions: Any) -> Step:
        turns()
        return step_all(env, actions)

    patched: Any = BatchedEnv
    patched.step = step_in_turn
    return cfg


def _stock_rsl_rl(env: VectorEnv, cfg: Any, task: str) -> None:
    runner = OnPolicyRunner(
        RslRlVecEnvWrapper(env, cfg.clip_actions), cfg.for_library(), log_dir="logs", device="cpu"
    )
    runner.learn(FOREVER, init_at_random_ep_len=cfg.init_at_random_ep_len)


class _ResettableVecEnv(RlGamesVecEnv):
    def reset(self) -> Packed:
        return self.observations()


def _stock_rl_games(env: VectorEnv, cfg: Any, task: str) -> None:
    vec_env = _ResettableVecEnv(env, cfg.params.env, has_central_value=False)
    params = cfg.for_library() | {"torch_threads": torch.get_num_threads()}
    runner = RlGamesRunner()
    runner.load({"params": params})
    runner.params["config"] |= {
        "vec_env": vec_env,
        "env_info": vec_env.get_env_info(),
        "num_actors": env.num_envs,
        "device": "cpu",
    }
    runner.run_train({})


def _stock_skrl(env: VectorEnv, cfg: Any, task: str) -> None:
    values = copy.deepcopy(load_agent_values(get_task(task), "skrl"))
    assert values is not None
    values["trainer"] |= {"timesteps": FOREVER, "disable_progressbar": True}
    values["agent"]["experiment"] |= {
        "directory": "logs",
        "write_interval": cfg.num_steps_per_env,
        "checkpoint_interval": 0,
    }
    SkrlRunner(SkrlVecEnvWrapper(env), values).run()


if __name__ == "__main__":
    main([step, ant, ant_async, train, stock, dqn])
