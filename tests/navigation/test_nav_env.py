"""Navigation: observations, actions and rewards, in addition to every task's promises."""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
from unittest import mock

import numpy as np
import pytest
import torch

pytest.importorskip("warp", reason="needs warp-lang: pip install -e '.[nav]'")

from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.errors import SimulationError
from envlab.state import restore, save
from envlab_navigation.expert import Expert
from envlab_navigation.house import AGENT_RADIUS, CELL
from envlab_navigation.metrics import ENDS
from envlab_navigation.nav_cfg import ACTIONS, NavEnvCfg
from envlab_navigation.nav_env import NavEnv
from tests.navigation.houses import FOLDER, clearance, load
from tests.refusals import check_refusals

MOVE, LEFT, RIGHT, UP, DOWN, END = range(6)


def make(
    num_envs: int = 4,
    *,
    rank: int = 0,
    world_size: int = 1,
    seed: int = 0,
    render_mode: str | None = None,
    device: str = "cpu",
    **fields,
) -> NavEnv:
    """Return an environment with all actions; ``fields`` are those of its configuration."""
    defaults = {
        "actions": list(ACTIONS),
        "houses": {"num_houses": 2, "cache_dir": FOLDER.name},
        "camera": {"width": 16, "height": 16},
    }
    cfg = merge(NavEnvCfg(), defaults | fields, "env")
    where = {"rank": rank, "world_size": world_size, "device": torch.device(device)}
    context = DistributedContext(num_threads=1, **where)
    return NavEnv(cfg, context=context, num_envs=num_envs, seed=seed, render_mode=render_mode)


def act(env: NavEnv, action: int):
    return env.step(torch.full((env.num_envs, 1), action))


def put(env: NavEnv, x: float, y: float, yaw: float = 0.0) -> None:
    """Put all agents somewhere, as if their episodes had begun at that pose."""
    env.pose[:, 0], env.pose[:, 1], env.pose[:, 3] = x, y, yaw
    env.start.copy_(env.pose)
    env.distance.copy_(env.distances_from(env.pose[:, None, :2].contiguous())[:, 0])
    env.start_distance.copy_(env.distance)


def arrive(env: NavEnv) -> None:
    """Put each agent on its goal, which is a point."""
    x, y = env.goal_points().unbind(dim=1)
    put(env, x, y)


def test_agents_move_and_turn_by_the_book():
    env = make(1, start_range_m=[2.0, 30.0])
    house = load("train", env.houses.number_of(int(env.slot)))
    free = house["free"]
    rows, columns = np.nonzero(free[:, 2:-2] & free[:, 4:] & free[:, :-4])
    put(env, (columns[0] + 2.5) * CELL, (rows[0] + 0.5) * CELL)
    before = env.pose.clone()
    for action in (LEFT, LEFT, LEFT, RIGHT, RIGHT, RIGHT):
        act(env, action)
    assert torch.allclose(env.pose, before, atol=1e-5)
    act(env, LEFT)
    assert float(env.pose[0, 3]) == pytest.approx(math.radians(30.0))
    for action, tan in ((UP, 1), (UP, 1), (DOWN, 0), (DOWN, -1), (DOWN, -1)):
        act(env, action)
        assert float(env.pose[0, 4]) == pytest.approx(tan * math.tan(math.radians(30.0)))


def test_the_policy_group_says_where_the_goal_and_the_start_are():
    env = make(3)
    act(env, LEFT)
    act(env, MOVE)
    names = env.policy_names()
    seen = dict(zip(names, env.obs_buf["policy"].unbind(dim=1), strict=True))
    assert names[-1] == "tan_pitch"
    direction = torch.atan2(seen["goal_direction_sin"], seen["goal_direction_cos"])
    heading = env.pose[:, 3] + direction
    way = torch.stack((heading.cos(), heading.sin()), dim=1) * seen["goal_distance"].unsqueeze(1)
    assert torch.allclose(env.pose[:, :2] + way, env.goal_points(), atol=1e-4)
    yaw = env.start[:, 3]
    x, y = seen["gps_x"], seen["gps_y"]
    back = torch.stack((yaw.cos() * x - yaw.sin() * y, yaw.sin() * x + yaw.cos() * y), dim=1)
    assert torch.allclose(env.start[:, :2] + back, env.pose[:, :2], atol=1e-5)
    assert torch.allclose(seen["compass_cos"], torch.full((3,), math.cos(math.pi / 6)), atol=1e-5)


