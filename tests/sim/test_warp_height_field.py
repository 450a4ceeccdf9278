"""Contacts of ``mujoco_warp`` with height fields against MuJoCo's, of spheres on stairs.

Both find the depth of the deepest contact of a sphere; tolerance 0.1 mm, as Warp computes in
float32. Without the mend one sphere in seven is up to 0.2 m too deep.
"""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")

import mujoco_warp as mjw
import warp as wp

from envlab.sim.simulation import SimulationCfg
from envlab.sim.warp_fields import put
from envlab.sim.warp_height_field import mend_height_fields

RADIUS = 0.022
NUM_SPHERES = 200
_STEPS = np.array([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 1, 3, 0, 2, 2, 1, 0, 0]) / 3.0
_HEIGHTS = np.minimum(_STEPS[:, None], _STEPS[None, :])
"""Steps of 0.2 m with ramps 0.1 m wide, and single blocks."""
SCENE = (
    '<mujoco><asset><hfield name="stairs" nrow="20" ncol="20" size="0.95 0.95 0.6 0.5" '
    f'elevation="{" ".join(f"{height:.6f}" for height in _HEIGHTS.ravel())}"/></asset><worldbody>'
    '<geom type="hfield" hfield="stairs"/>'
    f'<body><freejoint/><geom name="ball" type="sphere" size="{RADIUS}"/></body>'
    "</worldbody></mujoco>"
)


@pytest.fixture(scope="module")
def model() -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(SCENE)


@pytest.fixture(scope="module")
def places(model) -> np.ndarray:
    """Return centres from 0.8 radii below to 2.2 radii above the ground, float32 ``(n, 3)``."""
    rng = np.random.default_rng(0)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    x, y = rng.uniform(-0.9, 0.9, (2, NUM_SPHERES))
    hit = np.zeros(1, dtype=np.int32)
    ball = model.geom("ball").bodyid[0]
    down = np.array([0.0, 0.0, -1.0])
    ground = [
        3.0 - mujoco.mj_ray(model, data, np.array([*xy, 3.0]), down, None, 1, ball, hit)
        for xy in zip(x, y, strict=True)
    ]
    z = np.array(ground) + rng.uniform(-0.8, 2.2, NUM_SPHERES) * RADIUS
    return np.stack((x, y, z), axis=1).astype(np.float32)


def mujoco_depths(model: mujoco.MjModel, places: np.ndarray) -> np.ndarray:
    """Return the least distance of each sphere's contacts, in m; infinite without one."""
    data = mujoco.MjData(model)
    least = np.full(len(places), np.inf)
    for row, place in enumerate(places):
        data.qpos[:3] = place
        mujoco.mj_fwdPosition(model, data)
        least[row] = min((contact.dist for contact in data.contact[: data.ncon]), default=np.inf)
    return least


def warp_depths(model: mujoco.MjModel, places: np.ndarray) -> np.ndarray:
    with wp.ScopedDevice("cpu"):
        warp_model, data = put(SimulationCfg(num_contacts_max=8), model, len(places))
        qpos = np.tile(model.qpos0, (len(places), 1)).astype(np.float32)
        qpos[:, :3] = places
        wp.copy(data.qpos, wp.array(qpos, dtype=float))
        mjw.kinematics(warp_model, data)
        mjw.collision(warp_model, data)
    count = int(data.nacon.numpy()[0])
    least = np.full(len(places), np.inf)
    worlds, distances = data.contact.worldid.numpy(), data.contact.dist.numpy()
    np.minimum.at(least, worlds[:count], distances[:count])
    return least


def test_this_version_is_one_that_is_mended():
    assert mend_height_fields()


def test_contacts_with_stairs_are_as_deep_as_mujocos(model, places):
    expected, depths = mujoco_depths(model, places), warp_depths(model, places)
    touching = expected < -1e-5  # a sphere that just touches may do so in one of them only
    assert 0.5 < touching.mean() < 0.9
    assert np.isfinite(depths[touching]).all()
    assert np.abs(depths[touching] - expected[touching]).max() < 1e-4
    free = np.isinf(expected)
    assert free.sum() > 20
    assert (depths[free] > -1e-5).all()
