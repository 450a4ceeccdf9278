"""A checkpoint's policy in a network of a new run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envlab.errors import CheckpointError


def load_policy(model: Any, values: Mapping[str, Any], path: str, name: str) -> None:
    """Load a PPO run's actor, or a distillation's student, into a network.

    Args:
        model: rsl_rl's network.
        values: The checkpoint's content.
        path: The checkpoint's path, for errors.
        name: The network's name in the configuration.

    Raises:
        CheckpointError: If it has different observations, actions or layers.
    """
    saved = values["model"]
    state = saved.get("actor_state_dict") or saved.get("student_state_dict")
    if not isinstance(state, Mapping):
        raise CheckpointError(f"The checkpoint {path} holds no policy of rsl_rl. Use another one.")
    own = model.state_dict()
    (num_obs, num_actions), (has_obs, has_actions) = _sizes(own), _sizes(state)
    if None not in (num_obs, has_obs) and num_obs != has_obs:
        groups = ", ".join(model.obs_groups)
        raise CheckpointError(
            f"The policy of {path} observes {has_obs} values, but agent.obs_groups.{name} "
            f"({groups}) has {num_obs} in this task. Name the groups that it was trained with, in "
            "a task that has them."
        )
    if None not in (num_actions, has_actions) and num_actions != has_actions:
        raise CheckpointError(
            f"The policy of {path} has {has_actions} actions, but the task has {num_actions}. "
            "Choose one of a task with the same actions."
        )
    try:
        model.load_state_dict(state)
    except (AttributeError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[-1].strip().rstrip(".")
        raise CheckpointError(
            f"The policy of {path} does not fit agent.{name} ({reason}). Give agent.{name} the "
            "network of the run it comes from, as its params/agent.yaml has it."
        ) from error


def _sizes(state: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return how many values a network observes as vectors, and how many it returns.

    The first is None with convolutions; both are None if the layers have unusual names.
    """
    layers = [
        name
        for name, values in state.items()
        if name.startswith("mlp.") and getattr(values, "ndim", 0) == 2
    ]
    if not layers:
        return None, None
    first = next((name for name in state if name.endswith("rnn.weight_ih_l0")), layers[0])
    has_images = any(name.startswith("cnns.") for name in state)
    num_obs = None if has_images else int(state[first].shape[1])
    return num_obs, int(state[layers[-1]].shape[0])
