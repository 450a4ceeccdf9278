"""The height scan: where its points are, and that lookups and rays measure the same."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from envlab.config import read_yaml, to_dict, write_yaml
from envlab.envs import SceneEntityCfg, mdp
from envlab.envs.terms import observation
from envlab.envs.terrain import HfPyramidSlopedTerrainCfg, TerrainCfg, TerrainGeneratorCfg
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from tests.envs.sliders import group, terms
from tests.envs.terrain.hills import make_env

ROW = mdp.GridPatternCfg(resolution=0.5, size=(3.0, 0.0))
"""Seven points from 1.5 m behind to 1.5 m in front."""
AT = [-10.8, -3.0, 2.0]
"""On the first step of the first tile, 2 m up."""


def make_scan(num_envs: int, plane: bool = False, **sensor):
    scan = observation(mdp.height_scan, sensor_cfg=SceneEntityCfg("scanner"))
    return make_env(
        num_envs,
        plane=plane,
        sensors=terms(scanner=mdp.RayCasterCfg(**sensor)),
        observations=terms(policy=group(scan=scan)),
    )


def scan(env, *poses: list[float]) -> torch.Tensor:
    """Return the scans of the robot at x, y, z and (w, x, y, z), one pose per environment."""
    rows = torch.tensor([[*pose, 0.0] for pose in poses])
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), rows)
    return env._get_observations()["policy"]


def test_grid_has_isaac_labs_187_points_with_x_fastest():
    points = mdp.GridPatternCfg().points()
    assert points.shape == (2, 187)
    places = {0: (-0.8, -0.5), 1: (-0.7, -0.5), 17: (-0.8, -0.4), 186: (0.8, 0.5)}
    for index, place in places.items():
        assert points[:, index].tolist() == pytest.approx(place)


def test_scan_sees_the_stairs_of_the_tile_in_the_direction_it_faces():
    env = make_scan(2, pattern_cfg=ROW)
    # The first tile is from -12 to -6 m along x and -6 to 0 m along y. Its stairs begin at
    # -11 m, and three steps of 0.4 m lead to the platform.
    step = float(env.terrain.heights_at(torch.tensor([-10.8]), torch.tensor([-3.0])))
    assert 0.1 <= step <= 0.15  # level 0: up to a quarter of the way from 0.1 to 0.3 m
    half = math.sqrt(0.5)
    level, turned = [1.0, 0.0, 0.0, 0.0], [half, 0.0, 0.0, half]
    ahead, left = scan(env, [*AT, *level], [*AT, *turned])
    # -12.3 m is in the border, -11.3 m on the flat; -10.3 m is on the second step and -9.8 m on
    # the platform, which is four steps high.
    steps = torch.tensor([0.0, 0.0, 0.0, 1.0, 2.0, 4.0, 4.0])
    assert torch.allclose(ahead, 2.0 - 0.5 - step * steps, atol=1e-4)
    assert torch.allclose(left, torch.full((7,), 1.5 - step), atol=1e-4)  # along the step


def test_roll_and_pitch_do_not_tilt_the_scan():
    env = make_scan(2, pattern_cfg=ROW)
    quats = [1.0, 0.0, 0.0, 0.0], [math.cos(0.3), 0.0, math.sin(0.3), 0.0]
    level, pitched = scan(env, *([*AT, *quat] for quat in quats))
    assert torch.allclose(level, pitched, atol=1e-6)


def test_lookup_and_rays_measure_the_same():
    num_envs = 16
    generator = torch.Generator().manual_seed(0)
    place = torch.rand(num_envs, 3, generator=generator) * 2.0 - 1.0
    place = place * torch.tensor([14.0, 8.0, 0.2]) + torch.tensor([0.0, 0.0, 1.0])
    quat = torch.randn(num_envs, 4, generator=generator)
    poses = torch.cat((place, quat / quat.norm(dim=1, keepdim=True)), dim=1).tolist()
    by_method = {
        method: scan(make_scan(num_envs, method=method), *poses) for method in ("lookup", "rays")
    }
    assert by_method["lookup"].shape == (num_envs, 187)
    assert by_method["lookup"].std() > 0.1
    # Rays are cast in float64 from float32 points, on slopes of up to 3.
    assert torch.allclose(by_method["lookup"], by_method["rays"], atol=1e-4)


def test_offset_moves_the_points():
    offset, plain = (
        scan(make_scan(1, pattern_cfg=ROW, **sensor), [*AT, 1.0, 0.0, 0.0, 0.0])
        for sensor in ({"offset": (0.5, 0.0, 20.0)}, {})
    )
    assert torch.equal(offset[0, :6], plain[0, 1:])


def test_plane_is_at_height_zero():
    env = make_scan(2, plane=True)
    seen = scan(env, [0.0, 0.0, 0.7, 1.0, 0.0, 0.0, 0.0], [5.0, 5.0, 0.9, 1.0, 0.0, 0.0, 0.0])
    assert torch.allclose(seen, torch.tensor([[0.2], [0.4]]).expand(2, 187))
    with pytest.raises(ConfigurationError, match=r"resolution 0\.0 m; give a size of 0 or more"):
        mdp.GridPatternCfg(resolution=0.0).points()


def test_the_normal_is_that_of_a_slope_whichever_way_the_robot_faces():
    slope = HfPyramidSlopedTerrainCfg(slope_range=(0.4, 0.4), platform_width=1.0)
    tiles = {"size": (6.0, 6.0), "num_rows": 1, "num_cols": 1, "sub_terrains": {"hill": slope}}
    generator = TerrainGeneratorCfg(curriculum=True, **tiles)
    grid = mdp.GridPatternCfg(resolution=0.2, size=(1.0, 0.6))
    sensors = terms(scanner=mdp.RayCasterCfg(pattern_cfg=grid))
    ground = TerrainCfg(max_init_terrain_level=None, terrain_generator=generator)
    env = make_env(2, ground=ground, sensors=sensors)
    at, yaw = [-1.6, -1.1, 2.0], 1.0
    turned = [math.cos(0.5 * yaw), 0.0, 0.0, math.sin(0.5 * yaw)]
    scan(env, [*at, 1.0, 0.0, 0.0, 0.0], [*at, *turned])
    normals = mdp.ground_normal(env, env.sensor_manager.get_term("scanner"))
    points = grid.points()
    for normal, angle in zip(normals, (0.0, yaw), strict=True):
        x = at[0] + math.cos(angle) * points[0] - math.sin(angle) * points[1]
        y = at[1] + math.sin(angle) * points[0] + math.cos(angle) * points[1]
        rows = torch.stack((x, y, torch.ones_like(x)), dim=1)
        slopes = torch.linalg.lstsq(rows, env.terrain.heights_at(x, y)[:, None]).solution[:2, 0]
        assert slopes.min() > 0.1  # uphill along both axes
        upward = torch.cat((-slopes, torch.ones(1)))
        assert torch.allclose(normal, upward / upward.norm(), atol=1e-4)
    plane = make_env(2, plane=True, sensors=sensors)
    flat = mdp.ground_normal(plane, plane.sensor_manager.get_term("scanner"))
    assert flat.tolist() == [[0.0, 0.0, 1.0]] * 2


def test_an_earlier_runs_scan_of_a_body_is_a_sensor_of_today(tmp_path: Path):
    task = get_task("Isaac-Velocity-Rough-G1-v0")
    today = load_env_cfg(task)
    today.sensors.height_scanner = mdp.RayCasterCfg(
        body_name="pelvis", pattern_cfg=mdp.GridPatternCfg(resolution=0.2)
    )
    written = to_dict(today)
    scanner = written["sensors"].pop("height_scanner")
    body = scanner.pop("body_name")
    for name in ("entity", "update_period"):
        del scanner[name]
    params = {"sensor_cfg": scanner, "asset_cfg": {"name": "robot", "body_names": body}}
    written["observations"]["policy"]["height_scan"]["params"] = params
    path = tmp_path / "env.yaml"
    write_yaml(path, written)
    assert read_yaml(path, load_env_cfg(task), "env") == today
