"""Images through skrl's networks on JAX, and back to PyTorch for the export."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("jax", reason="needs jax: pip install -e '.[jax]'")
pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")

from envlab.distributed.context import DistributedContext
from envlab.registry import get_task, load_agent_values
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.jax.learner import make_learner
from envlab.skrl.jax.models import channels_last
from envlab.skrl.jax.play import JaxPlayer, torch_parameters
from tests.small_runs import env_of

TASK = "Isaac-Cartpole-Depth-Camera-Direct-v0"


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


@pytest.mark.long  # the layout of each layer is by hand, above
def test_a_policy_on_images_acts_alike_on_both_frameworks():
    """The export is its twin on PyTorch."""
    values = load_agent_values(get_task(TASK), "skrl")
    cfg = SkrlCfg.of(ml_framework="jax").with_task_values(values).resolved()
    env = env_of(TASK, num_envs=2)
    player = JaxPlayer(make_learner(env, cfg, DistributedContext.single("cpu")))
    # private: what is exported, beside what plays
    on_jax, twin = player._policy("agent"), player._traceable("agent")
    images = 5.0 * torch.rand(7, 24, 96, 1, generator=torch.Generator().manual_seed(0))
    actions = on_jax(images)
    assert float(actions.detach().std()) > 1e-3
    torch.testing.assert_close(twin(images), actions, rtol=0.0, atol=1e-5)
