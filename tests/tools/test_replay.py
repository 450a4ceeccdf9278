"""``envlab record --format hdf5`` and ``envlab replay``: a policy's episodes there and back."""

from __future__ import annotations

from pathlib import Path

import h5py
import pytest

from envlab import cli

TASK = "--task=Isaac-Cartpole-v0"
RECORD = ["record", "rsl_rl", TASK, "--checkpoint=pretrained", "--format=hdf5"]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("demos") / "cartpole.hdf5"
    short = ["--num_envs=3", "--num_episodes=3", "env.episode_length_s=0.5"]
    assert cli.main([*RECORD, f"--output={path}", *short]) == 0
    return path


def replay(capsys, *words: object) -> tuple[int, str, str]:
    code = cli.main(["replay", *map(str, words)])
    out, err = capsys.readouterr()
    return code, out, err


def test_actions_lead_through_the_recorded_states(recorded: Path, capsys):
    code, out, _ = replay(capsys, recorded)
    assert code == 0
    for number in range(3):
        assert f"demo_{number}: 30 actions; all states are as recorded" in out


def test_the_step_is_named_from_which_on_a_state_differs(recorded: Path, tmp_path: Path, capsys):
    changed = tmp_path / "changed.hdf5"
    changed.write_bytes(recorded.read_bytes())
    with h5py.File(changed, "r+") as file:
        file["data/demo_1/states/articulation/robot/joint_position"][11:] += 0.5
    _, out, _ = replay(capsys, changed, "--episodes", "demo_0", "demo_1")
    assert "demo_0: 30 actions; all states are as recorded" in out
    assert "demo_1: 30 actions; from step 12 on, robot's joint_position differs by 0.5" in out
    assert "demo_2" not in out


def test_states_are_shown_without_physics(recorded: Path, tmp_path: Path, capsys):
    code, out, _ = replay(capsys, recorded, "--mode=states", "--episodes", "demo_2")
    assert (code, out.splitlines()[-1]) == (0, "demo_2: 30 states")


def test_a_file_that_cannot_be_replayed_is_one_sentence(recorded: Path, tmp_path: Path, capsys):
    cut, empty, bare = (tmp_path / f"{name}.hdf5" for name in ("cut", "empty", "bare"))
    cut.write_bytes(recorded.read_bytes()[:9000])
    h5py.File(empty, "w").close()
    with h5py.File(bare, "w") as file:
        file["data/demo_0/actions"] = [[0.0]]
    table = {
        "there is no such file": [tmp_path / "none.hdf5"],
        "cannot be read as HDF5 (Unable": [cut],
        "has no episodes": [empty],
        "does not say of which task it is. Add --task": [bare],
        "initial_state of the episode 'demo_0' has no such array": [bare, TASK],
        "no episode 'demo_7'; its first are demo_0, demo_1, demo_2": [
            *(recorded, "--episodes", "demo_7")
        ],
        "Isaac-Ant-Direct-v0 is a direct task": [recorded, "--task=Isaac-Ant-Direct-v0"],
        "has rows of (2,)": [recorded, "--task=Isaac-Ant-v0"],
    }
    for words, arguments in table.items():
        code, _, err = replay(capsys, *arguments)
        assert (code, words in err, err.count("\n")) == (2, True, 1), err


def test_recordings_that_cannot_begin_are_one_sentence(recorded: Path, tmp_path: Path, capsys):
    table = {
        "already exists": [f"--output={recorded}"],
        "is called NAME.hdf5": [f"--output={tmp_path / 'demos'}"],
        "the task measures no success": [f"--output={tmp_path / 'a.hdf5'}", "--succeeded_only"],
    }
    lerobot = ["--format=lerobot", f"--output={tmp_path / 'b'}", "--succeeded_only"]
    table["--succeeded_only has no effect on LeRobot's format"] = lerobot
    for words, arguments in table.items():
        assert cli.main([*RECORD, *arguments]) == 2
        assert words in capsys.readouterr().err
