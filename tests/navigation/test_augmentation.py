"""Random changes of agents' images, and mirrored episodes."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from tests.navigation.test_nav_env import draw, guided, make

ALL = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.4, "noise": 0.05}


def test_changes_belong_to_the_environments_and_survive_a_resume():
    fields = {"images": ["rgb"], "augmentation": ALL, "max_episode_length": 4}
    actions = draw(9, 4)
    whole = make(4, **fields)
    plain = make(4, **fields | {"augmentation": {}})
    halves = [make(2, rank=rank, world_size=2, **fields) for rank in range(2)]
    assert not torch.equal(whole.obs_buf["rgb"], plain.obs_buf["rgb"])
    for action in actions[:5]:
        expected = whole.step(action)[0]["rgb"]
        parts = [env.step(action[2 * rank : 2 * rank + 2])[0] for rank, env in enumerate(halves)]
        assert torch.equal(expected, torch.cat([part["rgb"] for part in parts]))
    whole.reset(options={"reset_mask": [True, False, False, True]})
    resumed = make(4, seed=9, **fields)
    resumed.set_state(whole.state())
    assert torch.equal(resumed.obs_buf["rgb"], whole.obs_buf["rgb"])
    for action in actions[5:]:
        assert torch.equal(whole.step(action)[0]["rgb"], resumed.step(action)[0]["rgb"])


def test_an_episode_in_the_mirror_is_the_episode_with_left_and_right_exchanged():
    fields = {"camera": {"width": 17, "height": 16, "headings_deg": [0.0, 60.0, -60.0]}}
    fields |= {"images": ["rgb", "labels"], "max_episode_length": 5}
    true, mirrored = make(6, **fields), make(6, **fields, augmentation={"mirror": 1.0})
    left_right = torch.tensor([0, 2, 1, 3, 4, 5])
    names = true.policy_names()
    sign = torch.ones(len(names))
    for name in ("goal_direction_sin", "gps_y", "compass_sin"):
        sign[names.index(name)] = -1.0
    for action in draw(12, 6):
        there, reward, *_ = true.step(action)
        here, same_reward, *_ = mirrored.step(left_right[action])
        assert torch.equal(reward, same_reward)
        assert torch.allclose(here["policy"], there["policy"] * sign, atol=1e-6)
        labels = there["labels"].flip(2)[..., [0, 2, 1]]
        assert torch.equal(here["labels"], labels)
        rgb = there["rgb"].unflatten(3, (3, 3)).flip(2)[..., [0, 2, 1], :].flatten(3)
        assert torch.equal(here["rgb"], rgb)


def test_a_share_of_the_episodes_is_mirrored_and_the_expert_finds_its_way_in_them():
    env = make(40, augmentation={"mirror": 0.5}, images=[])
    assert 10 < int(env.agents.mirrored.sum()) < 30
    assert guided(env)[0] == 1.0
