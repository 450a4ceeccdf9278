"""Cameras on bodies: distances by hand, delay, history, colours, segmentation, bad values."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
import torch

import envlab
from envlab.distributed.context import DistributedContext
from envlab.envs import (
    EntityCfg,
    InitialStateCfg,
    ManagerEnv,
    ManagerEnvCfg,
    SceneCfg,
    SceneEntityCfg,
    ShapeCfg,
    SimulationCfg,
    mdp,
)
from envlab.envs.camera import CameraCfg, CameraOffsetCfg
from envlab.envs.entity_cfg import VariantCfg
from envlab.envs.managers import EventTermCfg
from envlab.envs.managers.event import requires_model_fields
from envlab.envs.ray_patterns import PinholeCameraPatternCfg
from envlab.envs.terms import at_reset, observation, reward, termination
from envlab.envs.vector_env import inset
from envlab.errors import ConfigurationError, EnvlabError
from envlab.sim.cfg import AugmentationCfg
from tests.envs import hopper
from tests.envs.promises import assert_keeps_promises
from tests.envs.refusals import assert_refused
from tests.envs.sliders import group, terms
from tests.envs.terrain.hills import make_env

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

HALF = math.sqrt(0.5)
DOWN = (HALF, 0.0, HALF, 0.0)
"""Pitched from x to straight down."""
FAR = 4.0
SQUARE = {"width": 5, "height": 5, "focal_length": 1.0, "horizontal_aperture": 2.0}
"""A field of view of 90 degrees."""


def make(
    num_envs: int = 2,
    *,
    plane: bool = True,
    params: dict[str, Any] | None = None,
    events: Any = None,
    **cfg,
):
    defaults = {
        "name": "eye",
        "data_types": ["depth"],
        "body_name": "block",
        "seen_bodies": [],
        "offset": CameraOffsetCfg(rot=DOWN),
        "pattern_cfg": PinholeCameraPatternCfg(**SQUARE),
        "clipping_range": (0.1, FAR),
        "geom_groups": None if plane else [1],
    }
    params = {"sensor_cfg": SceneEntityCfg("camera"), "normalize": False} | (params or {})
    observed = group(pos=observation(mdp.joint_pos))
    seen = group(image=observation(mdp.image, **params))
    return make_env(
        num_envs,
        plane=plane,
        observations=terms(policy=observed, depth=seen),
        sensors=terms(camera=CameraCfg(**(defaults | cfg))),
        **({} if events is None else {"events": events}),
        episode_length_s=100.0,
    )


def look(env, *poses: list[float]) -> torch.Tensor:
    """Return the next images from x, y, z and (w, x, y, z)."""
    rows = torch.tensor(poses)
    rows = torch.cat((rows, torch.zeros(len(rows), env.sim.model.nq - 7)), dim=1)
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), rows)
    env.sensor_manager.update(env.step_dt)
    return env._get_observations()["depth"]


def at(height: float) -> list[float]:
    return [0.0, 0.0, height, 1.0, 0.0, 0.0, 0.0]


def test_a_plane_below_is_as_far_as_the_camera_is_high():
    seen = look(make(), at(1.5), at(5.0))
    assert seen.shape == (2, 5, 5, 1)
    assert torch.allclose(seen[0], torch.full((5, 5, 1), 1.5), atol=1e-5)
    assert torch.equal(seen[1], torch.full((5, 5, 1), FAR))  # out of range
    assert look(make(depth_clipping_behavior="zero"), at(1.5), at(5.0))[1].max() == 0.0
    radial = look(make(params={"data_type": "distance_to_camera"}), at(1.5), at(2.0))[0, ..., 0]
    assert radial[2, 2].item() == pytest.approx(1.5, abs=1e-5)
    assert radial[2, 0].item() == pytest.approx(1.5 * math.hypot(1, 0.8), abs=1e-5)
    assert radial[0, 0].item() == pytest.approx(1.5 * math.hypot(1, 0.8, 0.8), abs=1e-5)
    scaled = look(make(params={"normalize": True}), at(1.0), at(2.0))
    assert scaled.flatten(1).mean(dim=1).tolist() == pytest.approx([0.25, 0.5])


def test_a_step_is_seen_at_its_place_and_height():
    env = make(plane=False, clipping_range=(0.1, 6.0))
    # As in the height scan's test: the stairs of the first tile begin at -11 m with steps of 0.4 m.
    step = float(env.terrain.heights_at(torch.tensor([-10.8]), torch.tensor([-3.0])))
    seen = look(env, [-11.0, -3.0, 1.0, 1.0, 0, 0, 0], [-11.0, -3.0, 1.0, 1.0, 0, 0, 0])[0, ..., 0]
    # The first row looks ahead, 0.8 m per metre of depth: on the second step.
    assert seen[4, 2].item() == pytest.approx(1.0, abs=1e-5)  # on the flat behind
    assert seen[0, 2].item() == pytest.approx(1.0 - 2 * step, abs=1e-5)
    assert step > 0.1
    forward = make(plane=False, offset=CameraOffsetCfg(), clipping_range=(0.1, 6.0))
    low = 0.5 * step
    ahead = look(forward, *[[-12.0, -3.0, low, 1.0, 0, 0, 0]] * 2)[0, 2, 2].item()
    assert ahead == pytest.approx(1.0 - 0.1 + 0.05, abs=0.051)  # the ramp of the first step


def test_the_camera_turns_with_its_body_by_its_convention():
    for convention, rot in (
        *(("world", (1.0, 0.0, 0.0, 0.0)), ("ros", (0.5, -0.5, 0.5, -0.5))),
        ("opengl", (0.5, 0.5, -0.5, -0.5)),
    ):
        env = make(offset=CameraOffsetCfg(rot=rot, convention=convention))
        pitch = [math.cos(0.15), 0.0, math.sin(0.15), 0.0]  # 0.3 rad down
        seen = look(env, [0, 0, 0.5, *pitch], [0, 0, 0.5, *pitch])[0, ..., 0]
        assert seen[2, 2].item() == pytest.approx(0.5 / math.sin(0.3), abs=1e-4), convention
        assert seen[4, 2] < seen[3, 2] < seen[2, 2] < seen[0, 2] == FAR, convention


def test_images_arrive_late_and_together():
    env = make(delay_range=(2, 2), history_length=2)
    assert env.single_observation_space["depth"].shape == (5, 5, 2)
    start = env._get_observations()["depth"][0, 2, 2]
    assert start[0] == start[1]
    found = [look(env, at(height), at(height))[0, 2, 2] for height in (1.0, 1.1, 1.2, 1.3, 1.4)]
    assert torch.equal(found[1], start)  # older ones than the first there are not
    assert found[2].tolist() == pytest.approx([start[0].item(), 1.0], abs=1e-5)
    assert found[4].tolist() == pytest.approx([1.1, 1.2], abs=1e-5)


def test_delays_are_drawn_for_each_environment_and_episode():
    env = make(64, delay_range=(1, 3))

    def delays() -> torch.Tensor:
        """Return after how many images each environment sees that its robot was lifted."""
        for _ in range(4):
            start = look(env, *[at(1.0)] * 64)[:, 2, 2, 0]
        seen = torch.stack([look(env, *[at(2.0)] * 64)[:, 2, 2, 0] > start for _ in range(4)])
        return 4 - seen.sum(dim=0)

    first = delays()
    assert first.unique().tolist() == [1, 2, 3]
    env.reset(options={"reset_mask": torch.arange(64) < 32})
    again = delays()
    assert torch.equal(first[32:], again[32:])
    assert not torch.equal(first[:32], again[:32])


def test_a_matrix_gives_its_own_camera():
    matrix = [80.0, 0.0, 40.0, 0.0, 70.0, 31.0, 0.0, 0.0, 1.0]
    cfg = PinholeCameraPatternCfg.from_intrinsic_matrix(matrix, width=87, height=58)
    assert cfg.intrinsic_matrix().ravel().tolist() == pytest.approx(matrix)
    plain = PinholeCameraPatternCfg(**SQUARE).intrinsic_matrix()
    assert plain.tolist() == [[2.5, 0, 2.5], [0, 2.5, 2.5], [0, 0, 1]]
    for wrong in ([80.0] * 9, matrix[:8], [0.0, *matrix[1:]]):
        with pytest.raises(ConfigurationError, match=r"intrinsic matrix is .* but must be"):
            PinholeCameraPatternCfg.from_intrinsic_matrix(wrong, width=87, height=58)


def test_a_camera_that_makes_no_image_is_refused():
    table = {
        "on the body 'blok'.*Did you mean block": {"body_name": "blok"},
        "is to see the body 'hand'": {"seen_bodies": ["hand"]},
        r"is the camera 'sid', but the model has the cameras \(none\)": {
            **{"camera_name": "sid", "pattern_cfg": None}
        },
        "pattern_cfg, but its camera 'side' comes from the file": {"camera_name": "side"},
        "data_types are empty": {"data_types": []},
        r"clipping_range is \[2\.0, 0\.1\]": {"clipping_range": (2.0, 0.1)},
        r"delay_range is \[-1, 2\]": {"delay_range": (-1, 2)},
        r"delay_range is \[3, 2\]": {"delay_range": (3, 2)},
        r"augmentation changes colours, but its data_types are \['depth'\]": {
            "augmentation": AugmentationCfg(hue=0.1)
        },
        "makes depth, but an image of it is to be 'rgb'": {"params": {"data_type": "rgb"}},
    }
    assert_refused({words: lambda cfg=cfg: make(**cfg) for words, cfg in table.items()})


def paint_each(env, mask, stream) -> None:
    """Give the block of each environment its number as the amount of red."""
    red = torch.arange(env.num_envs, device=env.device) / 10.0
    env.sim.params.geom_rgba[:, env.sim.model.geom("block").id, :3] = 0.0
    env.sim.params.geom_rgba[:, env.sim.model.geom("block").id, 0] = red
    env.sim.apply_params(mask)


def test_colours_differ_between_environments_and_a_segmentation_names_geoms():
    lit = requires_model_fields("geom_rgba")(paint_each)
    env = make(
        3,
        name="above",
        body_name="world",
        offset=CameraOffsetCfg(pos=(0.0, 0.0, 2.0), rot=DOWN),
        seen_bodies=None,
        data_types=["rgb", "segmentation", "distance_to_camera"],
        history_length=2,
        params={"data_type": "rgb", "normalize": False},
        events=terms(paint=EventTermCfg(func=lit, mode="startup")),
    )
    camera = env.sensor_manager.get_term("camera")
    look(env, at(0.5), at(0.5), at(0.5))
    seen = {name: values[:, 2, 2] for name, values in camera.output.items()}
    assert seen["rgb"].dtype == torch.uint8
    assert seen["rgb"].shape == (3, 6)
    red, green = seen["rgb"][:, 3].int(), seen["rgb"][:, 4].int()
    assert red[0] < red[1] < red[2]
    assert (red - green)[0] == 0 < (red - green)[1]
    names = camera.segmentation_names
    assert {names[number] for number in seen["segmentation"][:, 1].tolist()} == {"block"}
    assert camera.image("segmentation")[0, 0, 0, 1] != seen["segmentation"][0, 1]  # the floor
    assert 1.0 < seen["distance_to_camera"][0, 1].item() < 1.6
    assert env.obs_buf["depth"].dtype == torch.float32


def test_pictures_and_previews_show_what_cameras_see():
    env = make(data_types=["rgb"], seen_bodies=None)
    (preview,) = env.sensor_manager.previews(1).values()
    assert np.array_equal(preview, env.sensor_manager.get_term("camera").image()[1].numpy())
    picture, green = np.zeros((60, 90, 3), dtype=np.uint8), np.full((5, 5, 3), 7, dtype=np.uint8)
    inset(picture, [green, 2 * green])
    assert (picture[32:52, 62:82] == 7).all()  # four times as large, 8 pixels from the edges
    assert (picture[32:52, 34:54] == 14).all()
    assert (picture > 0).sum() == 2 * 3 * 20 * 20
    near = make(clipping_range=(0.1, 4.0)).sensor_manager.get_term("camera")
    near.frames["depth"][0] = torch.tensor([0.5, 1.0, 1.0, 1.0, math.inf])
    assert near.preview(0).shape == (5, 5, 3)
    assert near.preview(0)[0, :, 0].tolist() == [159, 63, 63, 63, 0]


def test_variants_are_seen_each_in_its_environment():
    sizes = {"ball": (0.4,), "speck": (0.05,)}
    variants = {
        name: VariantCfg(shape=ShapeCfg(type="sphere", size=size)) for name, size in sizes.items()
    }
    variants["box"] = VariantCfg(shape=ShapeCfg(type="box", size=(0.3, 0.3, 0.3)))
    cfg = hopper_cfg(
        SceneCfg(
            num_envs=6,
            entities={
                "hopper": EntityCfg(model=hopper.MODEL, prefix=""),
                "thing": EntityCfg(variants=variants, init_state=InitialStateCfg(pos=(0, 0, 1))),
            },
        )
    )
    env = ManagerEnv(cfg, context=DistributedContext(num_threads=1), seed=0)
    camera = env.sensor_manager.get_term("eye")
    things = [i for i, name in enumerate(camera.segmentation_names) if name.startswith("thing")]
    seen = camera.image("segmentation")
    shares = torch.isin(seen, torch.tensor(things)).float().mean(dim=(1, 2, 3))
    assert torch.equal(shares[:3], shares[3:])
    ball, speck, box = shares[:3].tolist()
    assert speck < 0.01 < box < ball


def hopper_cfg(scene: SceneCfg) -> ManagerEnvCfg:
    """Return a task on the hopper with a camera above it that makes all kinds of images."""
    camera = CameraCfg(
        name="eye",
        offset=CameraOffsetCfg(pos=(0.0, 0.0, 4.0), rot=DOWN),
        data_types=["segmentation", "rgb", "depth"],
        width=24,
        height=24,
        delay_range=(0, 2),
        history_length=2,
    )
    return ManagerEnvCfg(
        decimation=1,
        episode_length_s=0.06,
        sim=SimulationCfg(dt=0.01),
        scene=scene,
        observations=terms(
            policy=group(pos=observation(mdp.joint_pos)),
            eye=group(
                image=observation(mdp.image, data_type="rgb", sensor_cfg=SceneEntityCfg("eye"))
            ),
        ),
        actions=terms(arm=mdp.JointPositionActionCfg(joint_names=["arm"])),
        events=terms(
            start=at_reset(mdp.reset_joints_by_offset, position_range=(0, 1), velocity_range=(0, 0))
        ),
        rewards=terms(alive=reward(mdp.is_alive, 1.0)),
        terminations=terms(time_out=termination(mdp.time_out, time_out=True)),
        sensors=terms(eye=camera),
    )


def test_a_task_in_colours_keeps_all_promises():
    cfg = hopper_cfg(SceneCfg(num_envs=4, model=hopper.MODEL))
    cfg.sensors.eye.augmentation = AugmentationCfg(hue=0.3, noise=0.1, blur=1.0)
    assert_keeps_promises(cfg)


def test_an_image_changes_once_and_in_each_environment_otherwise():
    def images(augmentation: AugmentationCfg) -> list[torch.Tensor]:
        settings = {"data_types": ["rgb", "depth"], "seen_bodies": None, "update_period": 0.04}
        env = make(**settings, augmentation=augmentation)
        camera, seen = env.sensor_manager.get_term("camera"), []
        for _ in range(5):  # of 0.02 s
            look(env, at(1.5), at(1.5))
            seen.append(camera.image("rgb").float())
        assert torch.allclose(camera.image("depth"), torch.tensor(1.5))
        return seen[1:]

    plain, changed = images(AugmentationCfg()), images(AugmentationCfg(brightness=0.5))
    assert torch.equal(changed[0], changed[1])
    assert not torch.equal(changed[1], changed[2])
    factor = (changed[0] / plain[0]).flatten(1).mean(dim=1).view(2, 1, 1, 1)
    assert torch.allclose(changed[0], factor * plain[0], atol=1.0)
    assert (factor[0] - factor[1]).abs() > 0.03


def test_lenses_that_differ_see_other_distances():
    wide = EventTermCfg(
        func=mdp.dr.cam_fovy,
        mode="startup",
        params={"ranges": (60.0, 90.0), "asset_cfg": SceneEntityCfg("robot", camera_names="eye")},
    )
    types = ["depth", "distance_to_camera"]
    env = make(3, pattern_cfg=None, width=3, height=3, data_types=types, events=terms(wide=wide))
    look(env, at(1.5), at(1.5), at(1.5))
    camera = env.sensor_manager.get_term("camera")
    fovy = env.sim.params.cam_fovy[:, 0]
    assert fovy.std() > 1.0
    step = 2.0 / 3.0 * torch.tan(torch.deg2rad(fovy) / 2.0)  # a pixel, at 1 m
    corner = camera.image("distance_to_camera")[:, 0, 0, 0]
    assert torch.allclose(corner, 1.5 * (1.0 + 2.0 * step.square()).sqrt(), atol=1e-4)
    assert torch.allclose(camera.image("depth")[:, 0, 0, 0], torch.tensor(1.5), atol=1e-4)


def test_colours_are_normalised_as_isaac_labs():
    env = make(data_types=["rgb"], seen_bodies=None, params={"normalize": True})
    raw = env.sensor_manager.get_term("camera").image("rgb").float() / 255.0
    assert torch.allclose(env.obs_buf["depth"], raw - raw.mean(dim=(1, 2), keepdim=True))


def test_pictures_are_not_those_of_a_sensors_camera():
    env = make(data_types=["rgb"])
    observed = terms(policy=group(pos=observation(mdp.joint_pos)))
    plain = dataclasses.replace(env.cfg, sensors=None, observations=observed)
    without = ManagerEnv(plain, context=DistributedContext(num_threads=1), seed=0)
    above = slice(0, 200)  # of the images in the corner
    assert np.array_equal(env.picture(1)[above], without.picture(1)[above])
    assert without.picture(1)[above].std() > 1.0


def test_what_is_fully_transparent_is_not_seen():
    def hide(spec) -> None:
        spec.geom("block").rgba[3] = 0.0

    seen = {}
    for name, edit in {"shown": None, "hidden": hide}.items():
        scene = SceneCfg(num_envs=1, model=hopper.MODEL, spec_fn=edit)
        env = ManagerEnv(hopper_cfg(scene), context=DistributedContext(num_threads=1), seed=0)
        camera = env.sensor_manager.get_term("eye")
        block = camera.segmentation_names.index("block")
        seen[name] = bool((camera.image("segmentation") == block).any())
    assert seen == {"shown": True, "hidden": False}


def test_a_camera_in_what_it_sees_is_warned_of(caplog):
    make(seen_bodies=None, body_name="world", offset=CameraOffsetCfg(pos=(0.0, 0.0, 2.0), rot=DOWN))
    assert "inside the geom" not in caplog.text
    make(seen_bodies=None, offset=CameraOffsetCfg())
    assert "camera 'eye' is inside the geom 'block', which it therefore does not see" in caplog.text


def test_a_wrong_camera_of_a_file_or_backend_is_refused():
    table = {
        "camera 'dept', but the model has the cameras side, depth. Did you mean depth": (
            "env.depth_camera.camera_name=dept"
        ),
        "called 'side', but the model has a camera of that name": (
            "env.depth_camera={camera_name:null,name:side}"
        ),
        "the analytic backend has only": "env.sim.backend=analytic",
        "width is 0": "env.depth_camera.width=0",
        "fovy is 180": "env.depth_camera.fovy=180",
        "update_period is -1": "env.depth_camera.update_period=-1",
        "data_types": "env.depth_camera.data_types=[normals]",
    }
    task = "Isaac-Cartpole-Depth-Camera-Direct-v0"
    for words, override in table.items():
        with pytest.raises(EnvlabError, match=words):
            envlab.make(task, num_envs=2, device="cpu", overrides=[override])
