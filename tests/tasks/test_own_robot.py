"""A user's own robot file replaces a task's, by overrides alone."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import VectorEnv
from envlab.errors import ConfigurationError
from tests.tasks import making

INERTIAL = (
    '<inertial><origin xyz="0 0 {z}"/><mass value="{mass}"/><inertia ixx="0.01" iyy="0.01" '
    'izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>'
)
CARTPOLE = f"""<?xml version="1.0"?>
<robot name="my_cartpole">
  <link name="world"/>
  <link name="cart">{INERTIAL.format(z=0, mass=2)}
    <visual><geometry><box size="0.2 0.1 0.1"/></geometry></visual></link>
  <link name="pole">{INERTIAL.format(z=0.5, mass=0.1)}
    <visual><origin xyz="0 0 0.5"/><geometry><box size="0.05 0.05 1"/></geometry></visual>
  </link>
  <joint name="{{slider}}" type="prismatic"><parent link="world"/><child link="cart"/>
    <axis xyz="1 0 0"/><limit lower="-4" upper="4" effort="400" velocity="100"/></joint>
  <joint name="cart_to_pole" type="continuous"><parent link="cart"/><child link="pole"/>
    <axis xyz="0 1 0"/></joint>
</robot>
"""


def make(folder, *overrides: str, slider: str = "slider_to_cart") -> VectorEnv:
    path = folder / "my_cartpole.urdf"
    path.write_text(CARTPOLE.format(slider=slider))
    return making.make("Isaac-Cartpole-v0", f"env.scene.model={path}", *overrides, num_envs=4)


MOTOR = "env.scene.actuators={slider_to_cart:{effort_limit:150}}"


def test_a_urdf_cart_balances_under_the_task_of_another(tmp_path):
    env = make(tmp_path, MOTOR, "env.scene.init_state={joint_pos:{cart_to_pole:0.1}}")
    assert [env.sim.model.joint(i).name for i in range(2)] == ["slider_to_cart", "cart_to_pole"]
    assert env.default_qpos.tolist() == [[0.0, pytest.approx(0.1)]]
    making.put(env, [0.0, 0.0])
    env.step(torch.tensor([[1.0], [-1.0], [3.0], [0.0]]))  # 100 N per unit, at most 150 N
    velocity = env.sim.data.qvel[:, 0]
    # A heavy pole's centre is 0.5 m up: close to 2.1 kg in all, for one step of 1/60 s.
    assert velocity[0] == pytest.approx(100.0 / 2.1 / 60.0, rel=0.05)
    assert velocity[1] == pytest.approx(-float(velocity[0]), rel=1e-3)
    assert velocity[2] == pytest.approx(1.5 * float(velocity[0]), rel=1e-3)
    assert velocity[3] == 0.0


def test_parts_missing_from_the_file_are_named_with_those_it_has(tmp_path):
    with pytest.raises(ConfigurationError, match="'slider_to_cart', which has 0 actuators"):
        make(tmp_path)
    with pytest.raises(ConfigurationError, match="matches 'slider_to_cart'; it has rail, cart_to"):
        make(tmp_path, MOTOR, slider="rail")
