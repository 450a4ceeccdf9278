"""Images, alone and with vectors, in the libraries: exact resume and export."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from torch.nn import functional

from envlab.cli import play
from envlab.training.launch import train
from tests.learner_contract import timeless_digests
from tests.trained import SEER, check_exported, checkpoint_of, only_run

TASK = "--task=Isaac-Cartpole-Depth-Camera-Direct-v0"
SMALL = [
    *(
        TASK,
        "--device=cpu",
        "--num_envs=4",
        "env.depth_camera.width=32",
        "env.depth_camera.history_length=2",
    ),
    "agent.save_interval=1",
]
CONFIG = "agent.params.config"
SEERS = {
    "rl_games": [f"{CONFIG}.horizon_length=8", f"{CONFIG}.normalize_input=true"],
    "skrl": ["agent.agent.rollouts=8"],
}
"""On images and vectors."""
LIBRARIES = {
    "rsl_rl": ["agent.num_steps_per_env=8"],
    "rl_games": [*SEERS["rl_games"], f"{CONFIG}.minibatch_size=16"],
    "skrl": [*SEERS["skrl"], "agent.agent.observation_preprocessor=RunningStandardScaler"],
}
IMAGES = 5.0 * torch.rand(20, 24, 32, 2, generator=torch.Generator().manual_seed(1))


def run_in(folder: Path, command: Any, library: str, arguments: Sequence[str]) -> int:
    with contextlib.chdir(folder):
        return command(library, list(arguments))


def train_and_play(library: str, folder: Path, words: Sequence[str]) -> tuple[str, Path]:
    """Return a library, and the run directory of its 2 iterations, which was played."""
    assert run_in(folder, train, library, [*words, "--max_iterations=2"]) == 0
    task = next(word for word in words if word.startswith("--task="))
    assert run_in(folder, play, library, [task, "--device=cpu", "--num_envs=2"]) == 0
    return library, only_run(folder)


@pytest.fixture(
    scope="module",
    params=["rsl_rl", *(pytest.param(name, marks=pytest.mark.long) for name in SEERS)],
)
def trained(request, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    return train_and_play(request.param, folder, [*SMALL, *LIBRARIES[request.param]])


def test_a_resumed_run_ends_bit_identical(trained, tmp_path: Path):
    library, whole = trained
    checkpoint = whole / "checkpoints/model_1.pt"
    flags = [TASK, "--device=cpu", "--resume", f"--checkpoint={checkpoint}"]
    assert run_in(tmp_path, train, library, flags) == 0
    ends = [timeless_digests(checkpoint_of(run, 2)) for run in (only_run(tmp_path), whole)]
    assert ends[0] == ends[1]


def parameters_of(library: str, whole: Path) -> list[torch.Tensor]:
    """Return the parameters of the acting policy, in the order of its layers."""
    checkpoint = checkpoint_of(whole, 2)["model"]
    if library == "rsl_rl":
        found, parts = checkpoint["actor_state_dict"], ("cnns", "mlp")
    elif library == "rl_games":
        found = checkpoint["networks"]
        parts = ("a2c_network.actor_cnn", "a2c_network.actor_mlp", "a2c_network.mu.")
    else:
        found = checkpoint["modules"]["agent"]["policy"]
        parts = ("features_extractor", "net_container", "policy_layer")
    return [found[name] for part in parts for name in found if name.startswith(part)]


def normalised(library: str, whole: Path, images: torch.Tensor) -> torch.Tensor:
    """Return images as the library's normaliser, where it has one, leaves them."""
    checkpoint = checkpoint_of(whole, 2)["model"]
    if library == "rsl_rl":
        return images
    if library == "rl_games":
        state = checkpoint["networks"]
        mean, var = (state[f"running_mean_std.running_{name}"] for name in ("mean", "var"))
        clipped, deviation = images.clamp(-5.0, 5.0), (var.float() + 1e-5).sqrt()
    else:
        state = checkpoint["modules"]["agent"]["observation_preprocessor"]
        mean, var = state["running_mean"].view(24, 32, 2), state["running_variance"].view(24, 32, 2)
        clipped, deviation = images, var.float().sqrt() + 1e-8
    return ((clipped - mean.float()) / deviation).clamp(-5.0, 5.0)


def test_the_exported_policy_sees_the_image_as_it_is(trained):
    """By hand: channels to the front, two convolutions with relu, a layer with elu, the mean."""
    library, whole = trained
    parameters = parameters_of(library, whole)
    weights, biases = parameters[::2], parameters[1::2]
    assert [tuple(weight.shape[:2]) for weight in weights] == [(16, 2), (32, 16), (64, 64), (1, 64)]
    hidden = normalised(library, whole, IMAGES).permute(0, 3, 1, 2)
    for weight, bias, stride in zip(weights[:2], biases[:2], (4, 2), strict=True):
        hidden = functional.relu(functional.conv2d(hidden, weight, bias, stride=stride))
    hidden = functional.elu(hidden.flatten(1) @ weights[2].T + biases[2])
    expected = hidden @ weights[3].T + biases[3]
    if library == "rl_games":
        expected = expected.clamp(-1.0, 1.0)
    check_exported(whole, IMAGES, expected)


