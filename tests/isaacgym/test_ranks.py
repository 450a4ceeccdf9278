"""Scripts for one process on two ranks."""

from __future__ import annotations

import pytest
import torch

from envlab.isaacgym.launcher import main
from tests.launcher import ROOT, run, torchrun


@pytest.fixture(scope="module")
def ends(tmp_path_factory) -> list[dict]:
    """What each rank ends with; the folder of the log is that of rank 0."""
    folder = tmp_path_factory.mktemp("ranks")
    script = ROOT / "tests" / "isaacgym" / "ranks_script.py"
    code, output = run(torchrun(2, "-m", "envlab.isaacgym", script, folder), folder)
    assert code == 0, output
    found = [torch.load(folder / f"rank{rank}.pt", weights_only=True) for rank in range(2)]
    found[0]["files"] = sorted(path.name.split(".")[0] for path in (folder / "log").iterdir())
    return found


def test_ranks_end_with_the_same_parameters_by_ddp(ends):
    first, second = ends
    assert first["wraps"] == second["wraps"] == "JointModule"
    assert first["rate"] == second["rate"]
    for name, value in first["model"].items():
        assert torch.equal(value, second["model"][name]), name
        assert not torch.equal(value, first["before"][name]), name


def test_ranks_draw_apart(ends):
    assert not torch.isclose(ends[0]["draws"], ends[1]["draws"]).any()


def test_the_first_rank_alone_writes(ends):
    assert ends[0]["files"] == ["events", "git", "model_0", "model_2", "model_3"]


def test_distributed_without_a_launcher_is_one_sentence(tmp_path, capsys):
    (tmp_path / "run.py").write_text("")
    assert main(["--distributed", str(tmp_path / "run.py")]) == 2
    assert "no launcher started this process" in capsys.readouterr().err
