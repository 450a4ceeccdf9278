"""Event terms change the named quantities, in masked environments only, reproducibly."""

from __future__ import annotations

import pytest
import torch

from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.managers import EventTermCfg
from envlab.envs.terms import at_reset
from envlab.errors import ConfigurationError
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
