"""Random changes of colours: ranges, what stays as it is, and a Gaussian blur beside scipy's."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from scipy.ndimage import gaussian_filter

from envlab.sim.augmentation import Augmentation
from envlab.sim.cfg import AugmentationCfg

GREY = torch.tensor([0.299, 0.587, 0.114])


def change(**fields) -> tuple[torch.Tensor, torch.Tensor]:
    """Return 50 pictures of medium colours before and after, ``(50, 16, 16, 3)``."""
    generator = torch.Generator().manual_seed(0)
    before = torch.randint(110, 140, (50, 16, 16, 3), dtype=torch.uint8, generator=generator)
    return before.double(), changed(before, **fields).double()


def changed(pictures: torch.Tensor, num_views: int = 1, **fields) -> torch.Tensor:
    """Return pictures ``(50, height, width, 3)`` in other colours."""
    after = torch.stack((torch.zeros_like(pictures), pictures), dim=1)  # the second of two slots
    cfg, everyone = AugmentationCfg(**fields), torch.ones(50, dtype=torch.bool)
    augmentation = Augmentation(cfg, 50, torch.device("cpu"), num_views=num_views)
    generator = torch.Generator().manual_seed(1)
    augmentation.draw(torch.randint(1 << 62, (50,), generator=generator), everyone)
    augmentation.apply(after, everyone, everyone.int())
    assert after[:, 0].max() == 0
    return after[:, 1]


def test_brightness_is_one_factor_a_picture_in_the_range():
    before, after = change(brightness=0.4)
    factor = (after.sum((1, 2, 3)) / before.sum((1, 2, 3))).view(-1, 1, 1, 1)
    assert (after - factor * before).abs().max() <= 0.6  # rounded
    assert 0.6 <= factor.min() < 0.7
    assert 1.3 < factor.max() <= 1.4


def test_contrast_keeps_the_mean_and_saturation_the_grey_of_each_pixel():
    before, after = change(contrast=0.5)
    mean = (before @ GREY.double()).mean((1, 2))
    assert ((after @ GREY.double()).mean((1, 2)) - mean).abs().max() < 0.2
    share = (after - mean.view(-1, 1, 1, 1)).std((1, 2, 3)) / before.std((1, 2, 3))
    assert 0.5 <= share.min() < 0.6
    assert 1.4 < share.max() < 1.55
    before, after = change(saturation=0.5)
    assert ((after - before) @ GREY.double()).abs().max() < 0.6


def test_hue_turns_about_grey_and_keeps_the_sum_of_a_pixel():
    before, after = change(hue=0.5)
    assert (after.sum(3) - before.sum(3)).abs().max() < 2.0
    radius = [(values - values.mean(3, keepdim=True)).norm(dim=3) for values in (before, after)]
    assert (radius[0] - radius[1]).abs().max() < 1.0
    assert (after - before).abs().amax((1, 2, 3)).max() > 10


def test_noise_has_the_deviation_that_was_asked_for_and_no_mean():
    before, after = change(noise=0.05)
    noise = after - before
    assert noise.mean().abs() < 0.3
    assert noise.std() == pytest.approx(0.05 * 255, rel=0.05)
    assert not torch.equal(noise[0], noise[1])


def test_blur_is_a_gaussian_of_one_deviation_a_picture_in_the_range():
    line = torch.zeros(50, 21, 21, 3, dtype=torch.uint8)
    line[:, :, 10] = 255
    after = changed(line, blur=1.5)[..., 0].double()
    ratio = (after[:, 10, 11] / after[:, 10, 10]).clamp(1e-3, 0.999)
    deviations = (-0.5 / ratio.log()).sqrt()
    assert deviations.min() < 0.4
    assert 1.3 < deviations.max() <= 1.55
    scene = torch.randint(256, (50, 12, 16, 3), dtype=torch.uint8)
    for before, found, deviation in zip(
        scene, changed(scene, blur=1.5), deviations.tolist(), strict=True
    ):
        if deviation > 0.5:  # else whole numbers hardly tell
            settings = {"mode": "nearest", "radius": int(3 * deviation) + 1, "axes": (0, 1)}
            expected = gaussian_filter(before.numpy().astype(float), deviation, **settings)
            assert (found - torch.from_numpy(expected)).abs().max() < 3.0


def test_views_that_share_a_picture_are_blurred_apart():
    views = torch.randint(256, (2, 50, 8, 9, 3), dtype=torch.uint8)
    together = changed(torch.stack(tuple(views), dim=3).flatten(2, 3), num_views=2, blur=2.0)
    for index, view in enumerate(views):
        assert torch.equal(together[:, :, index::2], changed(view, blur=2.0))
