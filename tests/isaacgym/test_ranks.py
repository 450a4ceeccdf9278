"""Scripts for one process on two ranks."""

from __future__ import annotations

import pytest
import torch

from tests.launcher import ROOT, run, torchrun


@pytest.fixture(scope="module")
def ends(tmp_path_factory) -> list[dict]:
    """Each rank's final state; the log folder is that of rank 0."""
    folder = tmp_path_factory.mktemp("ranks")
    script = ROOT / "tests" / "isaacgym" / "ranks_script.py"
    code, output = run(torchrun(2, "-m", "envlab_isaacgym", script, folder), folder)
    assert code == 0, output
    found = [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(2)]
    found[0]["files"] = sorted(path.name.split(".")[0] for path in (folder / "log").iterdir())
    return found


def test_ranks_draw_apart_end_with_the_same_parameters_by_ddp_and_the_first_alone_writes(ends):
    assert not torch.isclose(ends[0]["draws"], ends[1]["draws"]).any()
    assert ends[0]["files"] == ["events", "git", "model_0", "model_2", "model_3"]
    first, second = ends
    assert first["wraps"] == second["wraps"] == "JointModule"
    assert first["rate"] == second["rate"]
    for name, value in first["model"].items():
        assert torch.equal(value, second["model"][name]), name
        assert not torch.equal(value, first["before"][name]), name


def test_ranks_with_different_configurations_do_not_train(ends):
    """They differ in a gamma, in a class of classes, and in seeds, in which they may."""
    assert ends[0]["refused"] == ends[1]["refused"]
    assert "train_cfg.algorithm.gamma is 0.99 on rank 0, 0.9 on rank 1" in ends[0]["refused"]
    assert "env_cfg.control.stiffness.hip is 20.0 on rank 0, 21.0 on rank" in ends[0]["refused"]
    assert "seed" not in ends[0]["refused"]
    assert "params.algo.config.gamma is 0.99 on rank 0, -0.01" in ends[0]["rl_games"]
    assert "device" not in ends[1]["rl_games"]


def test_numbers_that_are_none_stop_all_ranks_by_one_sentence(ends):
    assert ends[0]["not_finite"] == ends[1]["not_finite"]
    assert "iteration 0 rewards and observations were not finite on rank 1" in ends[0]["not_finite"]


def test_ranks_that_were_started_by_different_commands_do_not_train(tmp_path):
    (tmp_path / "run.py").write_text("print('it ran')")
    (tmp_path / "start.py").write_text(
        "import os, sys\n"
        "from envlab_isaacgym.launcher import main\n"
        "rank = os.environ['RANK']\n"
        "words = ['run.py', '--gamma', f'0.9{rank}', f'--seed={rank}', f'device=cuda:{rank}']\n"
        "sys.exit(main(words))\n"
    )
    code, output = run(torchrun(2, tmp_path / "start.py"), tmp_path)
    assert code == 1
    assert "The ranks were started differently: --gamma is '0.90' on rank 0, '0.91'" in output
    assert "it ran" not in output
    assert "--seed" not in output
    assert "device=" not in output
