"""Event terms change the named quantities, in masked environments only, reproducibly."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.managers import EventTermCfg
from envlab.envs.terms import at_reset
from envlab.errors import ConfigurationError
from tests.envs.hopper import make_env as make_hopper
from tests.envs.sliders import (
    DT,
    HOME,
    LOOSE,
    PUSH,
    SERVO,
    assert_spans,
    joint,
    make_env,
    place,
    push,
    terms,
)

MASS_FIELDS = {"model_fields": ("body_mass", "body_inertia")}
PUSH_BODY = 1


def mass(operation: str, bounds: tuple[float, float], mode: str = "startup") -> EventTermCfg:
    body = {"asset_cfg": SceneEntityCfg(body_names="push")}
    params = {"mass_distribution_params": bounds, "operation": operation} | body
    return EventTermCfg(func=mdp.randomize_rigid_body_mass, mode=mode, params=params)


def test_offsets_are_added_to_the_default_state_of_the_named_joints():
    params = {"position_range": (0.2, 0.4), "velocity_range": (-2.0, -1.0)}
    params["asset_cfg"] = joint("servo", "loose")
    event = at_reset(mdp.reset_joints_by_offset, **params)
    env = make_env(400, events=terms(offset=event))
    offset = env.sim.data.qpos - torch.tensor(HOME)
    moved = offset[:, [SERVO, LOOSE]]
    assert_spans(moved, 0.2, 0.4)
    assert moved.unique().numel() > 700  # every joint and environment has its own
    assert_spans(env.sim.data.qvel[:, [SERVO, LOOSE]], -2.0, -1.0)
    untouched = [PUSH, 2]
    assert (offset[:, untouched] == 0.0).all()
    assert (env.sim.data.qvel[:, untouched] == 0.0).all()


def test_a_changed_mass_changes_the_motion():
    for operation, value, expected in (("add", 1.0, 3.0), ("scale", 2.0, 4.0), ("abs", 0.5, 0.5)):
        events = terms(mass=mass(operation, (value, value)))
        env = make_env(2, sim=MASS_FIELDS, events=events)
        place(env, [[0.0] * 4] * 2, [[0.0] * 4] * 2)
        push(env, 6.0, 6.0)
        assert env.sim.params.body_mass[:, PUSH_BODY].tolist() == [expected] * 2
        assert env.sim.data.qvel[:, PUSH].tolist() == pytest.approx([6.0 / expected * DT] * 2)
        model = env.sim.model  # inertia scales with the mass, and other bodies stay
        inertia = torch.tensor(model.body_inertia, dtype=torch.float32)
        inertia[PUSH_BODY] *= expected / model.body_mass[PUSH_BODY]
        assert torch.allclose(env.sim.params.body_inertia[1], inertia)
        assert env.sim.params.body_mass[1, 2:].tolist() == model.body_mass[2:].tolist()
    env = make_env(2, sim=MASS_FIELDS, events=terms(mass=mass("add", (-9.0, -9.0))))
    assert env.sim.params.body_mass[:, PUSH_BODY].tolist() == pytest.approx([1e-6] * 2)
    assert (env.sim.params.body_inertia >= 0.0).all()
    with pytest.raises(ConfigurationError, match="operation is 'multiply', but must be add"):
        make_env(2, sim=MASS_FIELDS, events=terms(mass=mass("multiply", (0.5, 2.0))))


def test_masses_drawn_at_resets_start_from_the_models_own_in_the_masked_rows():
    events = terms(mass=mass("scale", (1.5, 2.0), mode="reset"))
    env = make_env(4, sim=MASS_FIELDS, events=events)
    for _ in range(5):
        before = env.sim.params.body_mass[:, PUSH_BODY].clone()
        env.reset(options={"reset_mask": torch.tensor([True, False, True, False])})
        after = env.sim.params.body_mass[:, PUSH_BODY]
        assert (after != before).tolist() == [True, False, True, False]
    assert ((after >= 3.0) & (after <= 4.0)).all()  # 2 kg times 1.5 to 2, however often


def test_a_mass_changed_within_an_episode_leaves_the_state_alone():
    event = mass("abs", (4.0, 4.0), mode="interval")
    event.interval_range_s = (0.2, 0.2)
    env = make_env(1, sim=MASS_FIELDS, events=terms(mass=event), episode_length_s=9.0)
    place(env, [[0.0] * 4], [[1.0, 0.0, 0.0, 0.0]])
    for _ in range(2):
        push(env, 0.0)
    assert env.sim.params.body_mass[0, PUSH_BODY] == 4.0
    assert env.sim.data.qpos[0, PUSH].item() == pytest.approx(0.2)
    push(env, 8.0)
    assert env.sim.data.qvel[0, PUSH].item() == pytest.approx(1.0 + 8.0 / 4.0 * DT)


def test_random_orientations_are_uniform_and_the_scene_returns_to_its_default():
    turned = at_reset(
        mdp.reset_root_state_with_random_orientation,
        pose_range={"z": (0.5, 1.0)},
        velocity_range={"x": (2.0, 2.0)},
    )
    env = make_hopper(4000, events=terms(turned=turned))
    quat = env.sim.data.qpos[:, 3:7]
    assert torch.allclose(quat.norm(dim=1), torch.ones(4000), atol=1e-5)
    up = 1.0 - 2.0 * (quat[:, 1] ** 2 + quat[:, 2] ** 2)  # z of the body's z axis
    assert_spans(up, -1.0, 1.0)
    assert up.square().mean() == pytest.approx(1.0 / 3.0, abs=0.03)
    height = env.sim.data.qpos[:, 2] - env.default_qpos[0, 2]
    assert_spans(height, 0.5, 1.0)
    still = make_hopper(2, events=terms(still=at_reset(mdp.reset_scene_to_default)))
    assert torch.equal(still.sim.data.qpos, still.default_qpos_rows)
    bad = at_reset(
        mdp.reset_root_state_with_random_orientation,
        pose_range={"yaw": (0.0, 1.0)},
        velocity_range={},
    )
    with pytest.raises(ConfigurationError, match="pose_range has the key 'yaw'"):
        make_hopper(1, events=terms(bad=bad))
