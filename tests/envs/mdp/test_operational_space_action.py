"""Efforts of operational-space control bring the frame, and the force, to where commands say."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, mdp
from envlab.envs.actuators import IdealPDActuatorCfg
from envlab.envs.controlled_frame import ControlledFrame
from envlab.envs.math import quat_error_magnitude
from envlab.envs.mdp.effort_actions import OperationalSpaceControllerAction
from envlab_tasks.manipulation.franka import ARM
from tests.envs.arms import MODEL
from tests.envs.promises import assert_keeps_promises
from tests.envs.refusals import assert_refused
from tests.envs.sliders import make_cfg, rank, terms
from tests.envs.torque_arms import GRASP, make_torque_arm, torque_arm

Controller = mdp.OperationalSpaceControllerCfg
DOWN = [0.0, 0.0, 1.0, 0.0]
DECOUPLED = {"inertial_dynamics_decoupling": True, "gravity_compensation": True}


def action(controller: dict[str, Any] | None = None, **changes: Any) -> Any:
    """Return the action of a Panda's hand, which is decoupled unless ``controller`` says more."""
    values = {"joint_names": ARM, "body_name": "panda_hand", **changes}
    values.setdefault("body_offset", mdp.OffsetCfg(pos=GRASP))
    settings = DECOUPLED if controller is None else controller
    return mdp.OperationalSpaceControllerActionCfg(**values, controller_cfg=Controller(**settings))


def frame(env: ManagerEnv) -> ControlledFrame:
    term = env.action_manager.get_term("arm")
    assert isinstance(term, OperationalSpaceControllerAction)
    return term.frame


@pytest.mark.parametrize("backend", ["mujoco", "mujoco_warp"])
def test_the_arm_converges_to_a_pose_against_gravity(backend: str):
    pytest.importorskip(backend, reason="needs mujoco-warp: pip install -e '.[warp]'")
    settings = {**DECOUPLED, "nullspace_control": "position"}
    env = make_torque_arm(action(settings, nullspace_joint_pos_target="default"), backend=backend)
    goals = torch.tensor([[0.5, 0.2, 0.3, *DOWN], [0.4, -0.3, 0.5, *DOWN]])
    for _ in range(90):
        env.step(goals)
    pos, quat = frame(env).pose()
    assert (pos - goals[:, :3]).norm(dim=1).max() < 1e-3
    assert quat_error_magnitude(quat, goals[:, 3:]).max() < 1e-2


def test_a_decoupled_frame_swings_as_a_damped_oscillator():
    """It accelerates by 100 times the error less 20 times the velocity, whatever its inertia."""
    env = make_torque_arm(action(controller={**DECOUPLED, "target_types": ["pose_rel"]}))
    start = frame(env).pose()[0].clone()
    way = torch.tensor([[0.05, 0.0, 0.0, 0.0, 0.0, 0.0]] * 2)
    env.step(way)
    moved = (frame(env).pose()[0] - start)[0]
    place, speed, dt = 0.0, 0.0, env.physics_dt
    for _ in range(4):
        speed += dt * (100.0 * (0.05 - place) - 20.0 * speed)
        place += dt * speed
    assert moved[0].item() == pytest.approx(place, rel=0.02)
    assert moved[1:].abs().max() < 0.05 * moved[0]


def test_the_posture_does_not_move_the_frame():
    """The elbow swings to another posture, and the hand stays."""
    settings = {
        **DECOUPLED,
        "motion_stiffness_task": 400.0,
        "nullspace_control": "position",
        "nullspace_stiffness": 40.0,
    }
    env = make_torque_arm(action(settings, nullspace_joint_pos_target="center"))
    start = torch.cat(frame(env).pose(), dim=1)
    before = frame(env).joint_pos.clone()
    farthest = torch.zeros(2)
    for _ in range(60):
        env.step(start)
        farthest = torch.maximum(farthest, (frame(env).pose()[0] - start[:, :3]).norm(dim=1))
    assert (frame(env).joint_pos - before).abs().max() > 0.1
    assert farthest.max() < 0.01


