"""PPO's recorded update: the library's arithmetic, repeated without a read of the host."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

from envlab.distributed.context import DistributedContext
from envlab.rsl_rl.ppo import DistributedPPO
from envlab.rsl_rl.recorded_update import RecordedUpdate, obstacle
from envlab.sim.recordable import RepeatedOperations
from envlab.sim.recording import cuda_graphs
from tests.graphs import capturable_on_a_cpu
from tests.operations import Operations

TASKS = {
    "Cartpole": (4, 4, 1, (32, 32)),
    "Ant": (60, 60, 8, (400, 200, 100)),
    "Go2": (48, 48, 12, (128, 128, 128)),
    "G1": (99, 111, 29, (512, 256, 128)),
    "Allegro": (124, 124, 16, (512, 256, 128)),
}
"""Numbers of observations of actor and critic, of actions, and hidden layers."""
NUM_ENVS, NUM_STEPS = 16, 12
GAUSSIAN = {"class_name": "rsl_rl.modules.distribution:GaussianDistribution", "init_std": 1.0}
SETTINGS: dict[str, Any] = {"schedule": "adaptive", "entropy_coef": 0.01, "desired_kl": 0.01}


def algorithm(
    task: str = "Cartpole",
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    **settings: Any,
) -> DistributedPPO:
    """Return a PPO whose storage holds a rollout of noise."""
    policy, critic, actions, hidden = TASKS[task]
    torch.manual_seed(0)
    example = TensorDict(
        {"policy": torch.zeros(NUM_ENVS, policy), "critic": torch.zeros(NUM_ENVS, critic)},
        batch_size=[NUM_ENVS],
    )
    groups = {"actor": ["policy"], "critic": ["critic"]}
    networks = [
        MLPModel(example, groups, name, size, hidden, "elu", True, distribution).to(device, dtype)
        for name, size, distribution in (("actor", actions, GAUSSIAN), ("critic", 1, None))
    ]
    example = example.to(dtype).to(device)
    storage = RolloutStorage("rl", NUM_ENVS, NUM_STEPS, example, [actions], device)
    context = DistributedContext(num_threads=1)
    settings = {**SETTINGS, "device": device, **settings}
    alg = DistributedPPO(*networks, storage, context=context, **settings)
    for name, values in vars(storage).items():
        if isinstance(values, torch.Tensor) and values.is_floating_point():
            setattr(storage, name, values.to(dtype))
    fill(alg, dtype)
    return alg


def fill(alg: DistributedPPO, dtype: torch.dtype = torch.float32, seed: int = 1) -> None:
    """Write a rollout of noise by the library's own methods."""
    draws = torch.Generator().manual_seed(seed)
    torch.manual_seed(seed)  # of actions
    shapes = {name: values.shape[1:] for name, values in alg.storage.observations[0].items()}

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draws, dtype=dtype).to(alg.device)

    with torch.inference_mode():
        for _ in range(NUM_STEPS):
            seen = TensorDict(
                {name: draw(NUM_ENVS, *shape) for name, shape in shapes.items()},
                batch_size=[NUM_ENVS],
                device=alg.device,
            )
            alg.act(seen)
            alg.process_env_step(seen, draw(NUM_ENVS), draw(NUM_ENVS) > 2.0, {})
        alg.compute_returns(seen)


@pytest.fixture(autouse=True)
def on_a_cpu() -> Iterator[None]:
    with capturable_on_a_cpu():
        yield


