"""Recorders: rows of an episode by hand, whole episodes, success, kills, a stranger's file."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from envlab.envs import ManagerEnv, mdp
from envlab.envs.dataset_file import DatasetWriter, join, open_dataset, parts_of
from envlab.envs.managers import SuccessTermCfg
from envlab.envs.managers.recorder import RecorderManagerBaseCfg, RecorderTerm, RecorderTermCfg
from envlab.envs.mdp.recorders import ActionStateRecorderManagerCfg
from envlab.envs.terms import observation, termination
from envlab.errors import ConfigurationError
from envlab.registry import get_task, load_env_cfg
from envlab.sim import host
from tests.envs import hopper
from tests.envs.sliders import group, rank, terms
from tests.graphs import record_steps
from tests.launcher import ROOT

STATE = "articulation/robot/joint_position"


def record(
    folder: Path, *, num_envs: int = 2, steps: int = 7, by_graphs: bool = False, **cfg
) -> ManagerEnv:
    """Record episodes of three steps, with the arm's actions 0.1, 0.2, ..."""
    settings = {"dataset_export_dir_path": str(folder), "env_name": "Hopper-v0"} | cfg
    env = hopper.make_env(
        num_envs,
        episode_length_s=3 * hopper.DT,
        observations=terms(policy=group(pos=observation(mdp.joint_pos))),
        terminations=terms(time_out=termination(mdp.time_out, time_out=True)),
        success=SuccessTermCfg(func=lambda env: torch.arange(env.num_envs) == 1),
        recorders=ActionStateRecorderManagerCfg(**settings),
    )
    recording = record_steps(env) if by_graphs else None
    env.reset()
    for step in range(1, steps + 1):
        env.step(torch.full((num_envs, 1), 0.1 * step))
    assert recording is None or recording.is_made
    return env


def assert_same_episodes(path: Path, other: Path) -> None:
    with open_dataset(path) as found, open_dataset(other) as expected:
        assert found.names == expected.names
        for name in found.names:
            (arrays, _), (wanted, _) = found.episode(name), expected.episode(name)
            assert arrays.keys() == wanted.keys()
            assert all(np.array_equal(arrays[key], wanted[key]) for key in wanted)


def test_a_file_has_any_number_of_episodes(tmp_path: Path):
    """Beyond some size HDF5 reads again what it has written of its index."""
    writer, num = DatasetWriter(tmp_path / "many.hdf5", "Hopper-v0"), 1000
    rows = np.arange(num, dtype=np.float32).reshape(num, 1)
    once = np.ones(num, dtype=np.int64)
    steps = {"actions": rows, "states/rigid_object/cube/root_pose": rows}
    writer.write(steps, {}, {"num_samples": once, "seed": once, "success": once})
    writer.close()
    with open_dataset(tmp_path / "many.hdf5") as dataset:
        assert len(dataset.names) == num
        assert dataset.episode("demo_999")[0]["actions"].tolist() == [[999.0]]


def test_an_episode_has_a_row_for_each_step_until_before_the_reset(tmp_path: Path):
    record(tmp_path).close()
    assert [path.name for path in tmp_path.iterdir()] == ["dataset.hdf5"]
    with open_dataset(tmp_path / "dataset.hdf5") as dataset:
        assert dataset.task == "Hopper-v0"
        assert dataset.names == ["demo_0", "demo_1", "demo_2", "demo_3"]  # no unfinished episodes
        arrays, attributes = dataset.episode("demo_3")
    assert {name: int(value) for name, value in attributes.items()} == {
        **{"num_samples": 3, "seed": 0, "success": 1}
    }
    assert arrays["actions"][:, 0] == pytest.approx([0.4, 0.5, 0.6])
    arm = arrays[f"states/{STATE}"][:, 0]
    start = arrays[f"initial_state/{STATE}"][:, 0]
    assert np.array_equal(arrays["obs/policy"][:, 0], np.concatenate((start, arm[:-1])))
    plain = hopper.make_env(1, episode_length_s=1.0)
    plain.reset()
    for action in (0.4, 0.5, 0.6):
        plain.step(torch.tensor([[action]]))
    assert arm[2] == pytest.approx(plain.scene["robot"].data.joint_pos.item(), abs=1e-6)
    pose = arrays["states/articulation/robot/root_pose"][2]
    assert pose == pytest.approx(plain.scene["robot"].data.root_pose_w[0].numpy(), abs=1e-6)


def test_a_scene_returns_to_a_state_in_the_chosen_environments(tmp_path: Path):
    env = hopper.make_env(2)
    hopper.place(env, height=1.5, arm=0.3, lin_vel=(1.0, 0.0, 0.0), ang_vel=(0.0, 2.0, 0.0))
    state = env.scene.get_state(is_relative=True)
    hopper.place(env, height=0.7, quat=hopper.LEFT)
    before = env.scene.get_state()
    env.scene.reset_to(state, torch.tensor([True, False]), is_relative=True)
    after = env.scene.get_state(is_relative=True)
    for name, wanted in state["articulation"]["robot"].items():
        found = after["articulation"]["robot"][name]
        assert torch.allclose(found[0], wanted[0], atol=1e-6), name
        assert torch.equal(found[1], before["articulation"]["robot"][name][1]), name