def test_encoders_that_actor_and_critic_share_are_stepped_once(tmp_path: Path):
    shared = "agent.algorithm.share_cnn_encoders=true"
    flags = [*SMALL, *LIBRARIES["rsl_rl"], shared, "--max_iterations=1"]
    assert run_in(tmp_path, train, "rsl_rl", flags) == 0
    model = checkpoint_of(only_run(tmp_path), 1)["model"]
    for name, values in model["actor_state_dict"].items():
        if name.startswith("cnns"):
            assert torch.equal(values, model["critic_state_dict"][name])
    # Two convolutions, and two layers of each network, of two tensors each, and a deviation.
    (group,) = model["optimizer_state_dict"]["param_groups"]
    assert len(group["params"]) == 2 * 2 + 2 * 4 + 1


SAMPLES = {
    "rl_games": "agent.params.config.player.deterministic={not_wanted}",
    "skrl": "agent.trainer.stochastic_evaluation={wanted}",
}
DEPTH = 10.0 * torch.rand(20, 40, 40, 1, generator=torch.Generator().manual_seed(2))
VECTOR = 10.0 * torch.randn(20, 7, generator=torch.Generator().manual_seed(3))


@pytest.fixture(scope="module", params=SEERS)
def seer(request, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    words = [*SEER, *SEERS[request.param], "agent.save_interval=1"]
    return train_and_play(request.param, folder, words)


def logits_by_hand(library: str, whole: Path) -> torch.Tensor:
    """Scale depth, put its channel to the front, convolve it thrice, and join the vector."""
    checkpoint = checkpoint_of(whole, 2)["model"]
    if library == "rl_games":
        found, depth, vector = checkpoint["networks"], DEPTH, VECTOR.clamp(-10.0, 10.0)
        depth, vector = (
            rl_games_normalised(found, name, values)
            for name, values in (("depth", depth), ("policy", vector))
        )
        found = {name.removeprefix("a2c_network."): values for name, values in found.items()}
        image, joined, last = "actor_cnn._layers", ["actor_mlp.0", "actor_mlp.2"], "logits"
    else:
        found, depth, vector = checkpoint["modules"]["agent"]["policy"], DEPTH, VECTOR
        image, joined, last = "image_container", ["net_container.0"], "policy_layer"

    def layer(values: torch.Tensor, name: str) -> torch.Tensor:
        return values @ found[f"{name}.weight"].T + found[f"{name}.bias"]

    hidden = (depth / 10.0).permute(0, 3, 1, 2)
    for number, stride in ((0, 4), (2, 2), (4, 1)):
        weight, bias = (found[f"{image}.{number}.{name}"] for name in ("weight", "bias"))
        hidden = functional.relu(functional.conv2d(hidden, weight, bias, stride=stride))
    hidden = hidden.flatten(1)
    if library == "skrl":
        hidden = functional.relu(layer(hidden, "image_container.7"))
        vector = functional.relu(layer(vector, "vector_container.0"))
    hidden = torch.cat([hidden, vector], dim=1)
    for name in joined:
        hidden = functional.relu(layer(hidden, name))
    return layer(hidden, last)


def rl_games_normalised(
    state: dict[str, torch.Tensor], name: str, values: torch.Tensor
) -> torch.Tensor:
    at = f"running_mean_std.running_mean_std.{name}.running"
    deviation = (state[f"{at}_var"].float() + 1e-5).sqrt()
    return ((values - state[f"{at}_mean"].float()) / deviation).clamp(-5.0, 5.0)


def test_an_exported_policy_takes_each_group_as_the_task_gives_it(seer):
    library, whole = seer
    expected = logits_by_hand(library, whole).argmax(dim=1)
    assert len(expected.unique()) > 1  # else anything would do
    jit = torch.jit.load(str(whole / "exported/policy.pt"))
    assert torch.equal(jit(DEPTH, VECTOR).flatten(), expected)
    onnxruntime = pytest.importorskip(
        "onnxruntime", reason="needs onnxruntime: pip install -e '.[export]'"
    )
    session = onnxruntime.InferenceSession(str(whole / "exported/policy.onnx"))
    inputs = {"depth": DEPTH.numpy(), "policy": VECTOR.numpy()}
    (actions,) = session.run(["actions"], inputs)
    assert torch.equal(torch.from_numpy(actions).flatten(), expected)


def test_play_samples_where_the_agents_file_says_so(seer):
    library, whole = seer
    name = {"skrl": "BestActions", "rl_games": "RlGamesPolicy"}[library]
    checkpoint = f"--checkpoint={whole / 'checkpoints/model_2.pt'}"
    flags = [*SEER[:3], "--num_envs=2", "--no_export", checkpoint]
    for samples, unused in ((True, "forward"), (False, "sample")):
        wanted, not_wanted = str(samples).lower(), str(not samples).lower()
        setting = SAMPLES[library].format(wanted=wanted, not_wanted=not_wanted)
        with mock.patch(f"envlab.{library}.play.{name}.{unused}", side_effect=AssertionError):
            assert run_in(whole, play, library, [*flags, setting]) == 0