def test_an_object_is_named_by_its_class_and_every_start_has_a_path_to_one():
    """A fifth of all classes is in no place of a house, and so 32 m away."""
    env = make(64, goal="object", images=[], start_range_m=[1.0, 50.0])
    assert float(env.start_distance.max()) < 32.0
    env = make(6, goal="object", targets=["Apple", "Mug"], gps_compass=False)
    names = env.policy_names()
    for row in env.obs_buf["policy"]:
        (column,) = row[: len(names) - 1].nonzero()
        assert names[int(column)] in ("goal_is_Apple", "goal_is_Mug")


def test_no_agent_comes_nearer_to_anything_than_its_radius_over_many_steps():
    env = make(100, images=[], actions=["MoveAhead", "RotateLeft", "RotateRight", "End"])
    generator = torch.Generator().manual_seed(0)
    chances, nearest = torch.tensor([0.8, 0.1, 0.1]), []
    for _ in range(150):  # 15,000 of all agents
        env.step(torch.multinomial(chances, 100, True, generator=generator).unsqueeze(1))
        for slot in env.slot.unique().tolist():
            at = env.pose[env.slot == slot, :2].numpy().astype(np.float64)
            house = load("train", slot)
            nearest.append(clearance(house["walls"], house["primitives"], at))
    assert min(nearest) >= AGENT_RADIUS - 0.015


@pytest.mark.parametrize("slides", [True, False])
def test_an_agent_slides_along_obstacles_or_stops_at_them(slides):
    env = make(50, images=[], slides=slides)
    aside = torch.zeros(50)
    for _ in range(40):
        before = env.pose.clone()
        act(env, MOVE)
        dx, dy = (env.pose - before)[:, :2].unbind(dim=1)
        sideways = (env.pose[:, 3].cos() * dy - env.pose[:, 3].sin() * dx).abs()
        aside = torch.maximum(aside, sideways)
    assert (env.collisions > 0).all()
    assert bool((aside > 0.01).any()) == slides


def test_an_end_at_the_goal_succeeds_and_elsewhere_fails():
    env = make(2, start_range_m=[2.0, 30.0], rewards={"failed_end": -0.5})
    env.pose[0, :2] = env.goal_points()[0]
    env.distance[0] = 0.0
    _, reward, terminated, truncated, info = act(env, END)
    assert terminated.tolist() == [True, True]
    assert not truncated.any()
    assert reward.tolist() == pytest.approx([-0.01 + 10.0, -0.01 - 0.5])
    assert info["episodes"]["success"].tolist() == [1.0, 0.0]
    assert info["log"]["Episode_Info/success"] == 0.5
    for end, share in (("success", 0.5), ("failed_end", 0.5), ("time_out", 0.0)):
        assert info["log"][f"Episode_Termination/{end}"] == share
    assert [ENDS[end] for end in info["episodes"]["end"]] == ["success", "failed_end"]


def test_spl_and_soft_spl_by_hand():
    env = make(3, start_range_m=[2.0, 30.0])
    arrive(env)
    env.start_distance.copy_(torch.tensor([4.0, 4.0, 5.0]))
    env.travelled.copy_(torch.tensor([5.0, 3.0, 10.0]))  # 3 m: shorter than the grid's way
    *_, info = act(env, END)
    episodes = info["episodes"]
    assert episodes["spl"].tolist() == pytest.approx([0.8, 1.0, 0.5])
    assert episodes["soft_spl"].tolist() == pytest.approx([0.8, 1.0, 0.5])
    assert episodes["path_length"].tolist() == [5.0, 3.0, 10.0]
    env.start_distance.copy_(2.0 * env.distance)  # half way of new episodes
    env.travelled.copy_(3.0 * env.distance)
    *_, info = act(env, END)
    assert info["episodes"]["spl"].tolist() == [0.0] * 3
    assert info["episodes"]["soft_spl"].tolist() == pytest.approx([0.5 * 2 / 3] * 3)


def test_an_episode_reports_its_house_and_its_detour():
    env = make(4, start_range_m=[2.0, 30.0], houses={"num_houses": 2, "first_house": 5})
    env.start[:, :2] = env.goal_points() + torch.tensor([2.0, 0.0])  # 2 m as the crow flies
    env.start_distance.copy_(torch.tensor([1.74, 1.96, 2.74, 3.74]))  # to 0.26 m before the point
    houses = [env.houses.number_of(int(slot)) for slot in env.slot]
    *_, info = act(env, END)
    episodes = info["episodes"]
    assert episodes["detour"].tolist() == pytest.approx([1.0, 1.11, 1.5, 2.0])
    assert episodes["house"].tolist() == houses
    assert set(houses) == {5, 6}


