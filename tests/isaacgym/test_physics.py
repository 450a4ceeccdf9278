"""States, forces and drives, where MuJoCo and PhysX differ."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from envlab.errors import ConfigurationError, DeviceError
from envlab_isaacgym import gymapi, gymtorch
from tests.isaacgym.worlds import SLIDER, World, box, joint, link, options, pose, urdf
from tests.refusals import check_refusals

pytestmark = pytest.mark.usefixtures("backend")
QUARTER_TURN = [0.0, 0.0, math.sqrt(0.5), math.sqrt(0.5)]
"""Around z, as x, y, z, w."""


def boxes(num_envs: int, **settings) -> World:
    """A box of 8 kg in each environment, 1 m up."""

    def fill(world: World, env: gymapi.Env) -> None:
        world.put(env, world.once(lambda: box(world)), pose(env.index, 0, 1))

    return World(num_envs, fill, **settings)


def sliders(tmp_path, num_envs: int, dt: float = 0.005, **properties) -> World:
    """A mass of 1 kg on a rail, with DOF properties, which may differ between environments."""

    def fill(world: World, env: gymapi.Env) -> None:
        actor = world.put(env, world.once(lambda: world.load(tmp_path, *SLIDER)))
        values = world.gym.get_actor_dof_properties(env, actor)
        for name, value in properties.items():
            values[name] = value[env.index] if isinstance(value, list) else value
        world.gym.set_actor_dof_properties(env, actor, values)

    return World(num_envs, fill, gravity=0.0, dt=dt)


def test_root_states_are_xyzw_and_in_the_world_frame():
    world = boxes(3, gravity=0.0)
    address = world.acquired("actor_root_state").data_ptr()
    states = world.acquired("actor_root_state").clone()
    half = math.sqrt(0.5)
    states[:, 0, :] = torch.tensor([1.0, 2, 3, half, 0, 0, half, 0.1, 0.2, 0.3, 0.5, 1.5, -0.5])
    world.set("actor_root_state", states)
    torch.testing.assert_close(world.refreshed("actor_root_state"), states)
    world.run(100)
    moved = world.refreshed("actor_root_state")[0, 0]
    # A cube turns about any axis at a constant velocity, and its centre goes straight.
    torch.testing.assert_close(moved[7:], states[0, 0, 7:], atol=1e-4, rtol=0)
    straight = states[0, 0, :3] + 0.5 * states[0, 0, 7:10]
    torch.testing.assert_close(moved[:3], straight, atol=1e-4, rtol=0)
    torch.testing.assert_close(world.refreshed("rigid_body_state")[0, 0], moved)
    assert world.acquired("actor_root_state").data_ptr() == address


def test_indexed_setters_leave_other_actors_alone():
    world = boxes(3, gravity=0.0)
    before = world.acquired("actor_root_state").clone()
    new = torch.full_like(before, 7.0)
    new[..., 3:7] = torch.tensor([0.0, 0, 0, 1])
    world.set("actor_root_state", new, [1])
    world.run(1)
    after = world.refreshed("actor_root_state")
    torch.testing.assert_close(after[[0, 2]], before[[0, 2]])
    assert after[1, 0, 2] == pytest.approx(7.0 + 7.0 * 0.005, abs=1e-4)


def test_contact_forces_are_the_bodies_own_beside_force_sensors():
    def fill(world: World, env: gymapi.Env) -> None:
        for x in (0.0, 1.0):
            asset = box(world)
            world.gym.create_asset_force_sensor(asset, 0, gymapi.Transform())
            world.put(env, asset, pose(x, 0, 0.1), f"box{x}")

    world = World(1, fill, ground=1.0)
    world.acquired("force_sensor")
    world.acquired("net_contact_force")
    world.run(400)
    weight = 1000 * 0.2**3 * 9.81
    expected = torch.tensor([[0.0, 0.0, weight]]).repeat(2, 1)
    forces = world.refreshed("net_contact_force")[0]
    torch.testing.assert_close(forces, expected, rtol=1e-2, atol=0.1)
    assert world.refreshed("actor_root_state")[0, 0, 2] == pytest.approx(0.1, abs=2e-3)


def frictions_of_slabs(fill, ground: float | None) -> torch.Tensor:
    """Return the friction that holds back the first actor, which slides, in each environment."""
    world = World(2, fill, ground=ground, dt=0.002)
    world.acquired("net_contact_force")
    world.run(100)
    states = world.refreshed("actor_root_state").clone()
    states[:, 0, 7] = 3.0
    world.set("actor_root_state", states)
    total = torch.zeros(2, 3)
    for _ in range(50):
        world.run(1)
        total += world.refreshed("net_contact_force")[:, 0]
    return -total[:, 0] / total[:, 2]


def put(world: World, env: gymapi.Env, asset: gymapi.Asset, z: float, friction: float) -> None:
    actor = world.put(env, asset, pose(0, 0, z), f"at{z}")
    props = world.gym.get_actor_rigid_shape_properties(env, actor)
    props[0].friction = friction
    world.gym.set_actor_rigid_shape_properties(env, actor, props)


def test_friction_is_the_average_of_both_surfaces():
    """The ground holds back a slab that slides; MuJoCo would take the larger friction."""

    def fill(world: World, env: gymapi.Env) -> None:
        slab = world.once(lambda: world.gym.create_box(world.sim, 0.6, 0.6, 0.02))
        put(world, env, slab, 0.01, (0.2, 1.0)[env.index])

    found = frictions_of_slabs(fill, ground=0.6)
    torch.testing.assert_close(found, torch.tensor([0.4, 0.8]), rtol=0.02, atol=0)


def test_actors_of_one_friction_have_that_of_their_own_environment():
    """As hora draws one for hand and object; both would slide as in environment 0."""
    frictions = (0.2, 1.0)

    def fill(world: World, env: gymapi.Env) -> None:
        floor = world.gym.create_box(world.sim, 4.0, 4.0, 0.2, options(fix_base_link=True))
        slab = world.gym.create_box(world.sim, 0.6, 0.6, 0.02)
        for asset, z in ((slab, 0.01), (floor, -0.1)):
            put(world, env, asset, z, frictions[env.index])

    found = frictions_of_slabs(fill, ground=None)
    torch.testing.assert_close(found, torch.tensor(frictions), rtol=0.02, atol=0)


def test_shapes_collide_if_groups_agree_and_filters_share_no_bit():
    pairs = (
        *(((0, 0), (0, 0), True), ((0, 0), (1, 1), False), ((0, 0), (1, 2), True)),
        *(((0, 0), (3, 2), False), ((0, 1), (0, 0), False), ((0, -1), (0, 0), True)),
    )

    def fill(world: World, env: gymapi.Env) -> None:
        asset = box(world)
        for number, (groups, filters, _) in enumerate(pairs):
            for x, group, bits in zip((0.0, 0.15), groups, filters, strict=True):
                place = pose(x, 2.0 * number, 1)
                world.gym.create_actor(env, asset, place, f"{number} {x}", group, bits)

    world = World(1, fill, gravity=0.0)
    forces = world.refreshed("net_contact_force").view(len(pairs), -1)
    assert forces.any(dim=1).tolist() == [collide for *_, collide in pairs]


def test_a_filter_of_minus_one_means_the_masks_of_the_file(tmp_path):
    ball = '<body><joint type="slide"/><geom size="0.1" contype="1" conaffinity="0"/></body>'
    (tmp_path / "balls.xml").write_text(
        f'<mujoco><worldbody><body name="rod">{ball}{ball}</body></worldbody></mujoco>'
    )

    def fill(world: World, env: gymapi.Env) -> None:
        asset = world.gym.load_asset(world.sim, str(tmp_path), "balls.xml")
        for place, bits in enumerate((-1, 0)):
            world.put(env, asset, pose(3.0 * place, 0, 1), f"balls {place}", bits)
        world.put(env, box(world), pose(9.0, 0, 1), "box")

    world = World(1, fill, gravity=0.0)
    forces = world.refreshed("net_contact_force")[0]
    per_actor = forces[: 2 * ((len(forces) - 1) // 2)].view(2, -1)
    assert per_actor.any(dim=1).tolist() == [False, True]
    model = world.sim.physics.scene.model
    touching = model.geom("0/geoms_0"), model.geom("2/geoms_0")
    assert int(touching[0].contype[0]) & int(touching[1].conaffinity[0])


def test_drives_are_stable_at_any_stiffness(tmp_path):
    stiffness = [10.0**power for power in range(2, 9)]
    drive = {"driveMode": gymapi.DOF_MODE_POS, "effort": 1e30, "velocity": 1e9}
    damping = [2 * math.sqrt(one) for one in stiffness]
    world = sliders(tmp_path, 7, dt=1 / 60, stiffness=stiffness, damping=damping, **drive)
    world.set("dof_position_target", torch.full((7,), 0.5))
    world.run(240)
    positions = world.refreshed("dof_state")[:, 0, 0]
    torch.testing.assert_close(positions, torch.full_like(positions, 0.5), rtol=0, atol=1e-3)


def test_stiff_drives_of_little_effort_do_not_swing(tmp_path):
    """A gripper of Isaac Gym's Franka: 1e6 N/m and 200 N at 60 Hz. It swung by 0.5 m for ever."""
    drive = {"driveMode": gymapi.DOF_MODE_POS, "stiffness": 1e6, "damping": 100.0, "effort": 200.0}
    world = sliders(tmp_path, 2, dt=1 / 60, upper=[3.0, 0.01], velocity=1e9, **drive)
    world.acquired("dof_force")
    world.set("dof_position_target", torch.full((2,), 0.03))
    reached = []
    for _ in range(60):
        world.run(1)
        reached.append(world.refreshed("dof_state")[:, 0, 0].clone())
    assert max(one[0] for one in reached) < 0.031
    assert reached[-1][0] == pytest.approx(0.03, abs=1e-4)
    # The second one's end stop blocks it: it pushes with its effort, not with 2e4 N.
    assert reached[-1][1] == pytest.approx(0.01, abs=0.01)
    assert world.refreshed("dof_force")[:, 0].tolist() == pytest.approx([0.0, 200.0], abs=6.0)


