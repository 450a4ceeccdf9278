"""Mirror images for rsl_rl's symmetry setting (``agent.algorithm.symmetry_cfg``).

Mittal et al., "Symmetry Considerations for Learning Task Symmetric Robot Policies" (2024).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from rsl_rl.utils import resolve_callable
from tensordict import TensorDict

from envlab.envs.mirror import Mirror
from envlab.envs.wrappers.rsl_rl import RslRlVecEnvWrapper
from envlab.errors import ConfigurationError

FUNCTION = "data_augmentation_func"
TOLERANCE = 1e-5
"""Tolerance of values about 1 that are mirrored twice."""

Augment = Callable[..., tuple[TensorDict | None, torch.Tensor | None]]


def symmetry_function(env: RslRlVecEnvWrapper, cfg: dict[str, Any]) -> Augment:
    """Return the function that a symmetry setting names, by default the robot's own mirror.

    Raises:
        ConfigurationError: If the robot has no mirror, or the function does not square to the
            identity.
    """
    if cfg.get(FUNCTION) is None:
        return _left_right(Mirror(env.unwrapped))
    function: Augment = resolve_callable(cfg[FUNCTION])
    _check_images(function, cfg[FUNCTION], env)
    return function


def _left_right(mirror: Mirror) -> Augment:
    """Return a function that adds the mirror image to a batch."""

    def augment(
        env: Any, obs: TensorDict | None, actions: torch.Tensor | None
    ) -> tuple[TensorDict | None, torch.Tensor | None]:
        if obs is not None:
            image = {group: mirror.obs[group](values) for group, values in obs.items()}
            obs = torch.cat((obs, TensorDict(image, batch_size=obs.batch_size)))  # type: ignore[call-overload]
        if actions is not None:
            actions = torch.cat((actions, mirror.actions(actions)))
        return obs, actions

    return augment


def _check_images(function: Augment, name: Any, env: RslRlVecEnvWrapper) -> None:
    """Refuse a function whose images of images are not the batch."""
    like = env.get_observations()
    generator = torch.Generator().manual_seed(0)

    def drawn(values: torch.Tensor) -> torch.Tensor:
        return torch.randn(values.shape, generator=generator).to(values)

    groups = list(like.keys())
    obs = TensorDict({group: drawn(like[group]) for group in groups}, batch_size=like.batch_size)
    actions = drawn(env.env.actions)
    count = len(actions)
    seen, done = function(env=env, obs=obs, actions=actions)
    assert seen is not None
    assert done is not None
    for start in range(count, len(done), count):
        rows = slice(start, start + count)
        again, back = function(env=env, obs=seen[rows], actions=done[rows])
        assert again is not None
        assert back is not None
        errors = [float((again[group][rows] - obs[group]).abs().max()) for group in groups]
        worst = max(*errors, float((back[rows] - actions).abs().max()))
        if not worst <= TOLERANCE:
            raise ConfigurationError(
                f"agent.algorithm.symmetry_cfg.{FUNCTION} is {name!r}, a mirror that does not "
                f"square to the identity: applied twice, it changes values by {worst:.2g}. Correct "
                "it, or leave it out for the robot's own."
            )
