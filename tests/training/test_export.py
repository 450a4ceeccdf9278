"""Exported policies are checked against the policy they came from."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from envlab.errors import EnvlabError, RunDirectoryError
from envlab.training import export
from envlab.training.export import TOLERANCE, check_alike, export_policy
from tests.disk import no_file_beyond


class Doubler(torch.nn.Module):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return 2.0 * obs


def test_an_action_that_differs_by_more_than_a_little_is_refused_by_name():
    check_alike("policy.pt", torch.full((2, 1), 0.9 * TOLERANCE), torch.zeros(2, 1))
    for value in (1.1 * TOLERANCE, float("nan"), float("inf")):
        actions = torch.tensor([[0.0], [value]])
        with pytest.raises(EnvlabError, match=r"exported policy\.onnx differs"):
            check_alike("policy.onnx", actions, torch.zeros(2, 1))


def test_large_actions_may_differ_by_their_rounding():
    expected = torch.tensor([[300.0], [0.5]])
    check_alike("policy.onnx", expected + 200.0 * TOLERANCE, expected)
    for value in (400.0 * TOLERANCE, float("inf")):
        with pytest.raises(EnvlabError, match=r"more than 3e-03"):
            check_alike("policy.onnx", expected + value, expected)
    with pytest.raises(EnvlabError, match="differs from the trained policy"):
        check_alike("policy.onnx", expected, torch.tensor([[float("inf")], [0.5]]))


def test_a_policy_that_acts_differently_is_refused(tmp_path: Path):
    with pytest.raises(EnvlabError, match=r"policy\.pt differs from the trained policy"):
        export_policy(Doubler(), lambda obs: 2.1 * obs, 3, tmp_path)


def test_a_full_disk_is_one_sentence(tmp_path: Path):
    with no_file_beyond(100), pytest.raises(RunDirectoryError, match="File too large") as caught:
        export_policy(Doubler(), lambda obs: 2.0 * obs, 3, tmp_path)
    assert f"The policy cannot be exported to {tmp_path} (" in str(caught.value)
    assert "Free some space. With --no_export" in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_tampered_onnx_file_is_refused(tmp_path: Path, monkeypatch):
    pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install -e '.[export]'")
    run_onnx = export.run_onnx
    monkeypatch.setattr(export, "run_onnx", lambda *args: [run_onnx(*args)[0] + 1e-3])
    with pytest.raises(EnvlabError, match=r"policy\.onnx differs from the trained policy by 1"):
        export_policy(Doubler(), lambda obs: 2.0 * obs, 3, tmp_path)
