"""Images through skrl's networks on JAX, and back to PyTorch for the export."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("jax", reason="needs jax: pip install -e '.[jax]'")
pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")

from envlab.skrl.jax.models import channels_last
from envlab.skrl.jax.play import torch_parameters


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