@pytest.fixture
def in_double() -> Iterator[None]:
    """Count the optimizer's steps as precisely as the library's Python does."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def unrecorded(alg: DistributedPPO) -> RecordedUpdate:
    """Return the update without graphs."""
    update = RecordedUpdate(alg, lambda: RepeatedOperations)
    update.recording.give_up()
    return update


def parameters(alg: DistributedPPO) -> list[torch.Tensor]:
    return [
        one.detach() for network in alg.networks.values() for one in network.state_dict().values()
    ]


def assert_near(one: DistributedPPO, other: DistributedPPO, atol: float) -> None:
    for first, second in zip(parameters(one), parameters(other), strict=True):
        torch.testing.assert_close(first, second, rtol=0.0, atol=atol)


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.usefixtures("in_double")
def test_it_is_the_librarys_update(task: str):
    theirs, ours = (algorithm(task, dtype=torch.float64) for _ in range(2))
    update = unrecorded(ours)
    for seed in (3, 4):
        torch.manual_seed(seed)
        expected = PPO.update(theirs)
        torch.manual_seed(seed)
        assert update() == pytest.approx(expected, abs=1e-9)
        assert ours.learning_rate == pytest.approx(theirs.learning_rate, rel=1e-6)
        assert_near(theirs, ours, 1e-9)
        assert ours.storage.step == 0
        for alg in (theirs, ours):
            fill(alg, torch.float64, seed)


@pytest.mark.parametrize(
    "settings",
    [
        {"schedule": "fixed"},
        {"use_clipped_value_loss": False},
        {"desired_kl": 10.0},  # the rate rises in each minibatch, to its bound
        {"desired_kl": 1e-9, "learning_rate": 2e-5},  # it falls
        {"optimizer": "adamw"},
    ],
    ids=lambda settings: "-".join(settings),
)
@pytest.mark.usefixtures("in_double")
def test_each_setting_is_the_librarys(settings):
    theirs, ours = (algorithm(dtype=torch.float64, **settings) for _ in range(2))
    torch.manual_seed(3)
    expected = PPO.update(theirs)
    torch.manual_seed(3)
    assert unrecorded(ours)() == pytest.approx(expected, abs=1e-9)
    assert ours.learning_rate == pytest.approx(theirs.learning_rate, rel=1e-6)
    assert_near(theirs, ours, 1e-9)


@pytest.mark.parametrize(
    "device",
    [
        "cpu",
        pytest.param(
            "cuda:0",
            marks=[
                pytest.mark.gpu,
                pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
            ],
        ),
    ],
)
@pytest.mark.usefixtures("in_double")
def test_graphs_repeat_the_librarys_update(device: str):
    theirs, ours = (algorithm("Go2", dtype=torch.float64, device=device) for _ in range(2))
    graphs = cuda_graphs if device == "cuda:0" else lambda: RepeatedOperations
    update = RecordedUpdate(ours, graphs, is_required=True)
    for seed in (3, 4, 5):
        torch.manual_seed(seed)
        expected = PPO.update(theirs)
        torch.manual_seed(seed)
        assert update() == pytest.approx(expected, abs=1e-9)
        assert_near(theirs, ours, 1e-9)
        for alg in (theirs, ours):
            fill(alg, torch.float64, seed)
    assert update.recording.is_made


def test_graphs_repeat_its_bits_and_the_host_reads_once():
    plain, ours = algorithm(), algorithm()
    updates = unrecorded(plain), RecordedUpdate(ours, lambda: RepeatedOperations, is_required=True)
    for seed in (3, 4, 5):
        found = []
        for update in updates:
            torch.manual_seed(seed)
            with Operations() as operations:
                found.append(update())
            assert operations.waits == []
        assert found[0] == found[1]
        assert updates[1].recording.is_made
        assert_near(plain, ours, 0.0)
        for alg in (plain, ours):
            fill(alg, seed=seed)


def test_a_checkpoint_is_the_librarys_and_goes_on_exactly():
    ours = algorithm()
    update = RecordedUpdate(ours, lambda: RepeatedOperations, is_required=True)
    ours.recorded = update
    update()
    saved = copy.deepcopy(ours.save())
    (group,) = saved["optimizer_state_dict"]["param_groups"]
    assert isinstance(group["lr"], float)
    assert not group["capturable"]
    other = algorithm()
    other.storage.clear()
    other.recorded = RecordedUpdate(other, lambda: RepeatedOperations, is_required=True)
    other.load(saved, None, True)
    for alg in (ours, other):
        fill(alg, seed=8)
        torch.manual_seed(8)
        alg.update()
    assert ours.learning_rate == other.learning_rate
    assert_near(ours, other, 0.0)


def test_changed_numbers_are_recorded_anew():
    ours, plain = algorithm(), algorithm()
    updates = [
        RecordedUpdate(ours, lambda: RepeatedOperations, is_required=True),
        unrecorded(plain),
    ]
    for number, entropy_coef in enumerate((0.01, 0.5)):
        for alg, update in zip((ours, plain), updates, strict=True):
            alg.entropy_coef, alg.learning_rate = entropy_coef, 1e-3 / (1 + number)
            torch.manual_seed(number)
            update()
            fill(alg, seed=number)
    assert_near(plain, ours, 0.0)


def test_what_cannot_be_recorded_is_named():
    assert obstacle(algorithm()) is None
    assert "SGD reads its rate on the host" in str(obstacle(algorithm(optimizer="sgd")))
    wrapped = algorithm()
    wrapped.joined = lambda: {}
    assert "--grad_sync library" in str(obstacle(wrapped))
    batches = algorithm()
    batches.normalises_batches = True
    assert "each minibatch" in str(obstacle(batches))
    recurrent = algorithm()
    recurrent.actor.is_recurrent = True
    assert "recurrent" in str(obstacle(recurrent))


def test_the_librarys_update_waits_in_each_minibatch():
    with Operations() as operations:
        PPO.update(algorithm())
    assert len(operations.waits) >= 5 * 20