def test_stiffness_and_damping_come_with_the_action():
    """A stiffness of 0 leaves the arm where it is; beyond the bounds it is clamped."""
    limits = {"motion_stiffness_limits_task": (0.0, 50.0)}
    settings = {**DECOUPLED, "target_types": ["pose_rel"], "impedance_mode": "variable", **limits}
    env = make_torque_arm(action(settings, stiffness_scale=100.0))
    start = frame(env).pose()[0].clone()
    way, ratio = [0.05, 0.0, 0.0, 0.0, 0.0, 0.0], [1.0] * 6
    env.step(torch.tensor([way + [0.0] * 6 + ratio, way + [1.0] * 6 + ratio]))
    moved = (frame(env).pose()[0] - start)[:, 0]
    assert moved[0].abs() < 1e-5
    capped = moved[1].item()
    env = make_torque_arm(action({**settings, "motion_stiffness_task": 1.0}, stiffness_scale=50.0))
    env.step(torch.tensor([way + [0.0] * 6 + ratio, way + [1.0] * 6 + ratio]))
    assert (frame(env).pose()[0] - start)[1, 0].item() == pytest.approx(capped, rel=1e-4)


def test_a_wrench_is_pressed_along_its_axis_of_the_task_frame():
    """One hinge about z, with the base turned by a quarter: force along the task's x turns it."""
    controller = {
        "target_types": ["wrench_abs"],
        "contact_wrench_control_axes_task": (1, 0, 0, 0, 0, 0),
    }
    press = mdp.OperationalSpaceControllerActionCfg(
        joint_names="hinge",
        body_name="link",
        body_offset=mdp.OffsetCfg(pos=(0.5, 0.0, 0.0)),
        task_frame_rel_path="object",
        wrench_scale=2.0,
        controller_cfg=Controller(**controller),
    )
    cfg = make_cfg(2, sim={"dt": 0.01}, actions=terms(arm=press))
    motor = IdealPDActuatorCfg(joint_names_expr=["hinge"], stiffness=0.0, damping=0.0)
    cfg.scene = SceneCfg(num_envs=2, model=MODEL, actuators={"hinge": motor})
    env = ManagerEnv(cfg, context=rank(0, 1), seed=0)
    # The arm points along the world's y, so a force of -3 N along the world's x, which is the
    # object's, turns it by 0.5 m * 3 N; y is not controlled.
    env.step(torch.tensor([[-1.5, 9.0, 0.0, 0.0, 0.0, 0.0]] * 2))
    assert env.sim.ctrl[:, 0].tolist() == pytest.approx([1.5] * 2, rel=1e-4)


def test_contact_forces_are_fed_back():
    """Beside a wall that the hand does not touch yet, the error is the whole force."""

    def efforts(gain: float | None) -> torch.Tensor:
        settings = {
            "target_types": ["wrench_abs"],
            "contact_wrench_control_axes_task": (0, 0, 1, 0, 0, 0),
            "contact_wrench_stiffness_task": gain,
        }
        env = make_torque_arm(action(settings))
        env.step(torch.tensor([[0.0, 0.0, -5.0, 0.0, 0.0, 0.0]] * 2))
        return env.sim.ctrl[:, :7].clone()

    plain, fed_back = efforts(None), efforts(0.5)
    # Both arms fall a little differently within the four physics steps.
    torch.testing.assert_close(fed_back, 1.5 * plain, rtol=0.01, atol=0.01)


def test_it_keeps_the_promises_of_every_task():
    settings = {**DECOUPLED, "nullspace_control": "position", "target_types": ["pose_rel"]}
    assert_keeps_promises(torque_arm(action(settings, nullspace_joint_pos_target="default")))


def test_settings_that_make_no_sense_are_refused():
    def made(**settings: Any) -> Any:
        return lambda: make_torque_arm(action(settings))

    def with_joints(names: str, **settings: Any) -> Any:
        return lambda: make_torque_arm(action(settings, joint_names=names))

    position = {"nullspace_control": "position"}
    finger = {"joint_names": "panda_finger_joint1", "body_name": "panda_leftfinger"}
    assert_refused(
        {
            "target_types has 'pose_ab', but must be of .* Did you mean": made(
                target_types=["pose_ab"]
            ),
            "must have a pose, a wrench, or both": made(target_types=["pose_abs", "pose_rel"]),
            "impedance_mode is 'soft'": made(impedance_mode="soft"),
            "no 'wrench_abs', so it would have no effect": made(contact_wrench_stiffness_task=1.0),
            "needs six joints, but the action has 4": with_joints(
                "panda_joint[1-4]", inertial_dynamics_decoupling=True
            ),
            "needs more than six joints, but the action has 6": with_joints(
                "panda_joint[1-6]", **position
            ),
            "is 'none' with nullspace_control='position'": made(**position),
            "motion_stiffness_task is .*, but must be six numbers": made(
                motion_stiffness_task=[1.0, 2.0]
            ),
            "'panda_finger_joint1' of an operational-space action has no motor": lambda: (
                make_torque_arm(action({}, **finger))
            ),
        }
    )
