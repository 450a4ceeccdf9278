"""Jacobians are MuJoCo's, and each method's displacements follow by hand."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch

from envlab.envs.controlled_frame import (
    DifferentialIKControllerCfg,
    GeometricJacobian,
    joint_displacements,
    pose_error,
)
from envlab.envs.scene import load_model
from tests.envs.refusals import assert_refused

CPU = torch.device("cpu")
ARM = [f"panda_joint{i}" for i in range(1, 8)]


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return load_model("envlab_assets:robots/franka_reach.xml")


@pytest.mark.parametrize(
    ("site", "joints"), [("ee", ARM), ("left_fingertip", [*ARM[2:], "panda_finger_joint1"])]
)
def test_jacobian_is_mujocos(model, site, joints):
    """The fingertip's includes that of a slide joint."""
    data = mujoco.MjData(model)
    rng, rows = np.random.default_rng(0), []
    columns = [model.joint(name).dofadr[0] for name in joints]
    for _ in range(5):
        data.qpos[:] = rng.uniform(*model.jnt_range.T)
        mujoco.mj_forward(model, data)
        linear, angular = np.zeros((2, 3, model.nv))
        mujoco.mj_jacSite(model, data, linear, angular, model.site(site).id)
        expected = np.concatenate((linear, angular))[:, columns]
        point = data.site(site).xpos
        rows.append([values.copy() for values in (data.xanchor, data.xaxis, point, expected)])
    *places, expected = (
        torch.tensor(np.stack(values)).float() for values in zip(*rows, strict=True)
    )
    body = int(model.site_bodyid[model.site(site).id])
    jacobian = GeometricJacobian(model, joints, body, CPU)
    assert torch.allclose(jacobian(*places), expected, atol=1e-6)


def displace(method: str, **params: float) -> list[float]:
    """Return displacements of two joints, the second twice as effective, for an error of (1, 1)."""
    cfg = DifferentialIKControllerCfg(ik_method=method, ik_params=params)
    jacobian, error = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]] * 3), torch.ones(3, 2)
    moves = joint_displacements(jacobian, error, method, cfg.params())
    assert torch.equal(moves[0], moves[2])
    return moves[0].tolist()


def test_displacements_of_each_method():
    for method, params, expected in (
        ("pinv", {}, [1.0, 0.5]),
        ("pinv", {"k_val": 0.5}, [0.5, 0.25]),
        ("trans", {"k_val": 0.1}, [0.1, 0.2]),
        ("dls", {}, [1.0 / (1.0 + 1e-4), 2.0 / (4.0 + 1e-4)]),
        ("dls", {"lambda_val": 1.0}, [1.0 / 2.0, 2.0 / 5.0]),
        ("svd", {}, [1.0, 0.5]),
        ("svd", {"min_singular_value": 1.5}, [0.0, 0.5]),
    ):
        assert displace(method, **params) == pytest.approx(expected, rel=1e-5), (method, params)


def test_what_makes_no_sense_is_refused(model):
    cfg = DifferentialIKControllerCfg(ik_method="pinv", ik_params={"lambda_val": 0.1})
    lift = load_model("envlab_assets:robots/lift_cube.xml")

    def jacobian(model: mujoco.MjModel, body: str, *joints: str) -> object:
        return GeometricJacobian(model, joints, model.body(body).id, CPU)

    finger = "panda_finger_joint1"
    assert_refused(
        {
            "'lambda_val', but 'pinv' has only k_val": cfg.params,
            f"'{finger}', which does not move": lambda: jacobian(model, "panda_hand", finger),
            "is neither a hinge nor a slide": lambda: jacobian(lift, "object", "object"),
        }
    )


def test_error_is_a_way_and_a_rotation_vector():
    turned = torch.tensor([[math.cos(0.2), 0.0, 0.0, math.sin(0.2)]])  # 0.4 rad about z
    straight = torch.tensor([[1.0, 0.0, 0.0, 0.0]])
    pos, goal = torch.zeros(1, 3), torch.tensor([[0.1, -0.2, 0.3]])
    error = pose_error(pos, straight, goal, turned)
    assert error[0].tolist() == pytest.approx([0.1, -0.2, 0.3, 0.0, 0.0, 0.4], abs=1e-6)
    assert pose_error(pos, turned, goal, torch.zeros(1, 4))[0, 3:].tolist() == [0.0] * 3


def test_size_of_a_command():
    sizes = {("position", True): 3, ("position", False): 3, ("pose", True): 6, ("pose", False): 7}
    for (kind, is_relative), dim in sizes.items():
        cfg = DifferentialIKControllerCfg(command_type=kind, use_relative_mode=is_relative)
        assert cfg.action_dim == dim
