"""A trunk on two legs, which is to stand on a plane."""

from pathlib import Path

import isaaclab.envs.mdp as mdp
import isaaclab.sim as sim_utils
from isaaclab.actuators import DCMotorCfg
from isaaclab.assets import ArticulationCfg, AssetBaseCfg
from isaaclab.envs import ManagerBasedRLEnvCfg
from isaaclab.managers import (
    EventTermCfg,
    ObservationGroupCfg,
    ObservationTermCfg,
    RewardTermCfg,
    SceneEntityCfg,
    TerminationTermCfg,
)
from isaaclab.scene import InteractiveSceneCfg
from isaaclab.sensors import ContactSensorCfg
from isaaclab.utils import configclass
from isaaclab_rl.rsl_rl import (
    RslRlOnPolicyRunnerCfg,
    RslRlPpoActorCriticCfg,
    RslRlPpoAlgorithmCfg,
)

Drive = sim_utils.UrdfConverterCfg.JointDriveCfg


@configclass
class SceneCfg(InteractiveSceneCfg):
    ground = AssetBaseCfg(prim_path="/World/ground", spawn=sim_utils.GroundPlaneCfg())
    robot = ArticulationCfg(
        prim_path="{ENV_REGEX_NS}/Robot",
        spawn=sim_utils.UrdfFileCfg(
            asset_path=str(Path(__file__).parent / "walker.urdf"),
            fix_base=False,
            activate_contact_sensors=True,
            joint_drive=Drive(gains=Drive.PDGainsCfg(stiffness=0.0, damping=0.0)),
        ),
        init_state=ArticulationCfg.InitialStateCfg(pos=(0.0, 0.0, 0.24)),
        actuators={
            "legs": DCMotorCfg(
                joint_names_expr=[".*_hip"],
                effort_limit=20.0,
                saturation_effort=20.0,
                velocity_limit=10.0,
                stiffness=20.0,
                damping=0.5,
            )
        },
    )
    contacts = ContactSensorCfg(prim_path="{ENV_REGEX_NS}/Robot/.*", history_length=2)


@configclass
class ActionsCfg:
    legs = mdp.JointPositionActionCfg(asset_name="robot", joint_names=[".*"], scale=0.5)


@configclass
class ObservationsCfg:
    @configclass
    class PolicyCfg(ObservationGroupCfg):
        height = ObservationTermCfg(func=mdp.base_pos_z)
        gravity = ObservationTermCfg(func=mdp.projected_gravity)
        joints = ObservationTermCfg(func=mdp.joint_pos_rel)
        speeds = ObservationTermCfg(func=mdp.joint_vel_rel)

    policy = PolicyCfg()


@configclass
class EventsCfg:
    mass = EventTermCfg(
        func=mdp.randomize_rigid_body_mass,
        mode="startup",
        params={
            "asset_cfg": SceneEntityCfg("robot", body_names="base"),
            "mass_distribution_params": (0.8, 1.2),
            "operation": "scale",
        },
    )
    start = EventTermCfg(
        func=mdp.reset_joints_by_offset,
        mode="reset",
        params={"position_range": (-0.2, 0.2), "velocity_range": (0.0, 0.0)},
    )


@configclass
class RewardsCfg:
    alive = RewardTermCfg(func=mdp.is_alive, weight=1.0)
    upright = RewardTermCfg(func=mdp.flat_orientation_l2, weight=-1.0)
    contacts = RewardTermCfg(
        func=mdp.undesired_contacts,
        weight=-0.5,
        params={"sensor_cfg": SceneEntityCfg("contacts", body_names="base"), "threshold": 1.0},
    )


@configclass
class TerminationsCfg:
    time_out = TerminationTermCfg(func=mdp.time_out, time_out=True)


@configclass
class WalkerEnvCfg(ManagerBasedRLEnvCfg):
    scene = SceneCfg(num_envs=64, env_spacing=2.0)
    actions = ActionsCfg()
    observations = ObservationsCfg()
    events = EventsCfg()
    rewards = RewardsCfg()
    terminations = TerminationsCfg()
    decimation = 2
    episode_length_s = 0.5

    def __post_init__(self):
        self.sim.dt = 0.005


@configclass
class WalkerPPORunnerCfg(RslRlOnPolicyRunnerCfg):
    num_steps_per_env = 8
    max_iterations = 2
    save_interval = 50
    experiment_name = "small_walker"
    policy = RslRlPpoActorCriticCfg(
        init_noise_std=0.5,
        actor_obs_normalization=True,
        critic_obs_normalization=False,
        actor_hidden_dims=[16],
        critic_hidden_dims=[32],
        activation="elu",
    )
    algorithm = RslRlPpoAlgorithmCfg(
        value_loss_coef=1.0,
        use_clipped_value_loss=True,
        clip_param=0.2,
        entropy_coef=0.01,
        num_learning_epochs=2,
        num_mini_batches=2,
        learning_rate=1e-3,
        schedule="adaptive",
        gamma=0.99,
        lam=0.95,
        desired_kl=0.01,
        max_grad_norm=1.0,
    )