def test_velocity_drives_reach_their_targets_and_no_drive_pushes_beyond_its_effort(tmp_path):
    world = sliders(tmp_path, 2, driveMode=gymapi.DOF_MODE_VEL, damping=[10.0, 1e5], effort=1e6)
    world.set("dof_velocity_target", torch.tensor([0.5, -0.5]))
    world.run(200)
    speeds = world.refreshed("dof_state")[:, 0, 1]
    torch.testing.assert_close(speeds, torch.tensor([0.5, -0.5]), rtol=0, atol=1e-3)
    drive = {"driveMode": gymapi.DOF_MODE_POS, "stiffness": 1e3, "damping": 1.0, "effort": 2.0}
    world = sliders(tmp_path, 1, **drive)
    world.acquired("dof_force")
    world.set("dof_position_target", torch.full((1,), 3.0))
    world.run(10)
    assert world.refreshed("dof_state")[0, 0, 1] == pytest.approx(2.0 * 0.05, rel=1e-3)
    assert world.refreshed("dof_force")[0, 0] == pytest.approx(2.0)


def test_drives_of_an_mjcf_file_reach_their_targets(tmp_path):
    """As Shadow's hand has them, whose tasks leave the mode to the file."""
    (tmp_path / "arm.xml").write_text(
        """<mujoco><worldbody><body name="base"><geom size="0.1" mass="1"/>
        <body name="arm"><joint name="turn" damping="0.1"/>
        <geom size="0.05" pos="0.2 0 0" mass="1"/>
        <body name="hand" pos="0.4 0 0"><joint name="grip"/><geom size="0.05" mass="0.1"/>
        </body></body></body></worldbody><actuator>
        <position name="A" joint="turn" kp="20" forcerange="-3 2"/>
        <motor name="B" joint="grip" gear="7"/></actuator></mujoco>"""
    )

    def fill(world: World, env: gymapi.Env) -> None:
        wanted = options(fix_base_link=True, default_dof_drive_mode=gymapi.DOF_MODE_NONE)
        world.put(env, world.gym.load_asset(world.sim, str(tmp_path), "arm.xml", wanted))

    world = World(1, fill, gravity=0.0)
    properties = world.gym.get_actor_dof_properties(world.envs[0], 0)
    assert properties["driveMode"].tolist() == [gymapi.DOF_MODE_POS, gymapi.DOF_MODE_NONE]
    assert (properties["stiffness"][0], properties["effort"][0]) == (20.0, 3.0)
    assert properties["damping"][0] == pytest.approx(0.1)
    drive, motor = world.gym.get_asset_actuator_properties(world.envs[0].actors[0].asset)
    assert (drive.kp, motor.kp, motor.motor_effort) == (20.0, 0.0, 7.0)
    world.set("dof_position_target", torch.tensor([0.5, 0.5]))
    world.run(2000)
    assert world.refreshed("dof_state")[0, 0, 0] == pytest.approx(0.5, abs=0.01)