def test_progress_is_earned_but_not_more_than_was_moved():
    env = make(16, start_range_m=[3.0, 30.0], images=[])
    expert = Expert(env)
    for _ in range(12):
        before, travelled = env.distance.clone(), env.travelled.clone()
        lengths = env.episode_length_buf.clone()
        _, reward, terminated, *_ = env.step(expert.act())
        moved, nearer = env.travelled - travelled, before - env.distance
        continues = ~terminated & (env.episode_length_buf > lengths)
        expected = -0.01 + torch.minimum(torch.maximum(nearer, -moved), moved)
        assert torch.allclose(reward[continues], expected[continues], atol=1e-5)


def test_an_object_must_be_seen_for_an_end_to_succeed():
    env = make(8, goal="object", camera={"width": 32, "height": 32})
    expert = Expert(env)
    found = 0
    for _ in range(120):
        arrived = env.distance <= 0.1
        seen = env.sees_goal()
        actions = expert.act()
        actions[arrived] = END
        *_, info = env.step(actions)
        if arrived.any():
            success = info["episodes"]["success"][arrived].bool()
            assert torch.equal(success, seen[arrived])
            found += int((~success).sum())
    assert found > 0  # arrived with its back to the goal


def test_a_time_limit_truncates_and_is_bootstrapped_from_the_last_state():
    env = make(2, max_episode_length=3)
    for _ in range(2):
        act(env, LEFT)
    yaw = env.pose[:, 3].clone()
    _, _, terminated, truncated, info = act(env, LEFT)
    assert truncated.all()
    assert not terminated.any()
    names = env.policy_names()
    turned = info["final_obs"]["policy"][:, names.index("compass_cos")]
    assert torch.allclose(turned, torch.zeros(2), atol=1e-6)  # three turns of 30 degrees
    assert not torch.equal(env.pose[:, 3], yaw)
    assert info["log"]["Episode_Termination/time_out"] == 1.0
    assert [ENDS[end] for end in info["episodes"]["end"]] == ["time_out"] * 2


def guided(env: NavEnv) -> tuple[float, float]:
    """Return success and SPL of the expert, over each environment's first episode."""
    expert, episodes, left = Expert(env), [], torch.ones(env.num_envs, dtype=torch.bool)
    while left.any():
        *_, info = env.step(expert.act())
        if "episodes" in info:
            first = info["_final_obs"] & left
            measures = torch.stack([info["episodes"][name] for name in ("success", "spl")])
            episodes.append(measures[:, first])
            left &= ~first
    success, spl = torch.cat(episodes, dim=1).mean(dim=1).tolist()
    return success, spl


def test_the_expert_reaches_every_goal_almost_on_the_shortest_way():
    for goal in ("point", "object"):
        success, spl = guided(make(24, goal=goal, seed=1, camera={"width": 32, "height": 32}))
        assert success == 1.0, goal
        assert spl > 0.93, goal


def test_an_expert_resumes_exactly_and_takes_account_of_others_actions():
    env, again = (make(8, seed=2, goal="object", camera={"width": 32, "height": 32}) for _ in "ab")
    going, resumed = Expert(env), Expert(again)
    for step in range(40):
        if step == 20:
            again.set_state(env.state())
            restore(resumed, save(going), again.device)
        actions = going.act()
        if step >= 20:
            assert torch.equal(resumed.act(), actions), step
        others = torch.where(torch.arange(8).unsqueeze(1) < 4, LEFT, actions)
        for expert, one in ((going, env), (resumed, again)):
            if step >= 20 or one is env:
                expert.note_taken(others)
                one.step(others)


TURNS = {"num_houses": 9, "num_slots": 6, "rotate_every": 2}


def roll(env: NavEnv, actions: torch.Tensor) -> list[torch.Tensor]:
    """Return rewards, houses, poses and images of each step."""
    rows = []
    for action in actions:
        obs, reward, *_ = env.step(action)
        house = torch.tensor([env.houses.number_of(int(slot)) for slot in env.slot])
        rows.append((reward, house, env.pose.clone(), obs["depth"].clone()))
    return [torch.stack(values) for values in zip(*rows, strict=True)]


def draw(steps: int, num_envs: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, 5, (steps, num_envs, 1), generator=generator)


