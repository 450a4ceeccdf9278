"""gymutil's randomisation against IsaacGymEnvs' functions of the same names."""

from __future__ import annotations

import numpy as np
import pytest

from envlab.errors import ConfigurationError
from envlab_isaacgym import gymapi, gymutil
from tests.isaacgym.worlds import SLIDER, World, box, pose


def params(**changes) -> dict:
    usual = {"distribution": "uniform", "range": [0.5, 0.5], "operation": "scaling"}
    return usual | changes


def test_samples_come_into_effect_by_their_schedule():
    linear = {"schedule": "linear", "schedule_steps": 40}
    constant = {"schedule": "constant", "schedule_steps": 40}
    for changes, step, expected in (
        ({}, 0, 0.5),
        ({"operation": "additive"}, 0, 0.5),
        # A quarter of the way from 1, which changes nothing, or from 0.
        (linear, 10, 0.875),
        (linear | {"operation": "additive"}, 10, 0.125),
        (linear, 100, 0.5),
        (constant, 39, 1.0),
        (constant, 40, 0.5),
        ({"distribution": "gaussian", "range": [0.5, 0.0]}, 0, 0.5),
        ({"distribution": "loguniform"}, 0, 0.5),
    ):
        found = gymutil.generate_random_samples(params(**changes), (2,), step)
        np.testing.assert_allclose(found, [expected, expected])
        given = gymutil.generate_random_samples(params(**changes), 2, step, np.full(2, 0.5))
        np.testing.assert_allclose(given, [expected, expected])


def test_samples_are_of_their_distribution():
    def draw(distribution: str, low: float, high: float) -> np.ndarray:
        drawn = params(distribution=distribution, range=[low, high])
        return gymutil.generate_random_samples(drawn, 4000, 0)

    np.random.seed(1)
    uniform = draw("uniform", 1, 3)
    assert 1 < uniform.min() < uniform.max() < 3
    assert uniform.mean() == pytest.approx(2.0, abs=0.05)
    assert np.log10(draw("loguniform", 0.01, 1)).mean() == pytest.approx(-1.0, abs=0.05)
    assert draw("gaussian", 2, 3).std() == pytest.approx(3.0, abs=0.15)


def test_properties_are_randomised_in_place(tmp_path):
    def fill(world: World, env: gymapi.Env) -> None:
        world.put(env, world.load(tmp_path, *SLIDER, fix_base_link=False), name="slider")
        world.put(env, box(world), pose(z=1), "box")

    world = World(1, fill)
    gym, env = world.gym, world.envs[0]
    gymutil.check_buckets(gym, world.envs, {"actor_params": {}})
    getters, setters = gymutil.get_property_getter_map(gym), gymutil.get_property_setter_map(gym)
    extra = gymutil.get_default_setter_args(gym)
    assert set(getters) == set(setters) == set(extra)
    masses = getters["rigid_body_properties"](env, 1)
    gymutil.apply_random_samples(masses[0], {"mass": 8.0}, "mass", params(), 0)
    setters["rigid_body_properties"](env, 1, masses, *extra["rigid_body_properties"])
    assert gym.get_actor_rigid_body_properties(env, 1)[0].mass == 4.0
    joints = getters["dof_properties"](env, 0)
    original = joints.copy()
    original["damping"] = 2.0
    gymutil.apply_random_samples(joints, original, "damping", params(operation="additive"), 0)
    setters["dof_properties"](env, 0, joints, *extra["dof_properties"])
    assert gym.get_actor_dof_properties(env, 0)["damping"] == 2.5
    simulation = getters["sim_params"](world.sim)
    gravity = {"gravity": gymapi.Vec3(0, 0, -10)}
    gymutil.apply_random_samples(simulation, gravity, "gravity", params(), 0)
    setters["sim_params"](world.sim, simulation)
    assert gym.get_sim_params(world.sim).gravity.z == -5.0
    with pytest.raises(ConfigurationError, match="only gravity can be randomised, not 'dt'"):
        gymutil.apply_random_samples(simulation, {"dt": 0.1}, "dt", params(), 0)
    with pytest.raises(ConfigurationError, match="distribution is 'beta'"):
        gymutil.generate_random_samples(params(distribution="beta"), 1, 0)


def test_bucketed_values_are_the_lower_ends_of_buckets():
    """0.7 of a range 0.2 to 1.0 with four buckets, which begin at 0.2, 0.4, 0.6 and 0.8."""
    shape = gymapi.RigidShapeProperties()
    drawn = params(range=[0.2, 1.0], num_buckets=4, operation="additive")
    gymutil.apply_random_samples(shape, {"friction": 0.1}, "friction", drawn, 0, 0.6)
    assert shape.friction == pytest.approx(0.6)