def test_efforts_move_for_one_step_and_are_measured(tmp_path):
    world = sliders(tmp_path, 2, driveMode=gymapi.DOF_MODE_EFFORT)
    world.acquired("dof_force")
    world.set("dof_actuation_force", torch.tensor([4.0, 8.0]), [1])
    world.run(1)
    torch.testing.assert_close(world.refreshed("dof_force")[:, 0], torch.tensor([0.0, 8.0]))
    speeds = world.refreshed("dof_state")[:, 0, 1].clone()
    torch.testing.assert_close(speeds, torch.tensor([0.0, 8.0 * 0.005]))
    world.run(1)
    torch.testing.assert_close(world.refreshed("dof_state")[:, 0, 1], speeds)


def pushed(world: World, force: float, steps: int) -> torch.Tensor:
    """Return states of sliders that were pushed all the time, ``(num_envs, 2)``."""
    for _ in range(steps):
        world.set("dof_actuation_force", torch.full((world.num_envs,), force))
        world.run(1)
    return world.refreshed("dof_state")[:, 0]


def test_limits_of_joints_hold_and_differ_between_environments(tmp_path):
    world = sliders(tmp_path, 1, driveMode=gymapi.DOF_MODE_EFFORT, velocity=0.3)
    assert pushed(world, 50.0, 20)[0, 1] == pytest.approx(0.3)
    world = sliders(tmp_path, 2, driveMode=gymapi.DOF_MODE_EFFORT, upper=[0.1, 0.2])
    expected = torch.tensor([0.1, 0.2])
    torch.testing.assert_close(pushed(world, 5.0, 200)[:, 0], expected, rtol=0, atol=5e-3)
    for env in world.envs:  # they can change alike in all environments while it runs
        properties = world.gym.get_actor_dof_properties(env, 0)
        properties["upper"] = 0.3
        world.gym.set_actor_dof_properties(env, 0, properties)
    expected = torch.full((2,), 0.3)
    torch.testing.assert_close(pushed(world, 5.0, 200)[:, 0], expected, rtol=0, atol=5e-3)


