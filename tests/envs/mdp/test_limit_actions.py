"""Targets within the joints' limits: values, order, what remains between steps, deployment."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from envlab.envs import ManagerEnv, SceneCfg, mdp
from envlab.errors import ConfigurationError
from tests.envs.promises import assert_keeps_promises
from tests.envs.sliders import CTRL_PUSH, CTRL_SERVO, MODEL, make_cfg, rank, terms


@pytest.fixture
def limited(tmp_path) -> str:
    """Return the sliders' model, with limits of two joints."""
    text = Path(MODEL).read_text()
    for joint, limits in (("push", "0 1"), ("servo", "-1 3")):
        limit = f'<joint name="{joint}" range="{limits}" limited="true"/>'
        text = text.replace(f'<joint name="{joint}"/>', limit)
    path = tmp_path / "limited.xml"
    path.write_text(text)
    return str(path)


def make(model: str, cls: type = mdp.JointPositionToLimitsActionCfg, **cfg) -> ManagerEnv:
    fields = {"joint_names": ["push", "servo"], **cfg}
    env_cfg = make_cfg(2, actions=terms(target=cls(**fields)))
    env_cfg.scene = SceneCfg(num_envs=2, model=model)
    return ManagerEnv(env_cfg, context=rank(0, 1), seed=0)


def targets(env: ManagerEnv, *actions: float) -> list[float]:
    env.step(torch.tensor([actions, actions]))
    return env.sim.ctrl[0, [CTRL_PUSH, CTRL_SERVO]].tolist()


def test_actions_mean_places_between_the_limits(limited):
    env = make(limited, scale={"push": 2.0, "servo": 1.0})
    assert targets(env, 0.25, -0.5) == pytest.approx([0.75, 0.0])
    assert targets(env, -0.6, 7.0) == pytest.approx([0.0, 3.0])
    # Bounds count before the limits: servo from -0.5 to 0.5 of the way.
    env = make(limited, clip={"servo": (-0.5, 0.5)}, joint_names=["servo", "push"])
    assert targets(env, 1.0, 1.0) == pytest.approx([1.0, 2.0])


def test_actions_may_have_the_order_of_the_names(limited):
    env = make(limited, joint_names=["servo", "push"], preserve_order=True)
    assert targets(env, 1.0, -1.0) == [0.0, 3.0]


def test_without_limits_they_are_positions(limited):
    assert targets(make(limited, rescale_to_limits=False, scale=3.0), 1.0, 2.0) == [3.0, 6.0]
    with pytest.raises(ConfigurationError, match="limits of joints, but some have none"):
        make(MODEL)


@pytest.mark.parametrize(
    "cfg", [{}, {"scale": 0.5}, {"clip": {"servo": (-0.5, 4.0)}}, {"rescale_to_limits": False}]
)
def test_what_is_deployed_gives_the_same_targets(limited, cfg):
    env = make(limited, **cfg)
    facts = env.action_manager.describe()["target"]
    assert facts["joint_names"] == ["push", "servo"]
    for actions in ((0.3, -0.2), (-2.0, 2.0), (5.0, -0.7)):
        expected = np.array(actions) * facts["scale"] + facts["offset"]
        if facts["clip"] is not None:
            expected = expected.clip(*facts["clip"])
        assert targets(env, *actions) == pytest.approx(expected.tolist(), abs=1e-6), actions


def test_each_joint_may_have_its_own_average(limited):
    env = make(limited, mdp.EMAJointPositionToLimitsActionCfg, alpha={"servo": 0.25})
    assert env.action_manager.describe()["target"] is None  # it remembers
    env.reset()
    # The servo begins at its default 0.5.
    assert targets(env, 1.0, 1.0) == pytest.approx([1.0, 0.25 * 3.0 + 0.75 * 0.5])
    with pytest.raises(ConfigurationError, match=r"alpha -0\.5"):
        make(limited, mdp.EMAJointPositionToLimitsActionCfg, alpha={"servo": -0.5})


def test_averages_keep_the_promises_of_every_task(limited):
    cfg = {"alpha": {"servo": 0.5}, "clip": {"push": (-0.5, 0.5)}}
    assert_keeps_promises(make(limited, mdp.EMAJointPositionToLimitsActionCfg, **cfg).cfg)
