from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator

import pytest
import torch

import envlab
from envlab.config import merge
from envlab.distributed.context import DistributedContext
from envlab.envs import VectorEnv
from envlab.registry import get_task, load_env_cfg
from envlab_web.viewer.messages import Frame, Wishes
from tests.web.viewer.conftest import LocalViewer

FAST = Wishes(speed=math.inf)
DEADLINE_S = 60.0


@pytest.fixture
def watch() -> Iterator[Callable[..., LocalViewer]]:
    viewers: list[LocalViewer] = []

    def make(env: VectorEnv, *, is_played: bool = True) -> LocalViewer:
        viewers.append(LocalViewer(env, title="test", port=0, is_played=is_played))
        return viewers[-1]

    yield make
    for viewer in viewers:
        viewer.close()


def step(env: VectorEnv, viewer: LocalViewer, wishes: Wishes | None = None) -> Frame | None:
    """Make a step; return the frame that answers ``wishes``."""
    env.step(torch.zeros(env.num_envs, env.single_action_space.shape[0]))
    if wishes is not None:
        viewer.page.send(wishes)
        viewer.next_frame_at = 0.0
    viewer.after_step()
    return viewer.page.recv() if viewer.page.poll() else None


def test_a_frame_is_a_copy_of_the_environments_that_are_shown(cartpole, watch):
    viewer = watch(cartpole)
    frame = step(cartpole, viewer, Wishes(first=5, followed=2, speed=math.inf))
    # 4 of 6 are shown at a time, so that the last ones begin at 2.
    assert torch.equal(torch.from_numpy(frame.qpos), cartpole.sim.data.qpos[2:6])
    earned = frame.rewards["total"] * cartpole.step_dt
    assert earned == pytest.approx(float(cartpole.reward_buf[4]), abs=1e-5)
    before = frame.qpos.copy()
    assert step(cartpole, viewer) is None  # no step was requested
    assert (frame.qpos == before).all()
    assert not torch.equal(torch.from_numpy(before), cartpole.sim.data.qpos[2:6])


def test_a_frame_has_what_cameras_of_the_followed_environment_see(watch):
    env = envlab.make("Isaac-Cartpole-RGB-Camera-Direct-v0", num_envs=3, device="cpu", seed=1)
    frame = step(env.unwrapped, watch(env.unwrapped), Wishes(followed=2, speed=math.inf))
    seen = env.unwrapped.sensor("tiled_camera").image()
    assert list(frame.views) == ["tiled_camera"]
    assert torch.equal(torch.from_numpy(frame.views["tiled_camera"].copy()), seen[2])


def test_the_page_draws_a_skin(watch, tmp_path):
    skin = '<geom type="box" size="0.4 0.3 0.2" contype="0" conaffinity="0"/>'
    path = tmp_path / "skin.xml"
    path.write_text(f'<mujoco><worldbody><body name="base">{skin}</body></worldbody></mujoco>')
    task = get_task("Isaac-Velocity-Flat-Unitree-Go2-v0")
    cfg = merge(load_env_cfg(task), {"scene": {"num_envs": 2, "skin": str(path)}}, "env")
    env = task.make(cfg, context=DistributedContext.single("cpu"), seed=1)
    drawn, physics = watch(env).stage.model, env.sim.model
    assert (drawn.nbody, drawn.nq, drawn.ngeom) == (physics.nbody, physics.nq, physics.ngeom + 1)
    env.close()


def test_a_training_is_neither_held_nor_steered(cartpole, go2, watch):
    viewer = watch(cartpole, is_played=False)
    assert step(cartpole, viewer, Wishes(is_paused=True, num_pushes=1, is_over=True)) is not None
    assert viewer.is_open
    assert watch(go2, is_played=False).stage.commands == {}


def test_a_pause_holds_until_a_single_step_is_asked_for(cartpole, watch):
    viewer = watch(cartpole)
    cartpole.step(torch.zeros(cartpole.num_envs, 1))
    viewer.page.send(Wishes(is_paused=True, speed=math.inf))
    held = threading.Thread(target=viewer.after_step, daemon=True)
    held.start()
    assert viewer.page.poll(DEADLINE_S)
    viewer.page.recv()  # the picture of the pause
    held.join(0.2)
    assert held.is_alive()
    viewer.page.send(Wishes(is_paused=True, num_steps=1, speed=math.inf))
    held.join(DEADLINE_S)
    assert not held.is_alive()


def test_a_velocity_is_commanded_by_hand_until_it_is_let_go(go2, watch):
    viewer = watch(go2)
    (name,) = viewer.stage.commands
    values = (0.5, -0.25, 0.75)
    step(go2, viewer, Wishes(speed=math.inf, commands={name: values}))
    go2.reset()  # an episode draws its own, for the step that follows
    step(go2, viewer)
    wanted = torch.tensor(values).expand(go2.num_envs, 3)
    for _ in range(3):
        obs, *_ = go2.step(torch.zeros(go2.num_envs, 12))
        viewer.after_step()
        assert torch.equal(go2.command_manager.get_command(name), wanted)
        assert (obs["policy"].unfold(1, 3, 1) == wanted[:, None]).all(dim=2).any(dim=1).all()
    step(go2, viewer, FAST)
    step(go2, viewer)
    assert not torch.equal(go2.command_manager.get_command(name), wanted)


def test_a_push_moves_the_shown_robots_once(go2, watch):
    viewer = watch(go2)
    step(go2, viewer, Wishes(first=2, speed=math.inf))
    speeds = [go2.sim.data.qvel.clone()]
    for _ in range(2):  # the same wish
        viewer.page.send(Wishes(first=2, speed=math.inf, num_pushes=1, push=2.0))
        viewer.next_frame_at = 0.0
        viewer.after_step()
        speeds.append(go2.sim.data.qvel.clone())
    change = speeds[1] - speeds[0]
    assert change[2:, :2].norm(dim=1) == pytest.approx([2.0] * 4, abs=1e-4)
    assert not change[:2].any()
    assert not change[:, 2:].any()
    assert torch.equal(speeds[2], speeds[1])


def test_a_page_that_dies_does_not_end_the_run(cartpole, watch, caplog):
    viewer = watch(cartpole)
    step(cartpole, viewer, Wishes(is_paused=False, speed=math.inf))
    viewer.page.close()
    for _ in range(2):
        viewer.next_frame_at = 0.0
        viewer.after_step()
    told = "The viewer has ended by itself; the run continues without it."
    assert [record.message for record in caplog.records] == [told]
    assert viewer.is_open