def test_masses_differ_between_environments_in_one_model():
    def fill(world: World, env: gymapi.Env) -> None:
        actor = world.put(env, world.once(lambda: box(world)), pose(0, 0, 1))
        props = world.gym.get_actor_rigid_body_properties(env, actor)
        props[0].mass = 8.0 * (1 + env.index)
        world.gym.set_actor_rigid_body_properties(env, actor, props, recomputeInertia=True)

    world = World(2, fill, gravity=0.0)
    world.push(torch.tensor([[16.0, 0.0, 0.0]]).repeat(2, 1))
    world.run(2)  # forces are of one step
    speeds = world.refreshed("actor_root_state")[:, 0, 7]
    torch.testing.assert_close(speeds, torch.tensor([2.0, 1.0]) * 0.005)


def test_a_centre_of_mass_may_lie_elsewhere_in_an_environment():
    """hora moves those of its cylinders: MuJoCo takes the inertia of lone bodies to be central."""

    def fill(world: World, env: gymapi.Env) -> None:
        actor = world.put(env, world.once(lambda: box(world)), pose(0, 0, 1))
        props = world.gym.get_actor_rigid_body_properties(env, actor)
        props[0].com.y = 0.02 * env.index
        world.gym.set_actor_rigid_body_properties(env, actor, props)

    world = World(2, fill, gravity=0.0)
    places = world.refreshed("actor_root_state")[:, 0, :3]
    world.push(torch.tensor([[16.0, 0.0, 0.0]]).repeat(2, 1), at=places)
    world.run(1)
    spins = world.refreshed("actor_root_state")[:, 0, 12]
    inertia = 8.0 * 0.2**2 / 6
    expected = torch.tensor([0.0, 16.0 * 0.02 / inertia * 0.005])
    torch.testing.assert_close(spins, expected, atol=1e-5, rtol=0)


