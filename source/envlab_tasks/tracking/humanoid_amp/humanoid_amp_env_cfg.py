"""Isaac-Humanoid-AMP-{Walk,Run,Dance}-Direct-v0. The numbers are Isaac Lab 2.3.2's.

Differs from Isaac Lab 2.3.2:

- Without ``env.motion_file``, AMP's humanoid imitates clips that were made for this project and are
  not recordings. It also reads the clips that come with Isaac Lab.
- Velocities of AMP's humanoid are those of the torso's origin, in the simulation and in the clip.
  In Isaac Lab's simulation they are those of its centre of mass.
- Where an episode of AMP's humanoid ends, the discriminator sees the motion up to its end; in Isaac
  Lab, the next episode's start.
- The agents of AMP's humanoid set ``time_limit_bootstrap: true``. Isaac Lab sets it to false, which
  skrl 1.4.3's AMP does not read: it always adds the value of the next state, which is the next
  episode's first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from envlab.config import PositiveInt
from envlab.envs import DirectEnvCfg, DiscreteCfg, SceneCfg, SimulationCfg, default


@dataclass(kw_only=True)
class HumanoidAmpEnvCfg(DirectEnvCfg):
    """Move like a clip: a discriminator rewards it, and the task itself gives 1 in each step."""

    decimation: int = 2
    episode_length_s: float = 10.0
    scene: SceneCfg = default(SceneCfg(num_envs=4096, model="envlab_assets:robots/humanoid_28.xml"))
    sim: SimulationCfg = default(
        SimulationCfg(
            dt=1.0 / 60.0,
            data_fields=("sensordata", "xpos", "xquat"),
            num_contacts_max=40,
            num_constraints_max=200,
        )
    )
    action_space: int | DiscreteCfg = 28
    observation_space: int | list[int] | None = 81
    num_amp_observations: PositiveInt = 2
    """Observations, one after the other, that the discriminator sees together."""
    amp_observation_space: PositiveInt = 81
    """Size of one of them."""
    early_termination: bool = True
    """Whether a fall ends an episode."""
    termination_height: float = 0.5
    """Height of the reference body below which a robot has fallen, in m."""
    motion_file: str
    """The clip: a path, or ``package:path``; see :mod:`envlab.motion.files`."""
    reference_body: str = "torso"
    """Body of which the observation has the height, the orientation and the velocity."""
    reset_strategy: Literal["default", "random", "random-start"] = "random"
    """Starts of episodes: in the default pose, anywhere in the clip, or at its start."""


@dataclass(kw_only=True)
class HumanoidAmpWalkEnvCfg(HumanoidAmpEnvCfg):
    """Walk."""

    motion_file: str = "envlab_assets:motions/humanoid_28_walk.npz"


@dataclass(kw_only=True)
class HumanoidAmpRunEnvCfg(HumanoidAmpEnvCfg):
    """Run."""

    motion_file: str = "envlab_assets:motions/humanoid_28_run.npz"


@dataclass(kw_only=True)
class HumanoidAmpDanceEnvCfg(HumanoidAmpEnvCfg):
    """Dance."""

    motion_file: str = "envlab_assets:motions/humanoid_28_dance.npz"
