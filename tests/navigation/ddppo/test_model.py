"""The agent's network: memories, distributions, encoders."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gymnasium import spaces
from torch import nn

from envlab.distributed.context import DistributedContext
from envlab_navigation.ddppo.distributions import Choices, Gaussian
from envlab_navigation.ddppo.encoder import ResNet18
from envlab_navigation.ddppo.memory import Memory
from envlab_navigation.ddppo.model import RecurrentActorCritic
from tests.refusals import check_refusals

STEPS, ENVS = 6, 3


def env_with(images: dict[str, tuple[int, str]], action: spaces.Space, size: int = 64) -> Any:
    """Return a stand-in environment: images by channels and type, and a vector."""
    boxes: dict[str, spaces.Space] = {"policy": spaces.Box(-9, 9, (5,))}
    for name, (channels, dtype) in images.items():
        boxes[name] = spaces.Box(0, 255, (size, size, channels), dtype)  # type: ignore[arg-type]
    obs = {name: torch.from_numpy(box.sample()).unsqueeze(0) for name, box in boxes.items()}
    return SimpleNamespace(
        single_observation_space=spaces.Dict(boxes),
        single_action_space=action,
        obs_buf={name: torch.cat([values] * ENVS) for name, values in obs.items()},
        context=DistributedContext(),
    )


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_memory_is_torchs_cell_that_forgets_where_episodes_begin(kind: str):
    memory = Memory(kind, 5, 7)
    cell = (nn.GRUCell if kind == "gru" else nn.LSTMCell)(5, 7)
    cell.weight_ih.data, cell.bias_ih.data = memory.input.weight.data, memory.input.bias.data
    cell.weight_hh.data, cell.bias_hh.data = memory.hidden.weight.data, memory.hidden.bias.data
    inputs, starts = torch.randn(STEPS, ENVS, 5), torch.rand(STEPS, ENVS) < 0.3
    assert starts.any()
    state = first = torch.randn(ENVS, memory.dim)
    outputs, last = memory(inputs, first, starts)
    for step in range(STEPS):
        kept = state * ~starts[step].unsqueeze(1)
        if kind == "gru":
            state = cell(inputs[step], kept)
        else:
            state = torch.cat(cell(inputs[step], kept.chunk(2, dim=1)), dim=1)
        torch.testing.assert_close(outputs[step], state[:, :7])
    torch.testing.assert_close(last, state)


@pytest.mark.parametrize("memory", ["gru", "lstm", "none"])
def test_a_rollout_is_its_steps_one_after_the_other(memory: Any):
    """Learning sees the policy that acted: the first ratio of probabilities is 1."""
    env = env_with({"depth": (1, "float32"), "goal_mask": (1, "uint8")}, spaces.Discrete(4))
    model = RecurrentActorCritic(env, memory=memory, hidden_dim=16, channels=[4, 4, 4])
    obs = model.prepare(env.obs_buf)
    shapes = {name: tuple(values.shape) for name, values in obs.items()}
    assert shapes == {"vector": (ENVS, 5), "image": (ENVS, 64, 64, 2)}
    assert float(obs["image"].max()) <= 1.0
    steps = {name: torch.rand(STEPS, *values.shape) for name, values in obs.items()}
    actions = torch.randint(4, (STEPS, ENVS, 1))
    starts = torch.rand(STEPS, ENVS) < 0.3
    state, _, _ = model.beginning(ENVS, torch.device("cpu"))
    whole, last = model(steps, actions, starts, state)
    for step in range(STEPS):
        now = slice(step, step + 1)
        seen = {name: values[now] for name, values in steps.items()}
        one, state = model(seen, actions[now], starts[now], state)
        torch.testing.assert_close(one.values[0], whole.values[step])
        torch.testing.assert_close(one.features[0], whole.features[step])
        probs = (one.distribution.log_prob(actions[now])[0], whole.distribution.log_prob(actions))
        torch.testing.assert_close(probs[0], probs[1][step])
    torch.testing.assert_close(state, last)


def test_the_last_action_of_the_episode_before_is_not_seen():
    env = env_with({}, spaces.MultiDiscrete([3, 2]))
    model = RecurrentActorCritic(env, hidden_dim=8)
    obs = {name: values.unsqueeze(0) for name, values in model.prepare(env.obs_buf).items()}
    first, second = torch.zeros(1, ENVS, 2).long(), torch.ones(1, ENVS, 2).long()
    memory = torch.randn(ENVS, model.memory_dim)
    for starts in (torch.ones(1, ENVS) > 0, torch.zeros(1, ENVS) > 0):
        one, _ = model(obs, first, starts, memory)
        other, _ = model(obs, second, starts, memory)
        assert torch.equal(one.values, other.values) == bool(starts.all())


def test_choices_and_numbers_have_the_probabilities_of_torchs_distributions():
    logits = torch.randn(ENVS, 5)
    choices = Choices(logits, [3, 2])
    parts = [torch.distributions.Categorical(logits=part) for part in logits.split([3, 2], dim=1)]
    actions = choices.sample()
    assert actions.shape == (ENVS, 2)
    expected = sum(part.log_prob(actions[:, index]) for index, part in enumerate(parts))
    torch.testing.assert_close(choices.log_prob(actions), expected)
    torch.testing.assert_close(choices.entropy(), sum(part.entropy() for part in parts))
    modes = [part.argmax(dim=1) for part in logits.split([3, 2], dim=1)]
    assert torch.equal(choices.mode(), torch.stack(modes, dim=1))

    mean, log_std = torch.randn(ENVS, 2), torch.tensor([0.3, -0.5])
    numbers, normal = Gaussian(mean, log_std), torch.distributions.Normal(mean, log_std.exp())
    actions = numbers.sample()
    torch.testing.assert_close(numbers.log_prob(actions), normal.log_prob(actions).sum(dim=1))
    torch.testing.assert_close(numbers.entropy(), normal.entropy().sum(dim=1))
    draws = Gaussian(mean.expand(20000, ENVS, 2), log_std).sample()
    torch.testing.assert_close(draws.std(dim=(0)).mean(dim=0), log_std.exp(), rtol=0.02, atol=0.0)


def pretrained_file(folder: Path) -> Path:
    """Write an untrained network's weights in the format of torchvision's file."""
    weights = ResNet18(3, 64, is_pretrained=True).state_dict()
    assert len(weights) == 120  # as torchvision's, except fc.weight and fc.bias
    assert {"conv1.weight", "layer2.0.downsample.1.running_var", "layer4.1.bn2.bias"} <= {*weights}
    torch.save(weights | {"fc.weight": torch.zeros(1000, 512)}, folder / "resnet18.pth")
    return folder / "resnet18.pth"


def test_a_pretrained_network_sees_each_image_once_and_stays_as_it_is(tmp_path: Path):
    path = pretrained_file(tmp_path)
    env = env_with({"rgb": (3, "uint8")}, spaces.Discrete(4))
    model = RecurrentActorCritic(env, encoder="resnet18", pretrained=str(path), hidden_dim=16)
    obs = model.prepare(env.obs_buf)
    assert obs["image"].shape == (ENVS, 2, 2, 512)  # stored, and learned from
    trained = {name for name, values in model.named_parameters() if values.requires_grad}
    assert not any("backbone" in name for name in trained)
    before = model.backbone.state_dict()
    model.train()
    steps = {name: values.unsqueeze(0) for name, values in obs.items()}
    memory, actions, starts = model.beginning(ENVS, torch.device("cpu"))
    output, _ = model(steps, actions.unsqueeze(0), starts.unsqueeze(0), memory)
    output.values.sum().backward()
    model.prepare(env.obs_buf)
    torch.testing.assert_close(model.backbone.state_dict(), before, rtol=0.0, atol=0.0)


def test_a_pretrained_file_that_does_not_fit_is_refused(tmp_path: Path):
    colour = env_with({"rgb": (3, "uint8")}, spaces.Discrete(4))
    depth = env_with({"depth": (1, "float32")}, spaces.Discrete(4))
    path = tmp_path / "other.pth"
    torch.save({"weight": torch.zeros(3)}, path)
    (tmp_path / "text.pth").write_text("no weights")
    check_refusals(
        lambda env, file: RecurrentActorCritic(env, encoder="resnet18", pretrained=str(file)),
        [
            (colour, path, r"not torchvision's ResNet-18 \(Missing key"),
            (colour, tmp_path / "text.pth", "not a file of weights"),
            (colour, tmp_path / "none.pth", r"cannot be read \(No such file"),
            (depth, pretrained_file(tmp_path), "the task's images are depth with 1 channels"),
        ],
    )


def values_of(model: RecurrentActorCritic, env: Any) -> tuple[Any, torch.Tensor]:
    """Return the outputs for the first observations of episodes, and the memory."""
    obs = {name: values.unsqueeze(0) for name, values in model.prepare(env.obs_buf).items()}
    memory, actions, starts = model.beginning(ENVS, torch.device("cpu"))
    return model(obs, actions.unsqueeze(0), starts.unsqueeze(0), memory)


def test_encoders_take_images_of_any_size():
    kinds: Any = ((64, "resnet18"), (20, "simple"))
    for size, encoder in kinds:
        env = env_with({"depth": (1, "float32")}, spaces.Discrete(4), size)
        model = RecurrentActorCritic(env, encoder=encoder, hidden_dim=8, channels=[4, 4, 4])
        assert values_of(model, env)[0].values.shape == (1, ENVS)


def test_bfloat16_computes_nearly_the_same_with_float32_weights():
    env = env_with({"depth": (1, "float32")}, spaces.Discrete(4))
    outputs = []
    for dtype in (torch.float32, torch.bfloat16):
        torch.manual_seed(1)
        model = RecurrentActorCritic(env, hidden_dim=64, dtype=dtype)
        assert {values.dtype for values in model.parameters()} == {torch.float32}
        assert model.prepare(env.obs_buf)["image"].dtype == dtype
        output, memory = values_of(model, env)
        assert memory.dtype == output.values.dtype == torch.float32
        outputs.append(output)
    torch.testing.assert_close(outputs[0].beliefs, outputs[1].beliefs, rtol=0.0, atol=0.02)