def test_forces_act_in_the_local_frame_and_at_points():
    world = boxes(1, gravity=0.0)
    states = world.acquired("actor_root_state").clone()
    states[0, 0, 3:7] = torch.tensor(QUARTER_TURN)
    world.set("actor_root_state", states)
    force = torch.tensor([[8.0, 0.0, 0.0]])
    world.gym.apply_rigid_body_force_tensors(
        world.sim, gymtorch.unwrap_tensor(force), None, gymapi.LOCAL_SPACE
    )
    world.run(1)
    linear = world.refreshed("actor_root_state")[0, 0, 7:10]
    torch.testing.assert_close(linear, torch.tensor([0.0, 0.005, 0.0]), atol=1e-6, rtol=0)
    world.set("actor_root_state", states)
    world.push(force, at=states[0, :1, :3] + torch.tensor([0.0, 0.1, 0.0]))
    world.run(1)
    inertia = 8.0 * 0.2**2 / 6
    angular = world.refreshed("actor_root_state")[0, 0, 10:]
    expected = torch.tensor([0.0, 0.0, -0.1 * 8.0 / inertia * 0.005])
    torch.testing.assert_close(angular, expected, atol=1e-5, rtol=0)


def test_fixed_actors_stand_where_they_were_made_in_each_environment(tmp_path):
    def fill(world: World, env: gymapi.Env) -> None:
        world.put(env, world.once(lambda: world.load(tmp_path, *SLIDER)), pose(0, 0, 1 + env.index))

    world = World(2, fill)
    states = world.refreshed("actor_root_state")  # changed in place, as scripts do
    assert states[:, 0, 2].tolist() == [1.0, 2.0]
    states[1, 0, 0] = 5.0
    world.set("actor_root_state", states, [1])
    world.run(1)
    bodies = world.refreshed("rigid_body_state")
    assert bodies[:, 0, :3].tolist() == [[0.0, 0.0, 1.0], [5.0, 0.0, 2.0]]


def test_calls_may_come_in_any_order_before_the_first_step():
    seen = {}

    def fill(world: World, env: gymapi.Env) -> None:
        actor = world.put(env, box(world), pose(0, 0, 2))
        seen["pose"] = world.gym.get_rigid_transform(env, actor)
        seen["roots"] = gymtorch.wrap_tensor(world.gym.acquire_actor_root_state_tensor(world.sim))

    world = World(1, fill)
    assert seen["pose"].p.z == seen["roots"][0, 2] == 2.0
    with pytest.raises(ConfigurationError, match="after a tensor was acquired"):
        world.gym.create_env(world.sim, gymapi.Vec3(), gymapi.Vec3(), 1)
    world.run(1)
    assert world.gym.get_sim_time(world.sim) == pytest.approx(0.005)
    late = world.refreshed("net_contact_force")  # recreates the simulation, with its state
    assert late.shape == (1, 1, 3)
    world.run(1)
    assert world.refreshed("actor_root_state")[0, 0, 9] == pytest.approx(-9.81 * 0.01, rel=1e-3)