def test_episodes_that_fail_are_left_out(tmp_path: Path):
    record(tmp_path, dataset_export_mode="succeeded_only").close()
    with open_dataset(tmp_path / "dataset.hdf5") as dataset:
        kept = [dataset.episode(name)[1]["success"] for name in dataset.names]
    assert kept == [True, True]  # one of the two environments, twice


def test_a_kill_loses_the_episodes_that_go_on_and_no_other(tmp_path: Path):
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    record(killed)  # and never closed
    (parts_of(killed / "dataset.hdf5") / ".00000004.npz.tmp").write_bytes(b"half a part")
    record(whole).close()
    assert_same_episodes(killed / "dataset.hdf5", whole / "dataset.hdf5")


def test_steps_that_are_graphs_are_recorded_alike(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(host, "HOST", set())  # the branches of a GPU
    for by_graphs in (False, True):
        record(tmp_path / str(by_graphs), steps=16, by_graphs=by_graphs).close()
    assert_same_episodes(tmp_path / "True/dataset.hdf5", tmp_path / "False/dataset.hdf5")


class Marks(RecorderTerm):
    """A name for each of the moments."""

    def record_pre_reset(self, mask):
        return "end", self.env.episode_length_buf

    def record_post_reset(self, mask):
        return "begin", {"steps": self.env.episode_length_buf}

    def record_pre_step(self):
        return "before", self.env.episode_length_buf

    def record_post_step(self):
        return "after", self.env.episode_length_buf


def test_a_term_of_ones_own_is_asked_at_four_moments(tmp_path: Path):
    cfg = terms(marks=RecorderTermCfg(class_type=Marks))
    recorders = type("Recorders", (type(cfg), RecorderManagerBaseCfg), {})(marks=cfg.marks)
    recorders.dataset_export_dir_path = str(tmp_path)
    env = hopper.make_env(
        1,
        episode_length_s=3 * hopper.DT,
        terminations=terms(time_out=termination(mdp.time_out, time_out=True)),
        recorders=recorders,
    )
    env.reset()
    for _ in range(3):
        env.step(torch.zeros(1, 1))
    env.close()
    with open_dataset(env.recorder_manager.path) as dataset:
        arrays, _ = dataset.episode("demo_0")
    found = {name: values.tolist() for name, values in arrays.items()}
    assert found == {"before": [0, 1, 2], "after": [1, 2, 3], "begin/steps": [0], "end": [3]}


def test_the_pages_recorder_writes_what_it_returns(tmp_path: Path, monkeypatch):
    page = (ROOT / "docs/demonstrations.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    cfg = load_env_cfg(get_task("Isaac-Lift-Cube-Franka-v0"))
    cfg.episode_length_s, cfg.scene.num_envs = 3 * cfg.step_dt, 1
    monkeypatch.chdir(tmp_path)
    exec(code.replace("cfg: ManagerEnvCfg = ...", ""), {"cfg": cfg, "__name__": __name__})
    env = ManagerEnv(cfg, context=rank(0, 1), seed=0)
    env.reset()
    for _ in range(3):
        env.step(torch.zeros_like(env.actions))
    env.close()
    with open_dataset(tmp_path / "demos/mine.hdf5") as dataset:
        assert dataset.episode("demo_0")[0]["targets"].shape == (3, env.sim.model.nu)


def test_a_file_that_is_there_is_not_written_to(tmp_path: Path):
    record(tmp_path)
    with pytest.raises(ConfigurationError, match="already exists"):
        record(tmp_path)  # the parts of a recording that was killed
    join(tmp_path / "dataset.hdf5")
    with pytest.raises(ConfigurationError, match=r"dataset\.hdf5 already exists"):
        record(tmp_path)


def test_a_strangers_file_leads_nowhere(tmp_path: Path):
    secret = tmp_path / "secret.hdf5"
    with h5py.File(secret, "w") as file:
        file["data/demo_0/actions"] = np.ones((2, 1))
    path = tmp_path / "strange.hdf5"
    with h5py.File(path, "w") as file:
        file["data/demo_0/actions"] = np.ones((2, 1), dtype=np.float32)
        file["data/demo_0/linked"] = h5py.ExternalLink(str(secret), "/data/demo_0/actions")
        file["data/demo_1"] = h5py.ExternalLink(str(secret), "/data/demo_0")
        file.create_dataset("data/demo_2/actions", shape=(1 << 33,), dtype="f4", chunks=(1 << 20,))
        file["data/demo_3/actions"] = [b"text"]
        raw = (str(tmp_path / "raw.bin"), 0, 8)
        (tmp_path / "raw.bin").write_bytes(b"12345678")
        file.create_dataset("data/demo_4/actions", shape=(1,), dtype="f8", external=[raw])
        layout = h5py.VirtualLayout(shape=(2, 1), dtype="f8")
        layout[:] = h5py.VirtualSource(str(secret), "data/demo_0/actions", shape=(2, 1))
        file.create_virtual_dataset("data/demo_5/actions", layout)
        file["data/../actions"] = np.ones((2, 1))
        file["data"].attrs["env_args"] = json.dumps({"env_name": "module:Task-v0"})
    with open_dataset(path) as dataset:
        assert dataset.task == ""
        assert dataset.names == [f"demo_{number}" for number in range(6)]
        assert list(dataset.episode("demo_0")[0]) == ["actions"]
        for name in dataset.names[1:]:
            with pytest.raises(
                ConfigurationError, match=f"no episode '{name}'|but must be numbers"
            ):
                dataset.episode(name)
