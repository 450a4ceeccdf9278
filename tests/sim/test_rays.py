"""Rays: the same numbers from both backends on one scene of every primitive, and height lookups.

Tolerance: Warp computes in float32, MuJoCo in float64. Over 28 800 rays the largest difference was
5e-5 (in units of the direction's length), and all hit the same geom. A ray that grazes an edge may
hit it in one backend only, which none of these does.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from envlab.sim.height_field import HeightField
from envlab.sim.simulation import Simulation
from tests.envs.refusals import assert_refused
from tests.sim.models import ALL, DT, NUM_ENVS, compile_model, make, only

NUM_RAYS = 900
TOLERANCE = 2e-4
GROUND, HILLS = 0, 1

SIZES = {
    **{"box": "0.3 0.2 0.4", "sphere": "0.35", "capsule": "0.15 0.4"},
    **{"cylinder": "0.2 0.3", "ellipsoid": "0.3 0.2 0.15"},
}
_HEIGHTS = np.random.default_rng(0).random((7, 9)).astype(np.float32)
_ELEVATION = " ".join(f"{value:.6f}" for value in _HEIGHTS.ravel())
SCENE = (  # without collisions, whose kernels would take minutes to compile
    '<mujoco><default><geom contype="0" conaffinity="0"/></default><asset>'
    f'<hfield name="hills" nrow="7" ncol="9" size="2 1.5 0.8 0.1" elevation="{_ELEVATION}"/>'
    "</asset><worldbody>"
    '<geom name="ground" type="plane" size="9 9 0.1"/>'
    '<geom name="hills" type="hfield" hfield="hills" pos="4 1 0.5"/>'
    + "".join(
        f'<body name="{name}" pos="{x} 0 1.2"><freejoint/>'
        f'<geom name="{name}" type="{name}" size="{size}" group="{x % 3}"/></body>'
        for x, (name, size) in enumerate(SIZES.items(), start=-2)
    )
    + '<body name="drone" pos="0 0 4"><freejoint/><geom size="0.3"/>'
    '<camera name="down" pos="0 0 -0.1" fovy="60"/></body>'
    '<camera name="fixed" pos="0 -6 1" xyaxes="1 0 0 0 0 1" fovy="50"/>'
    "</worldbody></mujoco>"
)


def poses(seed: int) -> torch.Tensor:
    """Return positions and orientations of all bodies, float32 ``(num_envs, nq)``."""
    generator = torch.Generator().manual_seed(seed)
    quaternion = torch.randn(NUM_ENVS, 6, 4, generator=generator)
    quaternion /= quaternion.norm(dim=-1, keepdim=True)
    place = torch.rand(NUM_ENVS, 6, 3, generator=generator) * torch.tensor([6.0, 3.0, 1.5])
    place += torch.tensor([-3.0, -1.5, 0.5])
    return torch.cat((place, quaternion), dim=-1).flatten(1)


def random_rays(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    origins = torch.rand(NUM_ENVS, NUM_RAYS, 3, generator=generator) * 8.0 - 3.0
    origins[..., 2] += 3.5
    return origins, torch.randn(NUM_ENVS, NUM_RAYS, 3, generator=generator)


@pytest.fixture(scope="module")
def cpu() -> Simulation:
    return make(SCENE, num_threads=2)


@pytest.fixture(scope="module")
def warp() -> Simulation:
    pytest.importorskip("mujoco_warp", reason="needs mujoco-warp: pip install -e '.[warp]'")
    return make(SCENE, "mujoco_warp")


@pytest.mark.parametrize("options", [{}, {"geom_groups": [0, 2]}, {"exclude_body": 3}])
def test_backends_agree_on_all_primitives(cpu, warp, options):
    for seed in range(2):
        origins, directions = random_rays(seed)
        for simulation in (cpu, warp):
            simulation.reset(ALL, poses(seed))
        normals, expected_normals = (torch.full_like(directions, 9.0) for _ in range(2))
        expected, expected_geom = cpu.rays(origins, directions, normals=expected_normals, **options)
        distance, geom = warp.rays(origins, directions, normals=normals, **options)
        assert torch.equal(geom, expected_geom)
        apart = (normals - expected_normals).norm(dim=2) > 1e-3
        assert apart.float().mean() < 1e-3  # at edges
        assert not normals[geom < 0].any()
        assert torch.allclose(distance, expected, rtol=0.0, atol=TOLERANCE)
        allowed = np.isin(cpu.model.geom_group, options.get("geom_groups", range(6)))
        allowed &= cpu.model.geom_bodyid != options.get("exclude_body", -1)
        # Every primitive, and misses.
        assert geom.unique().tolist() == [-1, *np.flatnonzero(allowed).tolist()]


def test_rays_that_all_share_equal_copies_of_them(cpu):
    cpu.reset(ALL, poses(3))
    origins, directions = (rays[:1].expand(NUM_ENVS, -1, -1) for rays in random_rays(3))
    whole = cpu.rays(origins.contiguous(), directions.contiguous())
    for shared, expected in zip(cpu.rays(origins, directions), whole, strict=True):
        assert torch.equal(shared, expected)


def test_only_masked_environments_are_cast(cpu):
    cpu.reset(ALL, poses(4))
    origins, directions = random_rays(4)
    for masked in ((), (2,), (0, 3)):
        for rays in ((origins, directions), (origins, directions[:1].expand(NUM_ENVS, -1, -1))):
            expected, expected_geom = cpu.rays(*rays)
            distance, geom = cpu.rays(*rays, mask=only(*masked))
            rows = list(masked)
            assert torch.equal(distance[rows], expected[rows])
            assert torch.equal(geom[rows], expected_geom[rows])
            assert (distance != expected).sum() > 0
            assert torch.isfinite(distance).all()


@pytest.mark.parametrize("backend", ["cpu", "warp"])
def test_rays_see_the_state_after_a_step_without_declared_fields(backend, request):
    simulation: Simulation = request.getfixturevalue(backend)
    simulation.reset(ALL)
    above = torch.tensor([-1.0, 0, 9]).expand(NUM_ENVS, 1, 3)  # the sphere of 0.35 m, at 1.2 m
    down = torch.tensor([0.0, 0, -1]).expand(NUM_ENVS, 1, 3)
    assert simulation.rays(above, down)[0].flatten().tolist() == pytest.approx([7.45] * NUM_ENVS)
    for _ in range(20):
        simulation.step()
    fallen = 9.81 * DT**2 * 20 * 21 / 2  # semi-implicit Euler
    distance, _ = simulation.rays(above, down)
    assert distance.flatten().tolist() == pytest.approx([7.45 + fallen] * NUM_ENVS, abs=1e-5)


def test_looked_up_heights_are_those_that_rays_measure(cpu):
    cpu.reset(ALL)
    field = HeightField(cpu.model, "hills", cpu.device)
    generator = torch.Generator().manual_seed(5)
    x = 2.01 + 3.98 * torch.rand(NUM_ENVS, NUM_RAYS, generator=generator)
    y = -0.49 + 2.98 * torch.rand(NUM_ENVS, NUM_RAYS, generator=generator)
    origins = torch.stack((x, y, torch.full_like(x, 9.0)), dim=-1)
    down = torch.tensor([0.0, 0, -1]).expand(NUM_ENVS, NUM_RAYS, 3)
    distance, geom = cpu.rays(origins, down, exclude_body=-1)
    on_hills = geom == HILLS
    assert on_hills.float().mean() > 0.9
    assert torch.allclose(field.heights(x, y)[on_hills], (9.0 - distance)[on_hills], atol=1e-5)


def test_heights_at_corners_are_the_data_and_end_at_the_border():
    field = HeightField(compile_model(SCENE), "hills", torch.device("cpu"))
    assert field.data.shape == (7, 9)
    x = torch.tensor([2.0, 6.0, 2.5, -9.0])
    y = torch.tensor([-0.5, 2.5, 0.0, -9.0])
    # MuJoCo's files begin with the row of the largest y, and it scales them to between 0 and 1.
    rows = [_HEIGHTS[6, 0], _HEIGHTS[0, 8], _HEIGHTS[5, 1], _HEIGHTS[6, 0]]
    low, high = _HEIGHTS.min(), _HEIGHTS.max()
    expected = [0.5 + 0.8 * (row - low) / (high - low) for row in rows]
    assert field.heights(x, y).tolist() == pytest.approx(expected, abs=1e-5)


def test_a_height_field_that_cannot_be_looked_up_is_refused():
    turned = SCENE.replace('pos="4 1 0.5"', 'pos="4 1 0.5" euler="0 0 9"')

    def look_up(geom: str, xml: str = SCENE) -> HeightField:
        return HeightField(compile_model(xml), geom, torch.device("cpu"))

    assert_refused(
        {
            "'ground' is not a geom of type hfield": lambda: look_up("ground"),
            "'valley' is not a geom of type hfield": lambda: look_up("valley"),
            "is rotated": lambda: look_up("hills", turned),
        }
    )
