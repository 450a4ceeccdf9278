"""Efforts of joint impedance, by its formula and by how the arm moves."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab_tasks.manipulation.franka import ARM, HOME
from tests.envs.promises import assert_keeps_promises
from tests.envs.refusals import assert_refused
from tests.envs.torque_arms import NUM_JOINTS, make_torque_arm, torque_arm


def action(scale: float = 1.0, **settings: Any) -> Any:
    gains = mdp.JointImpedanceControllerCfg(**{"stiffness": 100.0, **settings})
    return mdp.JointImpedanceActionCfg(joint_names=ARM, scale=scale, controller_cfg=gains)


def arm(env: ManagerEnv) -> torch.Tensor:
    return env.sim.data.qpos[:, :NUM_JOINTS]


@pytest.mark.parametrize("backend", ["mujoco", "mujoco_warp"])
def test_compensated_joints_swing_as_damped_oscillators(backend: str):
    """With unit inertia, kp 100 and a damping ratio of 1, the error is (1 + 10 t) exp(-10 t)."""
    pytest.importorskip(backend, reason="needs mujoco-warp: pip install -e '.[warp]'")
    compensated = {"inertial_compensation": True, "gravity_compensation": True}
    env = make_torque_arm(action(**compensated), backend=backend)
    start = arm(env).clone()
    way = torch.tensor([[0.2, 0.2, -0.2, 0.2, 0.2, -0.2, 0.2], [0.0] * NUM_JOINTS])
    for _ in range(9):
        env.step(start + way)
    time = torch.tensor(9 * env.step_dt)
    expected = way * (1.0 - (1.0 + 10.0 * time) * torch.exp(-10.0 * time))
    torch.testing.assert_close(arm(env) - start, expected, rtol=0.1, atol=2e-3)


def test_efforts_follow_the_formula_in_the_first_physics_step():
    """At rest at home: kp times the way, within the joints' limits, and gains of the action."""

    def first(actions: list[float], **settings: Any) -> list[float]:
        env = make_torque_arm(action(**settings))
        term, written = env.action_manager.get_term("arm"), []
        control = term.control

        def remembered() -> None:
            control()
            written.append(env.sim.ctrl[0, :NUM_JOINTS].clone())

        term.apply(torch.tensor([actions, actions]))
        remembered()
        return written[0].tolist()

    still = [0.0] * NUM_JOINTS
    assert first([0.1, *still[1:]], command_type="p_rel")[0] == pytest.approx(10.0, rel=1e-4)
    assert first(list(HOME)) == pytest.approx(still, abs=1e-3)
    offset = [HOME[0] - 0.2, *HOME[1:]]
    assert first(still, dof_pos_offset=offset)[0] == pytest.approx(-20.0, rel=1e-4)
    far = first([9.0, *still[1:]], command_type="p_rel", stiffness=1.0)[0]
    assert far == pytest.approx(2.8973 - HOME[0], rel=1e-3)  # its limit
    soft = first([0.1, *still[1:], *[20.0] * NUM_JOINTS], **VARIABLE, command_type="p_rel")
    assert soft[0] == pytest.approx(2.0, rel=1e-4)
    hard = first([0.1, *still[1:], *[999.0] * NUM_JOINTS], **VARIABLE, command_type="p_rel")
    assert hard[0] == pytest.approx(30.0, rel=1e-4)  # the bound of 300


VARIABLE = {"impedance_mode": "variable_kp"}


def test_it_keeps_the_promises_of_every_task():
    settings = {"impedance_mode": "variable", "inertial_compensation": True}
    assert_keeps_promises(torque_arm(action(**settings)))


def test_settings_that_make_no_sense_are_refused():
    assert_refused(
        {
            "command_type is 'v_abs', but must be one of 'p_abs', 'p_rel'": lambda: make_torque_arm(
                action(command_type="v_abs")
            ),
            "stiffness is .*, but must be a number, or one for each of the 7": lambda: (
                make_torque_arm(action(stiffness=[1.0]))
            ),
        }
    )
