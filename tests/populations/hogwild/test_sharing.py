"""Sessions share one piece of memory, without locks; test_trial.py has them in real processes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from envlab.distributed.context import DistributedContext
from envlab.skrl.torch.ranks import PooledScaler, RunningStandardScaler
from envlab_populations.hogwild.sharing import Lookahead, Shared, make_optimizer

ALONE = DistributedContext()


class Agent:
    """The parts of skrl's agents that are used: a network, its target, its optimizer, a scaler."""

    def __init__(self, seed: int, kind: str = "adam") -> None:
        torch.manual_seed(seed)
        self.models = {"q": Follower(3, 2), "target_q": Follower(3, 2)}
        weight, bias = self.models["q"].parameters()
        groups = [{"params": [weight]}, {"params": [bias], "lr": 3e-2}]
        self.optimizer = make_optimizer(kind, groups, 1e-2, eps=1e-2)
        scaler = PooledScaler.of(ALONE)(3, device="cpu")
        self.checkpoint_modules: dict[str, Any] = {"optimizer": self.optimizer, "scaler": scaler}

    def learn(self) -> None:
        self.optimizer.zero_grad()
        self.models["q"](torch.ones(4, 3)).square().mean().backward()
        self.optimizer.step()


class Follower(torch.nn.Linear):
    def update_parameters(self, model: Any, *, polyak: float) -> None:
        with torch.no_grad():
            for own, other in zip(self.parameters(), model.parameters(), strict=True):
                own.lerp_(other, polyak)


@pytest.mark.parametrize("kind", ["adam", "adamw", "radam", "lookahead", "rmsprop"])
@pytest.mark.parametrize("synced", [False, True])
def test_a_lone_session_takes_the_same_steps_as_one_that_shares_nothing(kind: str, synced: bool):
    agents = [Agent(seed=1, kind=kind), Agent(seed=1, kind=kind)]
    shared = Shared.of(agents[1], kind)
    shared.join(agents[1], synced=synced)
    own, common = agents[1].models["q"].weight, shared.parameters["optimizer"][0]
    assert (own.data_ptr() == common.data_ptr()) != synced
    agents[1].optimizer = agents[1].checkpoint_modules["optimizer"]
    for agent in agents:
        for _ in range(5):
            agent.learn()
    alone, sharing = (agent.models["q"].state_dict() for agent in agents)
    for name in alone:
        assert torch.equal(alone[name], sharing[name])


def test_lookahead_returns_to_slow_weights_every_few_steps():
    """Algorithm 1 of Zhang et al. (2019), by hand, with three steps of RAdam and a quarter back."""
    fast, own = (torch.nn.Parameter(torch.tensor([1.0, -2.0])) for _ in range(2))
    inner, optimizer = torch.optim.RAdam([fast], 0.1), Lookahead([own], 0.1, alpha=0.25, k=3)
    slow = fast.detach().clone()
    for step in range(1, 10):
        for parameter, one in ((fast, inner), (own, optimizer)):
            one.zero_grad()
            parameter.square().sum().backward()
            one.step()
        if step % 3 == 0:
            slow += 0.25 * (fast.detach() - slow)
            fast.data.copy_(slow)
        assert torch.allclose(own, fast, rtol=1e-6)
    assert not torch.equal(slow, torch.tensor([1.0, -2.0]))


def test_gradients_of_a_synced_session_do_not_accumulate():
    agent, shared = Agent(seed=1), Shared.of(Agent(seed=1), "adam")
    shared.join(agent, synced=True)
    optimizer, network = agent.checkpoint_modules["optimizer"], agent.models["q"]
    norms = []
    for _ in range(4):
        optimizer.zero_grad()
        network(torch.ones(4, 3)).sum().backward()  # a constant gradient
        norms.append(float(network.weight.grad.norm()))
        optimizer.step()
    assert norms == [norms[0]] * 4
    assert network.weight.data_ptr() != shared.parameters["optimizer"][0].data_ptr()
    assert torch.equal(network.weight, shared.parameters["optimizer"][0])


def test_a_synced_session_pulls_the_updates_of_others():
    shared = Shared.of(Agent(seed=1), "adam")
    agents = [Agent(seed=2), Agent(seed=3)]
    for agent in agents:
        shared.join(agent, synced=True)
        agent.optimizer = agent.checkpoint_modules["optimizer"]
    agents[0].learn()
    assert not torch.equal(agents[0].models["q"].weight, agents[1].models["q"].weight)
    agents[1].learn()
    assert torch.equal(agents[1].models["q"].weight, shared.parameters["optimizer"][0])
    assert float(shared.states["optimizer"][0]["step"]) == 2.0


def test_targets_begin_equal_to_the_shared_networks():
    agent = Agent(seed=2)
    shared = Shared.of(Agent(seed=1), "adam")
    shared.join(agent, synced=False)
    assert torch.equal(agent.models["target_q"].weight, shared.parameters["optimizer"][0])
    assert not agent.models["target_q"].weight.is_shared()


def test_a_scaler_equals_skrls_and_writes_in_place():
    mine, skrls = PooledScaler.of(ALONE)(3, device="cpu"), RunningStandardScaler(3, device="cpu")
    tensors = dict(mine.named_buffers())
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        batch = torch.randn(16, 3, generator=generator) * 2.0 + 1.0
        assert torch.equal(mine(batch, train=True), skrls(batch, train=True))
    for name, buffer in mine.named_buffers():
        assert buffer is tensors[name]
        assert torch.equal(buffer, skrls.get_buffer(name))


@pytest.mark.parametrize("synced", [False, True])
def test_sessions_share_loaded_networks_and_moments(synced: bool):
    trained, loading = Agent(seed=1), Agent(seed=2)
    for _ in range(3):
        trained.learn()
    shared = Shared.of(Agent(seed=2), "adam")
    shared.join(loading, synced=synced)
    optimizer = loading.checkpoint_modules["optimizer"]
    loading.models["q"].load_state_dict(trained.models["q"].state_dict())
    optimizer.load_state_dict(trained.optimizer.state_dict())
    shared.take(loading)
    pairs = zip(shared.parameters["optimizer"], trained.models["q"].parameters(), strict=True)
    for mine, theirs in pairs:
        assert torch.equal(mine, theirs)
        assert mine.is_shared()
    wanted = trained.optimizer.state[trained.models["q"].weight]
    state = shared.states["optimizer"][0]
    assert float(state["step"]) == 3.0
    assert torch.equal(state["exp_avg"], wanted["exp_avg"])
    (first, *_) = (one for group in optimizer.param_groups for one in group["params"])
    assert optimizer.state[first]["exp_avg"] is state["exp_avg"]  # its next step is shared again
