"""Isaac-Cartpole-Depth-Camera-Direct-v0: the content of its images, and stacked frames."""

from __future__ import annotations

import math
from functools import partial

import pytest
import torch

from envlab.errors import ConfigurationError
from tests.tasks import making

make = partial(making.make, "Isaac-Cartpole-Depth-Camera-Direct-v0")
NUM_ENVS = 3
CART_FRONT_M, POLE_FRONT_M, RAIL_FRONT_M = 4.9, 4.97, 4.98
PIXEL_M = 2 * 5.0 * math.tan(math.radians(11.96) / 2) / 24
"""Size of a pixel at 5 m."""


def show(env, cart: float, pole: float) -> torch.Tensor:
    """Return the image, ``(height, width)``, of a cart (m) and a pole (rad)."""
    making.put(env, [cart, pole])
    env.sensor_manager.update(env.step_dt)
    return env._get_observations()["policy"][0, ..., -1]


def columns_of(image: torch.Tensor, depth: float) -> list[int]:
    """Return the columns in which something at a depth is seen."""
    return ((image - depth).abs() < 5e-3).any(dim=0).nonzero().flatten().tolist()


def test_cart_pole_and_rail_are_seen_at_their_distances_and_nothing_else():
    image = show(make(), 0.02, 0.0)  # at 0 the pole would stand just between two columns
    assert image.shape == (24, 96)
    depths = [round(value, 2) for value in image.unique().tolist()]
    assert depths == [0.0, CART_FRONT_M, POLE_FRONT_M, RAIL_FRONT_M]
    assert len(columns_of(image, RAIL_FRONT_M)) > 80
    cart = columns_of(image, CART_FRONT_M)
    assert len(cart) == pytest.approx(0.25 / PIXEL_M * 5.0 / CART_FRONT_M, abs=1)
    assert (cart[0] + cart[-1]) / 2 == pytest.approx(47.5 + 0.02 / PIXEL_M, abs=0.51)


def test_the_image_follows_cart_and_pole():
    env = make()
    for cart in (-1.0, 0.5):
        seen = columns_of(show(env, cart, 0.0), CART_FRONT_M)
        expected = 47.5 + cart / PIXEL_M * 5.0 / CART_FRONT_M
        assert (seen[0] + seen[-1]) / 2 == pytest.approx(expected, abs=0.6)
    for angle in (-0.4, 0.4):
        seen = columns_of(show(env, 0.0, angle), POLE_FRONT_M)
        tip = seen[0] if angle < 0 else seen[-1]
        reach = 0.97 * math.sin(angle) / PIXEL_M * 5.0 / POLE_FRONT_M
        assert tip == pytest.approx(47.5 + reach, abs=1.0)


def test_resolution_and_frames_follow_overrides():
    env = make(
        "env.depth_camera.width=32",
        "env.depth_camera.height=16",
        "env.depth_camera.history_length=3",
    )
    assert env.single_observation_space["policy"].shape == (16, 32, 3)
    with pytest.raises(ConfigurationError, match=r"\(24, 96, 1\), but its configuration declares"):
        make("env.observation_space=[100,100,1]")
    with pytest.raises(ConfigurationError, match="history_length is 0"):
        make("env.depth_camera.history_length=0")


def test_a_stack_holds_the_last_images_and_begins_anew_with_an_episode():
    env = make("env.depth_camera.history_length=2", "env.episode_length_s=0.1")
    single = make("env.episode_length_s=0.1")
    pushes = torch.rand(12, NUM_ENVS, 1, generator=torch.Generator().manual_seed(0)) * 4.0 - 2.0
    before, ends = single.obs_buf["policy"], 0
    assert torch.equal(env.obs_buf["policy"], before.expand(-1, -1, -1, 2))
    for push in pushes:
        obs, _, terminated, truncated, info = env.step(push)
        image, *_, single_info = single.step(push)
        ended = terminated | truncated
        first = image["policy"].expand(-1, -1, -1, 2)
        going_on = torch.cat((before, image["policy"]), dim=-1)
        expected = torch.where(ended.view(-1, 1, 1, 1), first, going_on)
        assert torch.equal(obs["policy"], expected)
        if ended.any():
            ends += 1
            last = torch.cat((before, single_info["final_obs"]["policy"]), dim=-1)
            assert torch.equal(info["final_obs"]["policy"][ended], last[ended])
        before = image["policy"]
    assert ends >= 2


def test_a_stack_survives_a_resume_and_a_partial_reset():
    env, other = (make("env.depth_camera.history_length=2") for _ in range(2))
    for push in (1.0, -1.0, 0.5):
        env.step(torch.full((NUM_ENVS, 1), push))
    kept = env.obs_buf["policy"].clone()
    other.set_state(env.state())
    env.reset(options={"reset_mask": torch.tensor([True, False, False])})
    assert torch.equal(env.obs_buf["policy"][1:], kept[1:])
    assert not torch.equal(env.obs_buf["policy"][0], kept[0])
    expected = make("env.depth_camera.history_length=2")
    for push in (1.0, -1.0, 0.5, 0.3):
        obs, *_ = expected.step(torch.full((NUM_ENVS, 1), push))
    assert torch.equal(other.step(torch.full((NUM_ENVS, 1), 0.3))[0]["policy"], obs["policy"])
