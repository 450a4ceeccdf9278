"""Two agents, each with its own slider, whose numbers follow by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from envlab.distributed.context import DistributedContext
from envlab.envs import DirectMarlEnv, DirectMarlEnvCfg, SceneCfg, SimulationCfg
from tests.envs.sliders import CTRL_DRIVE, CTRL_PUSH, DRIVE, DT, MODEL, PUSH, rank

Values = dict[str, torch.Tensor]


@dataclass(kw_only=True)
class PairCfg(DirectMarlEnvCfg):
    """Ten steps; an agent fails where its slider is further than ``limit``."""

    episode_length_s: float = 1.0
    possible_agents: list[str] = field(default_factory=lambda: ["pusher", "driver"])
    observation_spaces: dict[str, int] = field(default_factory=lambda: {"pusher": 2, "driver": 1})
    action_spaces: dict[str, int] = field(default_factory=lambda: {"pusher": 1, "driver": 2})
    sim: SimulationCfg = field(default_factory=lambda: SimulationCfg(dt=DT))
    scene: SceneCfg = field(default_factory=lambda: SceneCfg(num_envs=2, model=MODEL))
    limit: float = 1e6


class PairEnv(DirectMarlEnv):
    """``pusher`` pushes one slider; ``driver``'s two actions add up to another's target speed."""

    cfg: PairCfg

    def _pre_physics_step(self, actions: Values) -> None:
        self.given = actions

    def _apply_action(self) -> None:
        self.sim.ctrl[:, CTRL_PUSH] = self.given["pusher"][:, 0]
        self.sim.ctrl[:, CTRL_DRIVE] = self.given["driver"].sum(dim=1)

    def _get_observations(self) -> Values:
        pos, vel = self.sim.data.qpos, self.sim.data.qvel
        pusher = torch.stack((pos[:, PUSH], vel[:, PUSH]), dim=1)
        return {"driver": vel[:, [DRIVE]], "pusher": pusher}  # not in the order of the agents

    def _get_states(self) -> torch.Tensor:
        return self.sim.data.qpos[:, [PUSH, DRIVE]] * 10.0

    def _get_rewards(self) -> Values:
        vel = self.sim.data.qvel
        return {"pusher": vel[:, PUSH].clone(), "driver": -vel[:, DRIVE]}

    def _get_dones(self) -> tuple[Values, Values]:
        far = self.sim.data.qpos.abs() > self.cfg.limit
        time_out = self.episode_length_buf >= self.max_episode_length
        return {"pusher": far[:, PUSH], "driver": far[:, DRIVE]}, dict.fromkeys(
            self.possible_agents, time_out
        )

    def _reset_envs(
        self, mask: torch.Tensor, count: torch.Tensor | int
    ) -> dict[str, torch.Tensor | float]:
        self.reset_qpos[:, :] = self.random.stream("reset").uniform(-0.1, 0.1, 4, mask)
        return {"ended": mask.sum() / count}


def make(
    num_envs: int = 2,
    *,
    seed: int = 0,
    context: DistributedContext | None = None,
    cls: type[PairEnv] = PairEnv,
    **fields: Any,
) -> PairEnv:
    """Return an environment; ``fields`` are those of :class:`PairCfg`."""
    cfg = PairCfg(scene=SceneCfg(num_envs=num_envs, model=MODEL), **fields)
    return cls(cfg, context=context or rank(0, 1), seed=seed)


def place(env: PairEnv, push: list[float], drive: list[float]) -> None:
    """Put both sliders of all environments somewhere, at rest."""
    qpos = torch.zeros_like(env.sim.data.qpos)
    qpos[:, PUSH], qpos[:, DRIVE] = torch.tensor(push), torch.tensor(drive)
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), qpos, torch.zeros_like(qpos))


def act(env: PairEnv, pusher: float = 0.0, driver: float = 0.0) -> Values:
    return {
        "pusher": torch.full((env.num_envs, 1), pusher),
        "driver": torch.full((env.num_envs, 2), driver),
    }


def draw(steps: int, num_envs: int = 2) -> list[Values]:
    generator = torch.Generator().manual_seed(0)
    sizes = {"pusher": 1, "driver": 2}
    return [
        {name: torch.randn(num_envs, size, generator=generator) for name, size in sizes.items()}
        for _ in range(steps)
    ]
