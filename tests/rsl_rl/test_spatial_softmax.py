"""Networks that keep where features are: places by hand, and the exported network's actions."""

from __future__ import annotations

import pytest
import torch
from tensordict import TensorDict

from envlab.rsl_rl.spatial_softmax import SpatialSoftmax, SpatialSoftmaxCNNModel

GROUPS = {"actor": ["policy", "camera"], "critic": ["policy", "camera"]}
CNN = {"output_channels": [4, 6], "kernel_size": [5, 3], "stride": [2, 2], "padding": "zeros"}


def observe(num: int) -> TensorDict:
    generator = torch.Generator().manual_seed(0)
    groups = {
        "policy": torch.randn(num, 5, generator=generator),
        "camera": torch.rand(num, 2, 32, 24, generator=generator),
    }
    return TensorDict(groups, batch_size=[num])


def test_a_place_is_the_mean_row_and_column_by_the_softmax():
    layer = SpatialSoftmax(3, 5)
    features = torch.zeros(1, 3, 3, 5)
    features[0, 0, 2, 1] = 100.0  # last row, second of five columns
    features[0, 1, 0, 0] = features[0, 1, 0, 4] = torch.tensor(50.0)  # both ends of the first row
    assert layer(features)[0].tolist() == pytest.approx([1.0, -0.5, -1.0, 0.0, 0.0, 0.0], abs=1e-6)
    # Weights of 1 and 3 at the two places of a map of one row.
    features = torch.tensor([0.0, 3.0]).log().clamp(min=0.0).view(1, 1, 1, 2)
    assert SpatialSoftmax(1, 2)(features)[0, 1] == pytest.approx(0.5)
    softer = SpatialSoftmax(1, 2, temperature=2.0)(features)[0, 1]
    assert softer == pytest.approx((3.0**0.5 - 1.0) / (3.0**0.5 + 1.0))


def test_a_model_sees_places_alone_and_its_export_acts_alike():
    obs = observe(7)
    model = SpatialSoftmaxCNNModel(
        obs, GROUPS, "actor", 3, cnn_cfg={**CNN, "temperature": 0.5}, hidden_dims=[16]
    )
    assert model.cnn_latent_dim == 12
    latent = model.get_latent(obs)
    assert latent.shape == (7, 5 + 12)
    assert latent[:, 5:].abs().max() <= 1.0
    exported = model.as_onnx(verbose=False)
    assert torch.allclose(exported(obs["policy"], obs["camera"]), model(obs))


def test_networks_may_share_their_convolutions():
    obs = observe(2)
    actor = SpatialSoftmaxCNNModel(obs, GROUPS, "actor", 3, cnn_cfg={"camera": CNN})
    critic = SpatialSoftmaxCNNModel(obs, GROUPS, "critic", 1, cnns=actor.cnns)
    assert critic.cnns["camera"] is actor.cnns["camera"]