def test_states_of_single_actors_follow_and_set_the_tensors(tmp_path):
    world = sliders(tmp_path, 2, driveMode=gymapi.DOF_MODE_EFFORT)
    gym, env = world.gym, world.envs[1]
    states = gym.get_actor_dof_states(env, 0, gymapi.STATE_ALL)
    states["pos"], states["vel"] = 0.25, 1.0
    gym.set_actor_dof_states(env, 0, states, gymapi.STATE_POS)
    assert world.refreshed("dof_state").tolist() == [[[0.0, 0.0]], [[0.25, 0.0]]]
    gym.set_actor_dof_states(env, 0, states, gymapi.STATE_VEL)
    assert world.refreshed("dof_state")[1, 0].tolist() == [0.25, 1.0]
    world.run(1)
    bodies = gym.get_actor_rigid_body_states(env, 0, gymapi.STATE_ALL)
    assert bodies["pose"]["p"]["x"][1] == pytest.approx(0.255)
    assert gym.get_rigid_linear_velocity(env, 1).x == pytest.approx(1.0)
    assert gym.get_dof_position(env, 0) == pytest.approx(0.255)


def test_gravity_can_change_and_be_off_for_an_asset():
    def fill(world: World, env: gymapi.Env) -> None:
        floating = world.gym.create_sphere(world.sim, 0.1, options(disable_gravity=True))
        world.put(env, floating, pose(2, 0, 1), "floating")
        world.put(env, box(world), pose(0, 0, 1), "box")

    world = World(1, fill)
    world.run(1)
    params = world.gym.get_sim_params(world.sim)
    params.gravity = gymapi.Vec3(0, 0, -2.0)
    world.gym.set_sim_params(world.sim, params)
    world.run(1)
    speeds = world.refreshed("actor_root_state")[0, :, 9]
    expected = torch.tensor([0.0, -(9.81 + 2.0) * 0.005])
    torch.testing.assert_close(speeds, expected, atol=1e-6, rtol=1e-4)


def test_heightfields_hold_falling_objects():
    heights = np.zeros((11, 11), dtype=np.int16)
    heights[5:, :] = 10  # a step of 0.5 m along x

    def fill(world: World, env: gymapi.Env) -> None:
        if not env.index:
            params = gymapi.HeightFieldParams()
            params.nbColumns, params.nbRows = heights.shape
            params.column_scale = params.row_scale = 1.0
            params.vertical_scale = 0.05
            params.transform.p.y = -5.0
            for x in (-5.0, 20.0):  # a second terrain next to the first
                params.transform.p.x = x
                world.gym.add_heightfield(world.sim, heights.flatten(), params)
        x = (-3.0, 3.0, 28.0)[env.index]
        world.put(env, world.once(lambda: box(world)), pose(x, 0.3, 1))

    world = World(3, fill)
    world.run(300)
    heights_reached = world.refreshed("actor_root_state")[:, 0, 2]
    torch.testing.assert_close(heights_reached, torch.tensor([0.1, 0.6, 0.6]), atol=1e-2, rtol=0)


def turned(world: World) -> torch.Tensor:
    """Return the spins around z that 2 N m give each first actor in a step of 5 ms."""
    torques = torch.tensor([[0.0, 0.0, 2.0]]).repeat(world.num_envs, 1)
    world.gym.apply_rigid_body_force_tensors(world.sim, None, gymtorch.unwrap_tensor(torques))
    world.run(1)
    return world.refreshed("actor_root_state")[:, 0, 12]


