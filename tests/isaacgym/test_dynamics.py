"""Force sensors, Jacobians and mass matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from envlab.errors import ConfigurationError
from envlab_isaacgym import gymapi
from tests.isaacgym.worlds import World, joint, link, options, pose

pytestmark = pytest.mark.usefixtures("backend")

ARM = (
    link("base", 3.0),
    link("upper", 2.0),
    link("lower", 1.0),
    joint("shoulder", "base", "upper", axis="0 1 0", xyz="0.1 0 0"),
    joint("elbow", "upper", "lower", axis="0.6 0 0.8", xyz="0 0.3 0.5"),
)


def arms(tmp_path, fixed: bool, num_envs: int = 3) -> World:
    """Arms in random states, with a force sensor on the last link, each behind a ball."""
    balls = []

    def fill(world: World, env: gymapi.Env) -> None:
        arm = world.once(lambda: world.load(tmp_path, *ARM, fix_base_link=fixed))
        if not balls:
            balls.append(world.gym.create_sphere(world.sim, 0.1))
            turned = gymapi.Transform(gymapi.Vec3(0, 0, 0.2), gymapi.Quat.from_euler_zyx(1, 0, 0))
            world.gym.create_asset_force_sensor(arm, 2, turned)
        world.put(env, balls[0], pose(5, 0, 1), "ball")
        world.put(env, arm, pose(0, 0, 1), "arm")

    world = World(num_envs, fill)
    torch.manual_seed(1)
    states = world.acquired("actor_root_state").clone()
    if not fixed:
        quats = torch.nn.functional.normalize(torch.randn(num_envs, 4), dim=-1)
        states[:, 1] = torch.cat((torch.randn(num_envs, 3), quats, torch.randn(num_envs, 6)), -1)
    world.set("actor_root_state", states)
    world.set("dof_state", torch.randn(num_envs * 2, 2))
    return world


@pytest.mark.parametrize("fixed", [True, False])
def test_jacobian_gives_bodies_velocities_and_mass_matrix_the_kinetic_energy(tmp_path, fixed):
    world = arms(tmp_path, fixed)
    world.gym.acquire_jacobian_tensor(world.sim, "arm")
    world.gym.refresh_jacobian_tensors(world.sim)
    jacobian = world.gym.acquire_jacobian_tensor(world.sim, "arm").values
    assert jacobian.shape == ((3, 2, 6, 2) if fixed else (3, 3, 6, 8))
    matrix = world.gym.acquire_mass_matrix_tensor(world.sim, "arm").values
    world.gym.refresh_mass_matrix_tensors(world.sim)
    assert matrix.shape == ((3, 2, 2) if fixed else (3, 8, 8))
    speeds = world.refreshed("dof_state")[..., 1]
    if not fixed:
        roots = world.refreshed("actor_root_state")[:, 1, 7:]
        speeds = torch.cat((roots, speeds), dim=-1)
    bodies = world.refreshed("rigid_body_state")[:, 1:, 7:]
    expected = bodies[:, 1:] if fixed else bodies
    torch.testing.assert_close((jacobian @ speeds[:, None, :, None])[..., 0], expected)
    energy = 0.5 * (speeds[:, None] @ matrix @ speeds[..., None]).flatten()
    # The links' centres of mass are their frames' origins, and each turns with 0.01 kg m^2.
    masses = torch.tensor([3.0, 2.0, 1.0])
    linear = (masses * bodies[..., :3].square().sum(-1)).sum(-1)
    angular = 0.01 * bodies[..., 3:].square().sum((-1, -2))
    torch.testing.assert_close(energy, 0.5 * (linear + angular))


def test_force_sensors_measure_the_net_force_on_a_body(tmp_path):
    """It is the change of momentum; a body at rest has none, gravity included."""
    world = arms(tmp_path, fixed=False)
    world.acquired("force_sensor")
    world.run(1)
    before = world.refreshed("rigid_body_state")[:, 3].clone()
    world.run(1)
    after = world.refreshed("rigid_body_state")[:, 3]
    readings = world.refreshed("force_sensor")[:, 0]
    force = 1.0 * (after[:, 7:10] - before[:, 7:10]) / 0.005
    torque = 0.01 * (after[:, 10:] - before[:, 10:]) / 0.005
    turn = gymapi.Quat.from_euler_zyx(1, 0, 0)
    for env in range(3):
        pose_then = gymapi.Transform(r=gymapi.Quat(*before[env, 3:7].tolist()))
        frame = pose_then.r * turn
        arm = pose_then.r.rotate(gymapi.Vec3(0, 0, 0.2))
        pulled = gymapi.Vec3(*force[env].tolist())
        moved = gymapi.Vec3(*torque[env].tolist()) - arm.cross(pulled)
        expected = [frame.inverse().rotate(one) for one in (pulled, moved)]
        values = [value for one in expected for value in (one.x, one.y, one.z)]
        assert readings[env].tolist() == pytest.approx(values, rel=0.05, abs=0.3)


def test_force_sensors_of_bodies_at_rest_read_zero():
    def fill(world: World, env: gymapi.Env) -> None:
        asset = world.gym.create_box(world.sim, 0.2, 0.2, 0.2)
        world.gym.create_asset_force_sensor(asset, 0, gymapi.Transform())
        world.put(env, asset, pose(0, 0, 0.1))

    world = World(1, fill, ground=1.0)
    world.acquired("force_sensor")
    world.run(400)
    assert world.refreshed("force_sensor").abs().max() < 0.1
    states = world.refreshed("actor_root_state").clone()
    states[..., 2] = 5.0
    world.set("actor_root_state", states)
    world.run(2)
    weight = 8.0 * 9.81
    falling = [0, 0, -weight, 0, 0, 0]
    assert world.refreshed("force_sensor")[0, 0].tolist() == pytest.approx(falling, abs=1e-2)


def test_actor_that_is_not_there_is_named(tmp_path):
    world = arms(tmp_path, fixed=True, num_envs=1)
    with pytest.raises(ConfigurationError, match=r"No actor is called 'leg'; .* ball, arm"):
        world.gym.acquire_jacobian_tensor(world.sim, "leg")


def test_force_sensors_may_be_asked_for_where_there_are_none():
    world = World(1, lambda world, env: world.put(env, world.gym.create_sphere(world.sim, 0.1)))
    tensor = world.gym.acquire_force_sensor_tensor(world.sim)
    world.run(1)
    world.gym.refresh_force_sensor_tensor(world.sim)
    assert tensor.shape == (0, 6)


def test_frames_of_degrees_of_freedom_move_with_their_joints(tmp_path):
    """An arm 0.5 m long that turns by 90 degrees around z; its end turns around y."""
    parts = (
        link("base"),
        link("arm"),
        link("end"),
        joint("shoulder", "base", "arm", xyz="1 0 0"),
        joint("wrist", "arm", "end", xyz="0.5 0 0", axis="0 1 0"),
    )

    def fill(world: World, env: gymapi.Env) -> None:
        world.put(env, world.load(tmp_path, *parts), pose(z=2))

    world = World(1, fill, gravity=0.0)
    world.set("dof_state", torch.tensor([[math.pi / 2, 0.0], [0.0, 0.0]]))
    frame = world.gym.get_dof_frame(world.envs[0], 1)
    assert np.asarray(frame.origin) == pytest.approx([1.0, 0.5, 2.0], abs=1e-6)
    assert np.asarray(frame.axis) == pytest.approx([-1.0, 0.0, 0.0], abs=1e-6)
    frames = world.gym.get_actor_dof_frames(world.envs[0], 0)
    assert frames.dtype == gymapi.DofFrame.dtype
    assert frames["origin"][0].tolist() == pytest.approx((1.0, 0.0, 2.0))
    assert frames["axis"][1]["x"] == pytest.approx(-1.0)


def test_tendons_have_properties_of_their_own_in_each_environment(tmp_path):
    """A tendon on a mass of 1 kg that slides along x: v = exp(-damping t)."""
    (tmp_path / "slide.xml").write_text(
        '<mujoco><worldbody><body name="b"><joint name="x" type="slide" axis="1 0 0"/>'
        '<geom size="0.1" mass="1"/></body></worldbody><tendon><fixed name="t">'
        '<joint joint="x" coef="1"/></fixed></tendon></mujoco>'
    )

    def fill(world: World, env: gymapi.Env) -> None:
        named, fixed = (world.sim, str(tmp_path), "slide.xml"), options(fix_base_link=True)
        world.put(env, world.once(lambda: world.gym.load_asset(*named, fixed)))
        set_damping(world, env, 1.0 + env.index)

    def set_damping(world: World, env: gymapi.Env, damping: float) -> None:
        (tendon,) = world.gym.get_actor_tendon_properties(env, 0)
        tendon.damping = damping
        assert world.gym.set_actor_tendon_properties(env, 0, [tendon])

    world = World(2, fill, gravity=0.0, dt=0.002)
    moving = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    for change in (0.0, 2.0):  # then again, after they have changed
        for number, env in enumerate(world.envs):
            set_damping(world, env, 1.0 + number + change)
        world.set("dof_state", moving)
        world.run(500)
        speeds = world.refreshed("dof_state")[:, 0, 1]
        expected = torch.exp(-(torch.tensor([1.0, 2.0]) + change))
        torch.testing.assert_close(speeds, expected, atol=2e-3, rtol=0)
    assert world.gym.get_actor_tendon_properties(world.envs[1], 0)[0].damping == 4.0
