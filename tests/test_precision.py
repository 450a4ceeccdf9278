"""Hidden layers in bfloat16: the parts that stay float32, and processors without bfloat16."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab.distributed.seeding import seed_everything
from envlab.errors import ConfigurationError
from envlab.libraries import get_library
from envlab.precision import compute_in, settle_precision
from envlab.training.preparation import make_env
from tests.trained import TASK, session_of

BATCH = 64


def networks() -> tuple[nn.Sequential, nn.Sequential]:
    """Two equal networks with one output; the second's hidden layers are in bfloat16."""
    plain = nn.Sequential(nn.Linear(8, 64), nn.ELU(), nn.Linear(64, 64), nn.ELU(), nn.Linear(64, 1))
    mixed = copy.deepcopy(plain)
    compute_in(mixed, torch.bfloat16)
    return plain, mixed


def test_hidden_layers_alone_are_in_bfloat16():
    _, mixed = networks()
    seen: list[torch.dtype] = []
    for layer in mixed:
        layer.register_forward_hook(lambda module, args, output: seen.append(output.dtype))
    output = mixed(torch.randn(BATCH, 8))
    assert seen == [torch.bfloat16] * 4 + [torch.float32]
    assert output.dtype == torch.float32
    # A value of 100 in bfloat16 would be a multiple of a half.
    assert not torch.equal(output, output.bfloat16().float())
    assert not torch.is_autocast_enabled("cpu")


def test_gradients_are_float32_and_nearly_those_of_float32():
    plain, mixed = networks()
    inputs = torch.randn(BATCH, 8)
    for network in (plain, mixed):
        network(inputs).square().mean().backward()
    for one, other in zip(plain.parameters(), mixed.parameters(), strict=True):
        assert one.grad is not None
        assert other.grad is not None
        assert other.grad.dtype == torch.float32
        assert not torch.equal(one.grad, other.grad)
        torch.testing.assert_close(other.grad, one.grad, rtol=0.1, atol=0.02 * one.grad.abs().max())


def test_a_forward_pass_that_fails_leaves_no_autocast():
    _, mixed = networks()
    with pytest.raises(RuntimeError):
        mixed(torch.randn(BATCH, 9))
    assert not torch.is_autocast_enabled("cpu")


def test_auto_asks_the_processor_and_bfloat16_insists(monkeypatch: pytest.MonkeyPatch):
    """Torch emulates bfloat16, slowly, on any processor."""
    context = DistributedContext.single()
    for has_it, auto in ((True, torch.bfloat16), (False, torch.float32)):
        monkeypatch.setattr("envlab.precision.has_bfloat16", lambda _, has_it=has_it: has_it)
        assert settle_precision("float32", context) == torch.float32
        assert settle_precision("auto", context) == auto
        if has_it:
            assert settle_precision("bfloat16", context) == torch.bfloat16
    with pytest.raises(ConfigurationError, match=r"bfloat16.*Set it to float32, or to auto"):
        settle_precision("bfloat16", context)


def test_tf32_is_a_gpus_alone_and_of_its_run(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigurationError, match=r"tf32.*learns on cpu.*Set it to float32"):
        settle_precision("tf32", DistributedContext.single("cpu"))
    asked: list[str] = []
    monkeypatch.setattr("torch.set_float32_matmul_precision", asked.append)
    monkeypatch.setattr("envlab.precision.has_tf32", lambda _: True)
    gpu = DistributedContext(device=torch.device("cuda:0"))
    for precision in ("tf32", "float32"):  # of a second run in the same process
        assert settle_precision(precision, gpu) == torch.float32
    assert asked == ["high", "highest"]


def first_losses(library: str, precision: str) -> dict[str, float]:
    """Return the losses of a first iteration of 16 environments."""
    flags = [TASK, "--headless", "--device=cpu", "env.scene.num_envs=16", "env.seed=3"]
    small = {"rl_games": ["agent.params.config.minibatch_size=64"]}
    session = session_of(library, [*flags, *small.get(library, []), f"agent.precision={precision}"])
    seed_everything(3)
    context = DistributedContext.single("cpu")
    env = make_env(session, context)
    learner = get_library(library).load("build")(session, env, context)
    learner.start(1)
    losses = learner.iterate(1, lambda rewards, dones, infos: None).losses
    env.close()
    return {name: float(value) for name, value in losses.items()}


@pytest.mark.long
def test_a_library_learns_nearly_the_same_in_bfloat16(monkeypatch: pytest.MonkeyPatch):
    for library in ["rsl_rl", "rl_games", "skrl"]:
        monkeypatch.setattr("envlab.precision.has_bfloat16", lambda device: True)
        plain, mixed = (first_losses(library, precision) for precision in ("float32", "auto"))
        assert mixed.keys() == plain.keys()
        assert mixed != plain
        for name, loss in plain.items():
            assert mixed[name] == pytest.approx(loss, rel=0.1, abs=0.05), name
