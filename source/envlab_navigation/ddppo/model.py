"""The agent's network: encoders, memory and heads."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from gymnasium import spaces
from torch import nn

from envlab.distributed.statistics import PooledRunningMeanStd
from envlab.envs import BatchedEnv
from envlab.errors import ConfigurationError
from envlab_navigation.ddppo.distributions import Head
from envlab_navigation.ddppo.encoder import Compressor, FrozenResNet18, PooledResNet18, SimpleCNN
from envlab_navigation.ddppo.memory import Memory
from envlab_navigation.ddppo.storage import Observations, Output

PRIVILEGED = "critic"
"""Group of observations that does not exist in play, and is not used in training either."""


class RecurrentActorCritic(nn.Module):
    """Encoder, memory, and heads for actions and values, which share all layers before them.

    Image groups of one size are stacked by their channels; each vector group, and the last action,
    goes through separate layers. An object to find is a one-hot vector, whose embedding is the
    first of these layers.

    Attributes:
        memory_dim: Size of an environment's memory.
        normaliser: Normaliser of the vectors; None if they are not normalised.
    """

    def __init__(
        self,
        env: BatchedEnv,
        *,
        encoder: Literal["simple", "resnet18"] = "simple",
        channels: Sequence[int] = (32, 64, 32),
        pretrained: str | None = None,
        max_depth_m: float = 10.0,
        image_dim: int | None = None,
        vector_dims: Sequence[int] | None = None,
        memory: Literal["gru", "lstm", "none"] = "gru",
        hidden_dim: int | None = None,
        sees_last_action: bool = True,
        obs_normalization: bool = True,
        init_std: float = 1.0,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Make a network for an environment's spaces; see :class:`.cfg.ModelCfg`.

        Args:
            env: The environment, whose spaces are read.
            encoder: Encoder of images.
            channels: Output channels of the simple encoder's convolutions.
            pretrained: File with weights of ``resnet18``, which are frozen.
            max_depth_m: Depth that is scaled to 1, and at which depths are clipped.
            image_dim: Size of images' features; None: ``hidden_dim``.
            vector_dims: Sizes of the vectors' layers; None: [32] with images, else [256, 128].
            memory: Kind of the memory.
            hidden_dim: Size of its output; None: 512 with images, else 128.
            sees_last_action: Whether the last action is observed.
            obs_normalization: Whether vectors are normalised by the moments of all ranks' samples.
            init_std: Initial deviation of real-valued actions.
            dtype: Type of convolutions and of the memory's products.

        Raises:
            ConfigurationError: If the network does not fit the observations.
        """
        super().__init__()
        observed: Mapping[str, spaces.Space] = env.single_observation_space.spaces  # type: ignore[attr-defined]
        shapes = {name: space.shape or () for name, space in observed.items() if name != PRIVILEGED}
        self.vectors = [name for name, shape in shapes.items() if len(shape) == 1]
        self.images = [name for name, shape in shapes.items() if len(shape) == 3]
        self._dtype, self._max_depth_m = dtype, max_depth_m
        hidden_dim = hidden_dim or (512 if self.images else 128)

        action_space = env.single_action_space
        self._sizes = _options(action_space)
        num_actions = math.prod(action_space.shape or ()) if self._sizes is None else None
        self.num_actions = num_actions or len(self._sizes or ())

        self.backbone: FrozenResNet18 | None = None
        self.encoder: nn.Module | None = None
        features = 0
        if self.images:
            dim = image_dim or hidden_dim
            features += self._add_encoder(env, shapes, encoder, channels, pretrained, dim)
        num_of_images = features
        dims = vector_dims or ([32] if self.images else [256, 128])
        features += self._add_vector(env, shapes, dims, obs_normalization, sees_last_action)

        self.num_features, self.hidden_dim = num_of_images or features, hidden_dim
        self.memory = Memory(memory, features, hidden_dim) if memory != "none" else None
        self.memory_dim = self.memory.dim if self.memory else 0
        self.outer = None if self.memory else _layers(features, [hidden_dim])
        self.actor = Head(hidden_dim, self._sizes or self.num_actions, init_std)
        self.critic = nn.Linear(hidden_dim, 1)
        nn.init.orthogonal_(self.critic.weight)
        nn.init.zeros_(self.critic.bias)
        self.train()

    def train(self, mode: bool = True) -> RecurrentActorCritic:
        """Set the mode of all except the normaliser, which the learner switches."""
        super().train(mode)
        if self.normaliser is not None:
            self.normaliser.eval()
        return self

    def _add_encoder(
        self,
        env: BatchedEnv,
        shapes: Mapping[str, Sequence[int]],
        kind: str,
        channels: Sequence[int],
        pretrained: str | None,
        dim: int,
    ) -> int:
        """Make the encoder of images; return the size of its output."""
        height, width, _ = shapes[self.images[0]]
        for name in self.images:
            if tuple(shapes[name][:2]) != (height, width):
                raise ConfigurationError(
                    f"The task's images {self.images[0]!r} and {name!r} have {height} x {width} "
                    f"and {shapes[name][0]} x {shapes[name][1]} pixels, but the encoder sees them "
                    "together. Give them one size."
                )
        shape = (sum(shapes[name][2] for name in self.images), height, width)
        if pretrained is None:
            made = SimpleCNN(shape, channels, dim) if kind == "simple" else None
            self.encoder = made or PooledResNet18(shape, dim)
            self.encoder.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            return dim
        if kind != "resnet18":
            raise ConfigurationError(
                f"agent.model.pretrained is {pretrained!r}, but agent.model.encoder is {kind!r}. "
                "Set agent.model.encoder=resnet18, or leave out the file."
            )
        is_float = [env.obs_buf[name].is_floating_point() for name in self.images]
        if shape[0] != 3 or any(is_float):
            raise ConfigurationError(
                f"agent.model.pretrained is {pretrained!r}, whose network takes colour images, but "
                f"the task's images are {', '.join(self.images)} with {shape[0]} channels. Take a "
                "task with images 'rgb' alone, or leave out the file."
            )
        self.backbone = FrozenResNet18(Path(pretrained))
        with torch.no_grad():
            features = self.backbone(torch.zeros(1, *shape))
        self.encoder = Compressor(tuple(features.shape[1:]))
        return self.encoder.dim

    def _add_vector(
        self,
        env: BatchedEnv,
        shapes: Mapping[str, Sequence[int]],
        dims: Sequence[int],
        is_normalised: bool,
        sees_last_action: bool,
    ) -> int:
        """Make the layers of vectors and the last action; return the size of their output."""
        vector_dim = sum(shapes[name][0] for name in self.vectors)
        self.normaliser: PooledRunningMeanStd | None = None
        if vector_dim and is_normalised:
            self.normaliser = PooledRunningMeanStd((vector_dim,), env.context)
        self._last_action_dim = 0
        if sees_last_action:
            self._last_action_dim = sum(self._sizes) if self._sizes else self.num_actions
        self.vector = _layers(vector_dim + self._last_action_dim, dims)
        return dims[-1] if self.vector else 0

    def in_float32(self) -> RecurrentActorCritic:
        """Compute in float32 from now on, as any machine can; return the network."""
        self._dtype = torch.float32
        return self

    def beginning(
        self, num_envs: int, device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return an empty memory, empty last actions, and starts of episodes.

        They are :meth:`forward`'s inputs of one step: ``(num_envs, ...)``.
        """
        is_choice = self._sizes is not None
        actions_dtype = torch.int64 if is_choice else torch.float32
        return (
            torch.zeros(num_envs, self.memory_dim, device=device),
            torch.zeros(num_envs, self.num_actions, dtype=actions_dtype, device=device),
            torch.ones(num_envs, dtype=torch.bool, device=device),
        )

    def prepare(self, obs: Observations) -> Observations:
        """Return observations ``(num_envs, ...)`` by group in the form to store and encode.

        Returns:
            ``vector``, float32 ``(num_envs, dim)``, and ``image``, ``(num_envs, height, width,
            channels)``: images with values from 0 to 1, or the map of features of a frozen network.
        """
        prepared = {}
        if self.vectors:
            prepared["vector"] = torch.cat([obs[name].float() for name in self.vectors], dim=1)
        if self.images:
            parts = [self._scaled(obs[name]) for name in self.images]
            image = parts[0] if len(parts) == 1 else torch.cat(parts, dim=3)
            if self.backbone is not None:
                with torch.no_grad(), self._autocast(image.device):
                    image = self.backbone(image.float().permute(0, 3, 1, 2))
                image = image.to(self._dtype).permute(0, 2, 3, 1)
            prepared["image"] = image
        return prepared

    def _scaled(self, image: torch.Tensor) -> torch.Tensor:
        """Return an image with values from 0 to 1, in the encoder's type."""
        if image.is_floating_point():
            return (image.clamp(max=self._max_depth_m) / self._max_depth_m).to(self._dtype)
        return image.to(self._dtype) / 255.0

    def forward(
        self,
        obs: Observations,
        previous_actions: torch.Tensor,
        starts: torch.Tensor,
        memory: torch.Tensor,
    ) -> tuple[Output, torch.Tensor]:
        """Process steps in order.

        Args:
            obs: The result of :meth:`prepare`, ``(num_steps, num_envs, ...)``.
            previous_actions: ``(num_steps, num_envs, num_actions)``; ignored where an episode
                begins.
            starts: Whether an episode begins, bool ``(num_steps, num_envs)``.
            memory: Memory before the first step, ``(num_envs, memory_dim)``.

        Returns:
            The outputs, and the memory after the last step.
        """
        features = self._features(obs, previous_actions, starts)
        if self.memory is not None:
            with self._autocast(features.device):
                beliefs, memory = self.memory(features, memory, starts)
        else:
            assert self.outer is not None
            beliefs = self.outer(features)
        output = Output(
            distribution=self.actor(beliefs),
            values=self.critic(beliefs).squeeze(-1),
            features=features[..., : self.num_features],  # images' features come first
            beliefs=beliefs,
        )
        return output, memory

    def _features(
        self, obs: Observations, previous_actions: torch.Tensor, starts: torch.Tensor
    ) -> torch.Tensor:
        """Return the memory's inputs of observations, ``(num_steps, num_envs, dim)``."""
        steps, num_envs = starts.shape
        parts = []
        if self.encoder is not None:
            # They are stored with channels last; this view makes torch aware of it.
            images = obs["image"].flatten(0, 1).permute(0, 3, 1, 2)
            with self._autocast(images.device):
                encoded = self.encoder(images)
            parts.append(encoded.float().view(steps, num_envs, -1))
        if self.vector is not None:
            parts.append(self.vector(self._told(obs, previous_actions, starts)))
        return torch.cat(parts, dim=2)

    def _told(
        self, obs: Observations, previous_actions: torch.Tensor, starts: torch.Tensor
    ) -> torch.Tensor:
        """Return vectors and last actions, ``(num_steps, num_envs, dim)``."""
        parts = []
        if self.vectors:
            vector = obs["vector"]
            parts.append(vector if self.normaliser is None else self.normaliser(vector))
        if self._last_action_dim:
            actions = previous_actions
            if self._sizes is not None:
                chosen = zip(actions.unbind(dim=-1), self._sizes, strict=True)
                parts_of = [nn.functional.one_hot(one, size) for one, size in chosen]
                actions = torch.cat(parts_of, dim=-1)
            parts.append(actions.float() * ~starts.unsqueeze(-1))
        return torch.cat(parts, dim=-1)

    def _autocast(self, device: torch.device) -> contextlib.AbstractContextManager[Any]:
        if self._dtype == torch.float32:
            return contextlib.nullcontext()  # adds no operation to an export
        return torch.autocast(device.type, self._dtype)


def _options(space: spaces.Space) -> list[int] | None:
    """Return the options of each choice; None for real-valued actions."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(size) for size in space.nvec]
    return None


def _layers(before: int, dims: Sequence[int]) -> nn.Sequential | None:
    """Return linear layers with ELU behind each; None without inputs."""
    if not before:
        return None
    layers: list[nn.Module] = []
    for dim in dims:
        layers += [nn.Linear(before, dim), nn.ELU()]
        before = dim
    return nn.Sequential(*layers)
