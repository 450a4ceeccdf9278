"""Friction and centres of mass that differ between environments."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.terms import at_reset, at_startup
from envlab.errors import ConfigurationError
from tests.envs.hopper import make_env
from tests.envs.sliders import CTRL_SERVO, assert_spans, select, terms
from tests.envs.sliders import make_env as make_sliders


def started(func, *fields: str, num_envs: int = 200, **params):
    events = terms(event=at_startup(func, **params))
    return make_env(num_envs, sim={"model_fields": fields}, events=events)


def test_friction_is_one_draw_for_all_geoms_of_an_environment():
    env = started(mdp.randomize_rigid_body_material, "geom_friction", friction_range=(0.2, 0.4))
    sliding = env.sim.params.geom_friction[:, :, 0]
    floor, block, arm = (env.sim.model.geom(name).id for name in ("floor", "block", "arm"))
    assert (sliding[:, floor] == 1.0).all()
    assert torch.equal(sliding[:, block], sliding[:, arm])
    assert_spans(sliding[:, block], 0.2, 0.4)
    assert (env.sim.params.geom_friction[:, :, 1] == 0.005).all()
    isaac = {"static_friction_range": (0.6, 0.8), "dynamic_friction_range": (0.4, 0.6)}
    more = {"restitution_range": (0.0, 0.0), "num_buckets": 64, "make_consistent": True}
    env = started(mdp.randomize_rigid_body_material, **isaac, **more)
    assert_spans(env.sim.params.geom_friction[:, block, 0], 0.4, 0.8)
    assert (env.sim.params.geom_solref[:, block, 1] == 1.0).all()
    with pytest.raises(ConfigurationError, match="has no bounds of friction"):
        started(mdp.randomize_rigid_body_material)


def test_each_coefficient_of_friction_can_be_drawn_alone():
    params = {"axis": 2, "friction_range": (1e-5, 1e-3), "distribution": "log_uniform"}
    params["asset_cfg"] = SceneEntityCfg(geom_names=["block", "arm"])
    env = started(mdp.randomize_geom_friction, "geom_friction", **params)
    friction = env.sim.params.geom_friction
    floor, block, arm = (env.sim.model.geom(name).id for name in ("floor", "block", "arm"))
    rolling = friction[:, block, 2]
    assert torch.equal(rolling, friction[:, arm, 2])
    assert 1e-5 <= rolling.min() < rolling.max() < 1e-3
    assert (rolling < 1e-4).float().mean().item() == pytest.approx(0.5, abs=0.1)
    assert (friction[:, floor, 2] == friction[0, floor, 2]).all()
    assert (friction[:, block, :2] == friction[0, block, :2]).all()
    with pytest.raises(ConfigurationError, match="axis is 3, but must be 0"):
        started(mdp.randomize_geom_friction, "geom_friction", axis=3, friction_range=(0.0, 1.0))


def test_centres_of_mass_move_from_the_models_own():
    params = {"com_range": {"x": (-0.1, 0.1), "z": (0.05, 0.05)}}
    arm = SceneEntityCfg(body_names="arm")
    env = started(mdp.randomize_rigid_body_com, "body_ipos", asset_cfg=arm, **params)
    centres = env.sim.params.body_ipos
    arm, block = env.sim.model.body("arm").id, env.sim.model.body("block").id
    assert_spans(centres[:, arm, 0], 0.3, 0.5)
    assert (centres[:, arm, 1] == 0.0).all()
    assert torch.allclose(centres[:, arm, 2], torch.tensor(0.05))
    assert (centres[:, block] == 0.0).all()
    with pytest.raises(ConfigurationError, match="com_range has the key 'roll'"):
        started(mdp.randomize_rigid_body_com, "body_ipos", com_range={"roll": (0.0, 0.1)})


def test_encoders_that_are_wrong_show_and_miss_by_the_same():
    def make(bias, at=at_reset):
        servo = SceneEntityCfg(joint_names="servo")
        event = at(mdp.randomize_encoder_bias, bias_range=bias, asset_cfg=servo)
        action = mdp.JointPositionActionCfg(joint_names="servo")
        return make_sliders(50, events=terms(bias=event), actions=terms(go=action))

    for at in (at_startup, at_reset):
        env = make((-0.1, 0.1), at)
        servo = select(env, joint_names="servo")
        bias = mdp.joint_pos_rel(env, servo, biased=True) - mdp.joint_pos_rel(env, servo)
        assert_spans(bias, -0.1, 0.1, margin=0.1)
        env.step(torch.zeros(50, 1))
        assert torch.allclose(env.sim.ctrl[:, CTRL_SERVO], 0.5 - bias[:, 0])
    other = make((0.0, 0.0))
    other.set_state(env.state())
    assert torch.equal(other.encoder_bias, env.encoder_bias)
    other.step(torch.zeros(50, 1))
    assert torch.allclose(other.sim.ctrl[:, CTRL_SERVO], 0.5 - bias[:, 0])