def test_houses_take_turns_alike_on_all_ranks_and_after_a_resume():
    fields = {"houses": TURNS | {"cache_dir": FOLDER.name}, "max_episode_length": 6}
    actions = draw(30, 8)
    whole = make(8, **fields)
    expected = roll(whole, actions)
    assert len(expected[1].unique()) == 9
    of_rank = [make(4, rank=rank, world_size=2, **fields) for rank in range(2)]
    halves = [roll(env, own) for env, own in zip(of_rank, actions.split(4, dim=1), strict=True)]
    for values, first, second in zip(expected, *halves, strict=True):
        assert torch.equal(values, torch.cat((first, second), dim=1))
    going = make(8, **fields)
    roll(going, actions[:13])
    resumed = make(8, seed=9, **fields)
    resumed.set_state(going.state())
    for values, rest in zip(expected, roll(resumed, actions[13:]), strict=True):
        assert torch.equal(values[13:], rest)


def test_a_partial_reset_changes_neither_returned_tensors_nor_other_environments():
    env = make(3)
    act(env, LEFT)
    handed, pose = env.obs_buf["depth"], env.pose.clone()
    copy = handed.clone()
    obs, _ = env.reset(options={"reset_mask": [True, False, False]})
    assert torch.equal(handed, copy)
    assert torch.equal(env.pose[1:], pose[1:])
    assert torch.equal(obs["depth"][1:], copy[1:])
    assert not torch.equal(obs["depth"][0], copy[0])


def test_a_picture_shows_the_view_next_to_the_way():
    env = make(1, render_mode="rgb_array")
    assert make(1).render() is None
    first = env.render()
    assert first.shape[0] == 360
    assert first.shape[1] % 2 == 0
    act(env, LEFT)
    second = env.render()
    differs = (first != second).any(axis=2)
    assert differs[:, :360].any()  # the view
    assert 0 < differs[:, 360:].sum() < 2000  # the agent on the map


def test_a_configuration_without_an_episode_is_refused():
    check_refusals(
        lambda fields: make(**fields),
        [
            ({"goal": "object", "targets": ["Aple"]}, "names 'Aple', but .* Did you mean Apple"),
            ({"goal": "object", "targets": []}, "targets is empty"),
            ({"actions": ["MoveAhead", "RotateLeft"]}, "needs 'End'"),
            ({"start_range_m": [5.0, 1.0]}, "must be two distances, the smaller first"),
            ({"start_range_m": [25.0, 30.0]}, "None of the 2 houses .* 25 to 30 m"),
            ({"camera": {"height": 0}}, "env.camera.height is 0"),
            ({"turn_deg": 0.0}, "env.turn_deg is 0"),
            ({"augmentation": {"noise": 0.1}}, "augmentation changes colours, but env.images"),
            ({"images": ["rgb"], "augmentation": {"hue": 0.6}}, "augmentation.hue is 0.6"),
        ],
    )
    check_refusals(act, [(make(), 6, "is given option 6 of choice 0, which has 6")])


def test_without_warp_a_sentence_names_the_package_to_install(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("envlab_navigation.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "warp", None)
    with pytest.raises(SimulationError, match=r"needs the package 'warp', .*'\.\[nav\]'"):
        importlib.import_module("envlab_navigation.nav_env")


def test_too_many_failures_stop_the_run_and_are_saved(tmp_path):
    env = make(8)
    env.log_dir = tmp_path
    env.pose[:4] = torch.nan
    with pytest.raises(SimulationError, match="4 of 8 environments became non-finite"):
        act(env, LEFT)
    (path,) = tmp_path.glob("nan_state_*.pt")
    assert torch.load(path)["bad"].tolist() == [True] * 4 + [False] * 4


def test_a_step_away_from_the_cpu_reads_no_tensor(monkeypatch):
    """Tensors on torch's device "meta" have no values, and whoever asks for one gets an error."""
    for index in range(TURNS["num_houses"]):  # while there are kernels to make them
        load("train", index)
    for name in ("from_torch", "device_from_torch", "stream_from_torch"):
        monkeypatch.setattr(f"warp.{name}", lambda *_, **__: None)
    monkeypatch.setattr("warp.launch", mock.MagicMock())  # for a GPU that does not exist
    monkeypatch.setattr("warp.ScopedStream", lambda _: contextlib.nullcontext())
    monkeypatch.setattr("torch.cuda.current_stream", lambda _: None)
    fields = {"images": ["rgb"], "goal": "object", "max_episode_length": 6}
    fields |= {"houses": TURNS | {"cache_dir": FOLDER.name}, "augmentation": {"hue": 0.1}}
    env = make(8, device="meta", **fields)
    for _ in range(8):  # a house goes and another comes
        *_, info = env.step(torch.zeros(8, 1, dtype=torch.int64, device="meta"))
    assert info["final_obs"]["rgb"].shape == (8, 16, 16, 3)
    with pytest.raises(RuntimeError, match="meta"):
        bool(info["_final_obs"].any())