def test_actors_of_one_build_may_have_a_size_and_weight_of_their_own_in_each_environment():
    sizes, densities = torch.tensor([0.2, 0.6, 0.4]), torch.tensor([1000.0, 200.0, 1000.0])
    masses = densities * sizes**3

    def fill(world: World, env: gymapi.Env) -> None:
        asset = box(world, float(sizes[env.index]), float(densities[env.index]))
        world.put(env, asset, pose(0, 0, 0.5), f"box {env.index}")

    world = World(3, fill, ground=1.0)
    world.run(400)
    heights = world.refreshed("actor_root_state")[:, 0, 2]
    torch.testing.assert_close(heights, sizes / 2, atol=2e-3, rtol=0)
    weights = world.refreshed("net_contact_force")[:, 0, 2]
    torch.testing.assert_close(weights, masses * 9.81, atol=0, rtol=2e-3)

    spins = turned(World(3, fill, gravity=0.0))
    torch.testing.assert_close(spins, 2.0 * 0.005 * 6 / (masses * sizes**2), atol=0, rtol=1e-4)


def test_actors_of_another_build_are_refused(tmp_path):
    def make(kind: str) -> None:
        def fill(world: World, env: gymapi.Env) -> None:
            if env.index == 0:
                world.put(env, box(world))
            elif kind == "sphere":
                world.put(env, world.gym.create_sphere(world.sim, 0.1, options()))
            elif kind == "file":
                world.put(env, world.load(tmp_path, *SLIDER, fix_base_link=False))

        World(2, fill)

    check_refusals(
        make,
        [
            ("sphere", "Actor 'thing' of environment 1 is"),
            ("file", "Actor 'thing' of environment 1 is"),
            ("none", "Environment 1 has 0 actors, environment 0 has 1"),
        ],
    )


def test_gpu_pipeline_without_a_gpu_is_one_sentence():
    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    params = gymapi.SimParams()
    params.use_gpu_pipeline = True
    with pytest.raises(DeviceError, match="has no NVIDIA GPU"):
        gymapi.acquire_gym().create_sim(0, -1, gymapi.SIM_PHYSX, params)


def test_joints_measure_angles_as_the_file_says(tmp_path):
    arm = (link("base"), link("arm"), joint("turn", "base", "arm", axis="0 0 1", xyz="0 0 1"))
    world = World(1, lambda world, env: world.put(env, world.load(tmp_path, *arm)), gravity=0.0)
    world.set("dof_state", torch.tensor([[math.pi / 2, 0.0]]))
    bodies = world.refreshed("rigid_body_state")
    expected = torch.tensor([0, 0, 1.0, *QUARTER_TURN])
    torch.testing.assert_close(bodies[0, 1, :7], expected, atol=1e-6, rtol=0)


def test_scaled_actors_are_larger_and_heavier_by_their_volume():
    def fill(world: World, env: gymapi.Env) -> None:
        actor = world.put(env, world.once(lambda: box(world)), pose(0, 0, 0.5))
        world.gym.set_actor_scale(env, actor, np.array([(1.0, 2.5)[env.index]]))

    world = World(2, fill, ground=1.0)
    world.run(400)
    heights = world.refreshed("actor_root_state")[:, 0, 2]
    torch.testing.assert_close(heights, torch.tensor([0.1, 0.25]), atol=2e-3, rtol=0)
    weights = world.refreshed("net_contact_force")[:, 0, 2]
    assert float(weights[1] / weights[0]) == pytest.approx(2.5**3, rel=1e-3)
    first, second = turned(World(2, fill, gravity=0.0)).tolist()
    assert first / second == pytest.approx(2.5**5, rel=1e-3)  # mass times the square of the size


def test_attractors_hold_points_of_bodies_at_their_targets():
    def fill(world: World, env: gymapi.Env) -> None:
        assert world.put(env, box(world), pose(0, 0, 1)) == 0
        properties = gymapi.AttractorProperties()
        properties.axes, properties.rigid_handle = gymapi.AXIS_TRANSLATION, 0
        properties.offset.p.z, properties.target.p.z = 0.1, 1.1  # the middle of its top
        world.gym.create_rigid_body_attractor(env, properties)

    world = World(1, fill)
    world.run(200)
    held = world.refreshed("actor_root_state")[0, 0, :3]
    torch.testing.assert_close(held, torch.tensor([0.0, 0.0, 1.0]), atol=1e-3, rtol=0)
    world.gym.set_attractor_target(world.envs[0], 0, pose(0, 0, 1.3))
    world.run(400)
    assert world.refreshed("actor_root_state")[0, 0, 2] == pytest.approx(1.2, abs=2e-3)
    with pytest.raises(NotImplementedError, match="axes are 0"):
        world.gym.create_rigid_body_attractor(world.envs[0], gymapi.AttractorProperties())


