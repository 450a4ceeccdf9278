"""play.py on what skrl trained on JAX, and the end of a launch that loses a rank."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("jax", reason="needs jax: pip install -e '.[jax]'")
pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")

from envlab.cli import play
from envlab.skrl.jax.models import channels_last
from envlab.skrl.jax.play import torch_parameters
from tests.launcher import ROOT, Launch
from tests.skrl.jax.runs import FRAMEWORK, PPO, TASK, TRAIN, skrl_launch, youngest
from tests.small_runs import train_in
from tests.trained import check_exported, checkpoint_of, manifest_of, only_run

pytestmark = pytest.mark.slow


@pytest.mark.long  # five processes import JAX
def test_a_killed_rank_fails_the_launch_and_the_run_and_leaves_no_worker(tmp_path: Path):
    flags = [*PPO, "--distributed", "--max_iterations=100000"]
    launch = Launch(skrl_launch(2, TRAIN, *flags), tmp_path)
    try:
        launch.wait_until(lambda: list(tmp_path.glob("logs/*/*/*/checkpoints/model_2.pt")), 180.0)
        os.kill(youngest(launch, rank=1), signal.SIGKILL)
        assert launch.wait() == -signal.SIGTERM
        assert launch.left(10.0) == {}
    finally:
        launch.close()
    manifest = manifest_of(only_run(tmp_path))
    assert manifest["status"] == "failed", (manifest, launch.output)
    assert re.match(r"Rank 1 \(.+\) died .+ last seen", manifest["error"]), manifest


@pytest.fixture(scope="module")
def played(quick: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of two iterations that was played, and the output."""
    folder = tmp_path_factory.mktemp("played")
    assert train_in("skrl", folder, *PPO, "--max_iterations=2") == 0
    arguments = [TASK, *FRAMEWORK, "--num_envs=4"]
    with (
        contextlib.chdir(folder),
        (folder / "out.txt").open("w") as file,
        contextlib.redirect_stdout(file),
    ):
        assert play("skrl", arguments) == 0
    return folder


@pytest.mark.long
def test_returns_are_printed_and_exported_policies_act_as_the_checkpoint_says(played: Path):
    """By hand: the normaliser, a dense layer with elu, and another without."""
    text = (played / "out.txt").read_text()
    assert re.search(r"^Mean return -?\d+\.\d+ \(std \d+\.\d+\) over 4 episodes$", text, re.M)
    assert "Not exported" not in text
    names = sorted(path.name for path in (only_run(played) / "exported").glob("policy.*"))
    assert names == ["policy.onnx", "policy.pt"]
    arrays = checkpoint_of(only_run(played), 2)["model"]["arrays"]
    scaler = arrays["agent.observation_preprocessor"]
    assert float((scaler["running_variance"] - 1.0).abs().max()) > 0.1
    obs = 3.0 * torch.randn(50, 4, generator=torch.Generator().manual_seed(1))
    hidden = (obs - scaler["running_mean"]) / (scaler["running_variance"].sqrt() + 1e-8)
    hidden = hidden.clamp(-5.0, 5.0)
    layers = arrays["agent.policy"]
    for name in ("layers_0", "layers_2"):
        weight, bias = (
            layers[f"params.net_container.{name}.{part}"] for part in ("kernel", "bias")
        )
        hidden = hidden @ weight + bias
        if name == "layers_0":
            hidden = torch.nn.functional.elu(hidden)
    check_exported(only_run(played), obs, hidden)


ON_SECOND_DEVICE = """
import sys
import jax
from envlab.cli import play
from envlab.skrl.jax import learner

start = learner.start_jax
learner.start_jax = lambda context: (start(context), jax.devices()[1])[1]
sys.exit(play("skrl", sys.argv[1:]))
"""


@pytest.mark.long
def test_policies_of_another_device_than_the_observations_are_exported(played: Path):
    """Exports are compared on the CPU; this computes on JAX's second one, in place of a GPU."""
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT}:{ROOT / 'source'}",
        "XLA_FLAGS": "--xla_force_host_platform_device_count=2",
    }
    words = [sys.executable, "-c", ON_SECOND_DEVICE, TASK, *FRAMEWORK, "--num_envs=4"]
    done = subprocess.run(
        words, cwd=played, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "policy.onnx" in done.stdout


def test_parameters_change_their_layout_and_names():
    state = {"net_container.layers_0.kernel": torch.arange(6.0).reshape(2, 3)}
    (found,) = torch_parameters(state).items()
    assert found[0] == "net_container.0.weight"
    assert np.array_equal(found[1], [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]])
    with pytest.raises(ValueError, match=r"shape \(3, 1, 4\), so it is neither dense nor"):
        torch_parameters({"net_container.layers_0.kernel": torch.zeros(3, 1, 4)})


def test_networks_written_for_pytorch_keep_their_channels_last():
    read = "OBSERVATIONS['depth'] / 10"
    convolution = {"out_channels": 4, "kernel_size": 8, "stride": 4, "padding": 0}
    layers = [{"conv2d": convolution}, {"conv2d": [4, 3, 1]}, "flatten", 16]
    source = f"permute( {read}, (0, 3, 1, 2))"
    found = channels_last({"name": "net", "input": source, "layers": layers})
    assert found["input"] == f"({read})"
    assert found["layers"] == [
        {"conv2d": {"out_channels": 4, "kernel_size": [8, 8], "stride": [4, 4], "padding": 0}},
        {"conv2d": [4, [3, 3], [1, 1]]},
        "flatten",
        16,
    ]
    assert layers[1] == {"conv2d": [4, 3, 1]}


def test_a_dense_layer_after_convolutions_is_reordered():
    """By hand: an image of 2 x 1 pixels and 3 channels; channels come first in PyTorch."""
    kernel = torch.arange(4.0).view(1, 1, 1, 4)[..., :3]  # 1 x 1, from 1 channel to 3
    dense = torch.tensor([[10.0], [11.0], [12.0], [20.0], [21.0], [22.0]])  # pixel by pixel
    state = {
        "net_container.layers_0.kernel": torch.tensor([[5.0]]),
        "eye_container.layers_3.kernel": dense,
        "eye_container.layers_0.kernel": kernel,
        "eye_container.layers_0.bias": torch.zeros(3),
    }
    found = torch_parameters(state, ["eye_container", "net_container"])
    assert found["eye_container.0.weight"].shape == (3, 1, 1, 1)
    assert found["eye_container.3.weight"].tolist() == [[10.0, 20.0, 11.0, 21.0, 12.0, 22.0]]
    assert found["net_container.0.weight"].tolist() == [[5.0]]
