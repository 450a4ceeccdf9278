"""Cameras against an independent ray caster, and the choice of images that are drawn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

import envlab_navigation.camera
from envlab_navigation.camera import Camera
from envlab_navigation.furniture import CLASSES
from envlab_navigation.nav_cfg import CameraCfg
from tests.navigation.houses import draw_poses, load, make_set
from tests.navigation.ray_caster import cast
from tests.refusals import check_refusals

LOOK = math.tan(math.radians(30.0))
NUM_HOUSES = 5
KINDS = ("depth", "rgb", "labels", "goal_mask")


@pytest.fixture(scope="module")
def houses():
    return make_set(NUM_HOUSES)


def views(houses, num: int, tan_pitches=(0.0,), goal: int = -1, **cfg):
    """Return a camera with ``num`` views of each house, and their slots and poses."""
    slots = np.repeat(np.arange(houses.num_slots, dtype=np.int32), num)
    poses = [draw_poses(load("train", slot), num, slot, tan_pitches) for slot in range(NUM_HOUSES)]
    pose = torch.from_numpy(np.concatenate(poses))
    named = {"slot": torch.from_numpy(slots), "pose": pose, "kinds": KINDS}
    named["goal_class"] = torch.full((len(slots),), goal, dtype=torch.int32)
    return Camera(CameraCfg(**cfg), houses.arrays, **named), slots, pose


def draw(camera: Camera) -> dict[str, torch.Tensor]:
    images = camera.new_images()
    camera.draw(images, torch.ones(len(images["depth"]), dtype=torch.bool))
    return images


def test_fifty_views_equal_an_independent_ray_caster_in_every_pixel(houses):
    camera, slots, pose = views(houses, 10, (-LOOK, 0.0, LOOK))
    images = draw(camera)
    seen = set()
    for view, slot in enumerate(slots):
        depth, labels = cast(load("train", int(slot)), pose[view])
        assert np.array_equal(images["labels"][view, ..., 0].numpy(), labels), view
        assert np.abs(images["depth"][view, ..., 0].numpy() - depth).max() < 1e-3, view
        seen |= set(labels.flatten().tolist())
    assert len(seen) >= 16  # of 22 classes


def test_a_camera_that_tilts_agrees_up_to_edges(houses):
    camera, slots, pose = views(houses, 3, (-LOOK, LOOK), pitch="tilt")
    images = draw(camera)
    for view, slot in enumerate(slots):
        depth, labels = cast(load("train", int(slot)), pose[view], tilts=True)
        differs = images["labels"][view, ..., 0].numpy() != labels
        assert differs.sum() <= 4, view
        wrong = np.abs(images["depth"][view, ..., 0].numpy() - depth) > 1e-3
        assert wrong.sum() <= 4, view


def test_the_goal_is_masked_and_counted(houses):
    goal = CLASSES.index("Chair")
    camera, _, _ = views(houses, 10, goal=goal)
    images = draw(camera)
    is_goal = images["labels"] == goal
    assert is_goal.any()
    assert torch.equal(images["goal_mask"], 255 * is_goal.to(torch.uint8))
    assert torch.equal(camera.goal_pixels(), is_goal.sum(dim=(1, 2, 3)))


def test_images_do_not_depend_on_strips_threads_or_other_kinds(houses, monkeypatch):
    camera, slots, pose = views(houses, 4)
    monkeypatch.setattr(envlab_navigation.camera, "ENVS_PER_THREAD", 3)
    images = draw(camera)
    named = {"slot": torch.from_numpy(slots), "pose": pose, "num_threads": 3, "strip": 5}
    named["goal_class"] = torch.full((len(slots),), -1, dtype=torch.int32)
    for kind in KINDS:
        alone = Camera(CameraCfg(), houses.arrays, kinds=(kind,), **named)
        drawn = alone.new_images()
        alone.draw(drawn, torch.ones(len(slots), dtype=torch.bool))
        assert torch.equal(drawn[kind], images[kind]), kind


def test_only_the_wanted_environments_are_drawn(houses):
    camera, _, _ = views(houses, 2)
    images = camera.new_images()
    for values in images.values():
        values.fill_(7)
    mask = torch.arange(2 * NUM_HOUSES) % 3 == 0
    camera.draw(images, mask)
    for values in images.values():
        assert (values[~mask] == 7).all()
        assert (values[mask] != 7).any()


def test_memory_of_images_is_used_again_once_nobody_holds_any_of_it(houses):
    camera, _, _ = views(houses, 1)
    first = camera.new_images()
    where = first["rgb"].data_ptr()
    held = first["rgb"][1:].detach().numpy()
    del first
    others = [camera.new_images() for _ in range(5)]
    assert where not in [other["rgb"].data_ptr() for other in others]
    del held
    assert camera.new_images()["rgb"].data_ptr() == where
    del others
    again = [camera.new_images()["rgb"].data_ptr() for _ in range(2)]
    assert again[0] == again[1]


def test_several_cameras_follow_one_another_in_the_channels(houses):
    camera, _, pose = views(houses, 2, headings_deg=[0.0, 90.0])
    images = draw(camera)
    assert images["rgb"].shape == (2 * NUM_HOUSES, 64, 64, 6)
    ahead, _, same = views(houses, 2)
    first = draw(ahead)
    assert torch.equal(images["rgb"][..., :3], first["rgb"])
    same[:, 3] += math.pi / 2
    left = draw(ahead)
    assert (images["labels"][..., 1:] != left["labels"]).float().mean() < 1e-3
    assert torch.equal(pose[:, :3], same[:, :3])


def test_lighting_differs_between_houses_and_colours_are_shaded(houses):
    images = draw(views(houses, 10)[0])
    assert houses.arrays["light"].unique(dim=0).shape[0] == NUM_HOUSES
    assert images["rgb"].float().std() > 20
    walls = images["rgb"][(images["labels"] == CLASSES.index("Wall")).expand(-1, -1, -1, 3)]
    assert walls.unique().numel() > 50


def test_a_camera_without_an_image_is_refused(houses):
    check_refusals(
        lambda fields: views(houses, 1, **fields),
        [
            ({"width": 0}, "env.camera.width is 0, but must be greater than 0"),
            ({"height": 100_000}, "env.camera.height is 100000, but must be .* at most 4096"),
            ({"hfov_deg": 180.0}, "hfov_deg is 180.0, but must be"),
            ({"mount_m": 3.0}, "mount_m is 3.0, but must be"),
            ({"headings_deg": []}, "headings_deg is empty"),
        ],
    )