def test_stiff_drives_hold_in_chains_that_attractors_close(tmp_path):
    """Two legs of IsaacGymEnvs' BallBalance with pinned feet: they burst in steps of 10 ms."""
    leg = (
        '<link name="{}"><inertial><mass value="0.5"/><origin xyz="0 0 -0.18"/>'
        '<inertia ixx="0.006" iyy="0.006" izz="1e-4" ixy="0" ixz="0" iyz="0"/></inertial></link>'
    )
    sides, parts = (("a", 0.4), ("b", -0.4)), [link("tray", 1.5)]
    for side, x in sides:
        upper, lower = f"upper_{side}", f"lower_{side}"
        parts += [leg.format(upper), leg.format(lower)]
        parts.append(joint(f"hip_{side}", "tray", upper, xyz=f"{x} 0 0", axis="0 1 0"))
        parts.append(joint(f"knee_{side}", upper, lower, xyz="0 0 -0.36", axis="0 1 0"))
    name = urdf(tmp_path, *parts)

    def fill(world: World, env: gymapi.Env) -> None:
        asset = world.gym.load_asset(world.sim, str(tmp_path), name)
        actor = world.put(env, asset, pose(z=0.72), "robot", 1)
        properties = world.gym.get_actor_dof_properties(env, actor)
        is_knee = ["knee" in one for one in world.gym.get_actor_dof_names(env, actor)]
        drive = np.array([gymapi.DOF_MODE_NONE, gymapi.DOF_MODE_POS])
        properties["driveMode"] = drive[np.array(is_knee, dtype=int)]
        properties["stiffness"], properties["damping"] = 4000.0, 100.0
        properties["effort"] = properties["velocity"] = 1e30
        world.gym.set_actor_dof_properties(env, actor, properties)
        for side, x in sides:
            foot = gymapi.AttractorProperties()
            foot.axes, foot.offset.p.z, foot.target.p.x = gymapi.AXIS_TRANSLATION, -0.36, x
            foot.rigid_handle = world.gym.find_actor_rigid_body_handle(env, actor, f"lower_{side}")
            world.gym.create_rigid_body_attractor(env, foot)

    world = World(1, fill, dt=0.01, gravity=0.0)
    for angle in (0.1, 0.2, 0.3):
        world.set("dof_position_target", torch.full((4,), angle))
        world.run(20)
    knees = world.refreshed("dof_state")[0, [1, 3]]
    torch.testing.assert_close(knees, torch.tensor([[0.3, 0.0]] * 2), atol=0.02, rtol=0)


def test_an_assets_own_contact_pairs_are_kept_with_those_of_average_friction(tmp_path):
    """Two balls on one rod, which touch with the file's own friction, above the ground."""
    ball = '<body pos="{0} 0 0"><joint type="slide"/><geom name="{1}" size="0.1"/></body>'
    (tmp_path / "balls.xml").write_text(
        f'<mujoco><worldbody><body name="rod">{ball.format(0, "a")}{ball.format(1, "b")}</body>'
        '</worldbody><contact><pair geom1="a" geom2="b" friction="0.1 0.1"/></contact></mujoco>'
    )

    def fill(world: World, env: gymapi.Env) -> None:
        asset = world.gym.load_asset(world.sim, str(tmp_path), "balls.xml")
        world.put(env, asset, pose(z=1))

    world = World(1, fill, ground=0.5)
    world.run(1)
    model = world.sim.physics.scene.model
    frictions = sorted(model.pair_friction[:, 0].tolist())
    assert frictions == pytest.approx([0.1, 0.75, 0.75])
