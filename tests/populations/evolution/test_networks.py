"""Networks that grow compute the same as before."""

from __future__ import annotations

import dataclasses
import itertools
import math

import torch

from envlab_populations.evolution.networks import (
    SHIFTS,
    EvolvableNetwork,
    grafted,
    moved,
    preserves_function,
)
from envlab_populations.population.architecture import Architecture

TOLERANCE = 2e-6
MLP = Architecture(hidden=(48, 32), activation="relu")
CNN = Architecture(
    hidden=(32,), activation="relu", channels=(16, 24), kernels=(5, 3), strides=(3, 1)
)
GROWN = {
    "units": (MLP, {"hidden": (48, 64)}),
    "layer": (MLP, {"hidden": (48, 32, 32)}),
    "channels of the first": (CNN, {"channels": (32, 24)}),
    "channels of the last": (CNN, {"channels": (16, 40)}),
    "kernel": (CNN, {"kernels": (5, 5)}),
    "convolution": (CNN, {"channels": (16, 24, 24), "kernels": (5, 3, 3), "strides": (3, 1, 1)}),
    "layer after convolutions": (CNN, {"hidden": (32, 32)}),
}


def gap(old_shape: Architecture, new_shape: Architecture, num_extra: int = 0) -> float:
    """Return the largest difference that a change of shape makes to the outputs."""
    torch.manual_seed(0)
    shape = (12, 12, 3) if old_shape.channels else (9,)
    old = EvolvableNetwork(shape, num_extra, 4, old_shape)
    new = EvolvableNetwork(shape, num_extra, 4, new_shape)
    values = grafted(old.state_dict(), new.state_dict(), new_shape, num_extra)
    new.load_state_dict(values)
    obs = torch.rand(128, math.prod(shape))
    extra = torch.rand(128, num_extra) if num_extra else None
    with torch.no_grad():
        return float((old(obs, extra) - new(obs, extra)).abs().max())


def test_added_parts_change_nothing_at_first():
    for (name, (shape, grown)), activation in itertools.product(GROWN.items(), SHIFTS):
        for num_extra in (0, 2):
            before = dataclasses.replace(shape, activation=activation)
            after = dataclasses.replace(before, **grown)
            assert gap(before, after, num_extra) < TOLERANCE, (name, activation, num_extra)


def test_added_layers_with_tanh_are_known_to_change_results():
    before = Architecture(hidden=(48, 32), activation="tanh")
    assert gap(before, dataclasses.replace(before, hidden=(48, 32, 32))) > 1e-3
    assert gap(before, dataclasses.replace(before, hidden=(64, 32))) < TOLERANCE
    shapes = [dataclasses.replace(before, activation=name) for name in ("relu", "tanh", "elu")]
    assert [preserves_function(shape) for shape in shapes] == [True, False, True]


def test_layer_norm_comes_before_the_activation_and_changes_with_a_layers_width():
    shape = dataclasses.replace(MLP, layer_norm=True)
    network = EvolvableNetwork((9,), 0, 4, shape)
    obs = torch.rand(16, 9)
    hidden = network.hidden[0](obs)
    normalised = (hidden - hidden.mean(1, keepdim=True)) / hidden.std(1, correction=0, keepdim=True)
    second = torch.layer_norm(network.hidden[1](normalised.relu()), (32,)).relu()
    torch.testing.assert_close(network(obs), network.output(second), atol=1e-3, rtol=1e-3)
    assert not preserves_function(shape)
    assert gap(shape, shape) == 0.0
    assert gap(shape, dataclasses.replace(shape, hidden=(64, 32))) > 1e-3
    new = EvolvableNetwork((9,), 0, 4, dataclasses.replace(shape, hidden=(48, 32, 32)))
    old = network.state_dict() | {"norms.1.weight": torch.full((32,), 2.0)}
    values = grafted(old, new.state_dict(), new.architecture)
    assert (values["norms.1.weight"] == 2.0).all()  # a layer's own norm goes with it
    assert (values["norms.2.weight"] == 1.0).all()
    torch.testing.assert_close(values["hidden.2.weight"], torch.eye(32))
    assert (values["hidden.2.bias"] == 0.0).all()


def test_weights_of_both_shapes_are_kept_where_a_network_shrinks():
    old = EvolvableNetwork((9,), 0, 4, MLP)
    new = EvolvableNetwork((9,), 0, 4, dataclasses.replace(MLP, hidden=(32, 32)))
    values = grafted(old.state_dict(), new.state_dict(), new.architecture)
    torch.testing.assert_close(values["hidden.0.weight"], old.hidden[0].weight[:32])
    torch.testing.assert_close(values["hidden.1.weight"], old.hidden[1].weight[:, :32])


def test_orthogonal_weights_begin_as_agilerls():
    network = EvolvableNetwork((9,), 2, 4, dataclasses.replace(MLP, orthogonal=True))
    first, second = (layer.weight for layer in network.hidden)
    torch.testing.assert_close(first.T @ first, 2.0 * torch.eye(11))
    torch.testing.assert_close(second @ second.T, 2.0 * torch.eye(32))
    last = network.output.weight
    torch.testing.assert_close(last @ last.T, 0.02 * torch.eye(4))
    assert all((layer.bias == 0.0).all() for layer in (*network.hidden, network.output))


def test_moments_follow_their_weights_and_are_zero_for_new_ones():
    old = torch.arange(6.0).reshape(2, 3) + 1.0
    expected = torch.tensor([[1.0, 2.0, 3.0, 0.0], [4.0, 5.0, 6.0, 0.0], [0.0] * 4])
    torch.testing.assert_close(moved(old, torch.Size((3, 4))), expected)
    assert moved(old, old.shape) is not old  # its own, not its parent's
    kernels = torch.full((1, 1, 3, 3), 2.0)
    grown = moved(kernels, torch.Size((1, 1, 5, 5)))
    assert grown[0, 0, 1:4, 1:4].eq(2.0).all()
    assert float(grown.sum()) == 18.0
