"""Go2 and H1 stand, and both backends agree; test_fidelity.py holds the tasks' numbers."""

from __future__ import annotations

from functools import partial

import mujoco
import pytest
import torch

from envlab import registry
from envlab.envs import SceneEntityCfg, VectorEnv
from envlab.envs.entities import resolve_entity
from envlab.envs.scene import load_model
from tests.tasks import making

GO2, H1 = "Isaac-Velocity-Flat-Unitree-Go2-v0", "Isaac-Velocity-Flat-H1-v0"
LEGS = ("FL", "FR", "RL", "RR")


make = partial(making.make, num_envs=2)


def cfg_of(task_id: str):
    return registry.load_env_cfg(registry.get_task(task_id))


def stand(env: VectorEnv, steps: int) -> None:
    """Step with action 0."""
    for _ in range(steps):
        env.step(torch.zeros_like(env.actions))


# The robots ---------------------------------------------------------------------------------------


def test_go2s_motors_are_isaac_labs():
    """25 N m/rad and 0.5 N m s/rad, within 23.5 N m at rest, none at 30 rad/s."""
    model = load_model(cfg_of(GO2).scene.model)
    data = mujoco.MjData(model)
    for error, velocity, torque in (
        *((0.2, 0.0, 5.0), (0.2, 4.0, 3.0), (3.0, 0.0, 23.5), (3.0, 10.0, 23.5 * 2 / 3)),
        *((3.0, 30.0, 0.0), (-3.0, 10.0, -23.5), (-3.0, -15.0, -23.5 / 2)),
    ):
        data.ctrl[:] = data.qpos[7:] + error
        data.qvel[6:] = velocity
        mujoco.mj_forward(model, data)
        found = data.actuator_force.tolist()
        assert found == pytest.approx([torque] * 12, abs=1e-6), (error, velocity)


def test_go2_stands_still_with_action_zero():
    env = make(GO2, "env.events.add_base_mass=null", "env.events.physics_material=null")
    stand(env, 150)
    before = env.sim.data.qpos.clone()
    stand(env, 250)
    drift = (env.sim.data.qpos - before)[:, :2].norm(dim=1)
    assert drift.max() < 0.02
    assert before[:, 2].tolist() == pytest.approx([0.283] * 2, abs=0.005)
    assert env.sim.data.qpos[:, 2].tolist() == pytest.approx(before[:, 2].tolist(), abs=0.003)
    feet = env.sensor_manager.get_term("contact_forces")
    touching = [n for n, c in zip(feet.body_names, feet.in_contact[0], strict=True) if c]
    assert touching == [f"{leg}_foot" for leg in LEGS]
    forces = feet.net_forces_w[0].sum(dim=0)
    assert forces.tolist() == pytest.approx([0.0, 0.0, 15.017 * 9.81], abs=1.0)


# The penalty of accelerations ---------------------------------------------------------------------


@pytest.mark.parametrize("task_id", [GO2, "Isaac-Velocity-Flat-G1-v0"])
def test_accelerations_are_differences_of_velocities_as_in_isaac_lab(task_id):
    """Plain MuJoCo repeats the control step; Isaac Lab divides differences by the physics step."""
    env = make(task_id, "env.events.add_base_mass=null", "env.events.physics_material=null")
    generator = torch.Generator().manual_seed(0)
    for _ in range(10):
        env.step(torch.randn(env.actions.shape, generator=generator))
    term, model = env.cfg.rewards.dof_acc_l2, env.sim.model
    joints = resolve_entity(
        term.params.get("asset_cfg", SceneEntityCfg("robot")), model, env.device
    )
    data = env.sim.data_of(0)
    env.step(torch.randn(env.actions.shape, generator=generator))
    data.ctrl[:] = env.sim.ctrl[0]
    velocities = []
    for _ in range(4):
        mujoco.mj_step(model, data)
        velocities.append(data.qvel[joints.qvel_ids].copy())
    assert velocities[-1].tolist() == pytest.approx(
        env.sim.data.qvel[0, joints.qvel_ids].tolist(), abs=1e-3
    )
    expected = (((velocities[-1] - velocities[-2]) / 0.005) ** 2).sum()
    index = env.reward_manager.active_terms.index("dof_acc_l2")
    value = env.reward_manager.step_values[index, 0].item() / (term.weight * 0.02)
    assert value == pytest.approx(expected, rel=0.01)
