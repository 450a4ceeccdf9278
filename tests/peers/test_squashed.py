"""Squashed Gaussians equal those of other libraries, on the same samples."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

pytest.importorskip("stable_baselines3", reason="needs stable-baselines3: pip install -e '.[test]'")
pytest.importorskip("torchrl", reason="needs torchrl: pip install -e '.[test]'")

from stable_baselines3.common.distributions import SquashedDiagGaussianDistribution
from torchrl.modules import TanhNormal

from envlab.distributed.context import DistributedContext
from envlab.skrl.cfg import SkrlCfg
from envlab.skrl.env import Spaces
from envlab.skrl.torch.models import make_models
from envlab_populations.hogwild.cfg import HogwildCfg, NetCfg
from envlab_populations.hogwild.networks import make_networks

CPU = torch.device("cpu")
LOW, HIGH = torch.tensor([-3.0, 0.0]), torch.tensor([1.0, 0.5])
SCALE, MIDDLE = torch.tensor([2.0, 0.25]), torch.tensor([-1.0, 0.25])
SEEN = Spaces(
    spaces.Box(-np.inf, np.inf, (5,)), None, spaces.Box(LOW.numpy(), HIGH.numpy(), (2,), np.float32)
)

ENV: Any = SimpleNamespace(spaces={"agent": SEEN}, env=SimpleNamespace(device=CPU))


def policy(room: str) -> Any:
    torch.manual_seed(0)
    if room == "skrl":
        return make_models(ENV, SkrlCfg.of("sac"))["agent"]["policy"]
    cfg = HogwildCfg(net=NetCfg(hidden_layers=[16]))
    return make_networks(cfg, SEEN, CPU, DistributedContext())["policy"]


ROOMS = pytest.mark.parametrize("room", ["heads", "skrl"])


@ROOMS
def test_log_probabilities_are_those_of_stable_baselines3_and_torchrl(room: str):
    """They are of actions in -1 to 1; of actions as they are, the scales' logarithms go off."""
    actions, outputs = policy(room).act({"observations": torch.randn(256, 5)})
    mean, log_std = outputs["mean"], outputs["log_std"]
    squashed = (actions - MIDDLE) / SCALE
    theirs = SquashedDiagGaussianDistribution(2, epsilon=1e-7).proba_distribution(mean, log_std)
    own = outputs["log_prob"][:, 0]
    torch.testing.assert_close(own, theirs.log_prob(squashed), rtol=1e-3, atol=1e-3)
    unit = TanhNormal(mean, log_std.exp(), tanh_loc=False)
    torch.testing.assert_close(own, unit.log_prob(squashed), rtol=1e-3, atol=1e-3)
    bounded = TanhNormal(mean, log_std.exp(), low=LOW, high=HIGH, tanh_loc=False)
    as_taken = bounded.log_prob(actions)
    torch.testing.assert_close(own - math.log(2.0 * 0.25), as_taken, rtol=1e-3, atol=1e-3)


@ROOMS
def test_log_probabilities_are_as_by_hand(room: str, monkeypatch: pytest.MonkeyPatch):
    """Noise 0.5 of a standard normal: ln N(0.5) = -0.125 - 0.918939, and 1 - tanh(0.5)^2 =
    0.786448, whose logarithm is -0.240229."""
    made = policy(room)
    monkeypatch.setattr(made, "gaussian", lambda inputs: (torch.zeros(1, 2), torch.zeros(1, 2)))
    monkeypatch.setattr(torch, "randn_like", lambda like: torch.full_like(like, 0.5))
    actions, outputs = made.act({"observations": torch.zeros(1, 5)})
    assert float(outputs["log_prob"]) == pytest.approx(2 * (-1.043939 + 0.240229), abs=1e-5)
    taken = [-1.0 + 2.0 * 0.462117, 0.25 + 0.25 * 0.462117]
    assert actions[0].tolist() == pytest.approx(taken, abs=1e-5)
    assert outputs["mean_actions"][0].tolist() == [-1.0, 0.25]


@ROOMS
def test_the_gradient_of_a_sample_is_that_of_torchrl(room: str):
    made = policy(room)
    torch.manual_seed(1)
    observations = torch.randn(64, 5)
    actions, outputs = made.act({"observations": observations})
    weights = torch.randn(64, 1)
    (outputs["log_prob"] * weights + actions.sum(1, keepdim=True)).mean().backward()
    own = [one.grad.clone() for one in made.parameters()]
    made.zero_grad()
    mean, log_std = made.gaussian({"observations": observations})
    log_std = log_std.clamp(-5.0, 2.0)
    noise = ((actions - MIDDLE) / SCALE).clamp(-0.999999, 0.999999).detach().atanh()
    noise = (noise - mean.detach()) / log_std.detach().exp()
    squashed = (mean + noise * log_std.exp()).tanh()
    density = TanhNormal(mean, log_std.exp(), tanh_loc=False).log_prob(squashed).unsqueeze(1)
    again = MIDDLE + SCALE * squashed
    (density * weights + again.sum(1, keepdim=True)).mean().backward()
    for gradient, one in zip(own, made.parameters(), strict=True):
        torch.testing.assert_close(gradient, one.grad, rtol=5e-3, atol=5e-4)


def test_the_same_holds_on_jax():
    pytest.importorskip("flax", reason="needs flax: pip install -e '.[jax]'")
    import jax

    from envlab.skrl.jax import models as on_jax
    from envlab.skrl.jax.arrays import to_jax, to_torch

    cfg = SkrlCfg.of("sac", "jax")
    made = on_jax.make_models(ENV, cfg, jax.devices("cpu")[0])["agent"]["policy"]
    made.init_state_dict(role="policy")
    inputs = {"observations": to_jax(torch.randn(256, 5))}
    actions, outputs = made.act(dict(inputs), role="policy")
    mean, given = made.apply(made.state_dict.params, {**inputs, "key": None}, "policy")
    mean, std = to_torch(mean), to_torch(given["log_std"]).exp()
    unit = TanhNormal(mean, std.expand_as(mean), tanh_loc=False)
    squashed = (to_torch(actions) - MIDDLE) / SCALE
    own = to_torch(outputs["log_prob"])[:, 0]
    torch.testing.assert_close(own, unit.log_prob(squashed), rtol=1e-3, atol=1e-3)
    best = to_torch(outputs["mean_actions"])
    torch.testing.assert_close(best, MIDDLE + SCALE * mean.tanh())
    again, _ = made.act(dict(inputs), role="policy")
    assert not torch.equal(to_torch(again), to_torch(actions))
