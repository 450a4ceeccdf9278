"""``isaacgym.gymutil``'s functions that randomise properties of actors and of simulations.

A dictionary specifies the draws: a ``distribution`` (``uniform``, ``loguniform`` or
``gaussian``, whose second number is its standard deviation) with its ``range``, an ``operation``
(``additive`` or ``scaling``) on the original value, and a ``schedule`` (``linear``, up to
``schedule_steps``, or ``constant``, from then on) of its strength.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from envlab.errors import ConfigurationError
from envlab_isaacgym.gymapi import Gym
from envlab_isaacgym.parameters import SimParams
from envlab_isaacgym.values import Vec3
from envlab_isaacgym.world import Env

_KINDS = ("dof_properties", "tendon_properties", "rigid_body_properties", "rigid_shape_properties")
"""Properties of actors, as ``Gym`` names them."""


def get_property_setter_map(gym: Gym) -> dict[str, Callable[..., Any]]:
    """Return the setter of each kind of property."""
    setters = {kind: getattr(gym, f"set_actor_{kind}") for kind in _KINDS}
    return setters | {"sim_params": gym.set_sim_params}


def get_property_getter_map(gym: Gym) -> dict[str, Callable[..., Any]]:
    """Return the getter of each kind of property."""
    getters = {kind: getattr(gym, f"get_actor_{kind}") for kind in _KINDS}
    return getters | {"sim_params": gym.get_sim_params}


def get_default_setter_args(gym: Gym) -> dict[str, list[Any]]:
    """Return setters' further arguments: for masses, to recompute inertias."""
    return {kind: [] for kind in (*_KINDS, "sim_params")} | {"rigid_body_properties": [True]}


def generate_random_samples(
    attr_randomization_params: Mapping[str, Any],
    shape: int | Sequence[int],
    curr_gym_step_count: int,
    extern_sample: Any = None,
) -> Any:
    """Return the terms or factors of the original values.

    Args:
        attr_randomization_params: The specification; see the module.
        shape: Shape of the sample.
        curr_gym_step_count: Steps so far, for the schedule.
        extern_sample: A given sample, used instead of a draw.

    Raises:
        ConfigurationError: If there is no such distribution or operation.
    """
    params = attr_randomization_params
    share, operation = _share(params, curr_gym_step_count), params["operation"]
    if operation not in ("additive", "scaling"):
        raise ConfigurationError(
            f"A randomisation's operation is {operation!r}, but must be 'additive' or 'scaling'."
        )

    def scheduled(value: Any) -> Any:
        """Return a scheduled value, which starts at the neutral one."""
        return value * share + (1.0 - share if operation == "scaling" else 0.0)

    if extern_sample is not None:
        return scheduled(extern_sample)
    kind, (first, second) = params["distribution"], params["range"]
    if kind == "gaussian":
        return np.random.normal(scheduled(first), second * share, shape)
    low, high = scheduled(first), scheduled(second)
    if kind == "uniform":
        return np.random.uniform(low, high, shape)
    if kind == "loguniform":
        return np.exp(np.random.uniform(np.log(low), np.log(high), shape))
    raise ConfigurationError(
        f"A randomisation's distribution is {kind!r}, but must be 'uniform', 'loguniform' or "
        "'gaussian'."
    )


def _share(params: Mapping[str, Any], step: int) -> float:
    """Return the share of a randomisation that is in effect, 0 to 1."""
    schedule = params.get("schedule")
    if schedule == "linear":
        return min(step, params["schedule_steps"]) / params["schedule_steps"]
    return float(schedule != "constant" or step >= params["schedule_steps"])


def apply_random_samples(
    prop: Any,
    og_prop: Mapping[str, Any],
    attr: str,
    attr_randomization_params: Mapping[str, Any],
    curr_gym_step_count: int,
    extern_sample: Any = None,
) -> None:
    """Randomise one attribute in place.

    Args:
        prop: Simulation parameters, of which gravity can be randomised, an array of DOF properties,
            or properties of one body, shape or tendon.
        og_prop: Its original attributes.
        attr: The attribute's name.
        attr_randomization_params: Specification; see the module. With ``num_buckets``, values are
            rounded down to that many.
        curr_gym_step_count: Steps so far, for the schedule.
        extern_sample: A given sample, used instead of a draw.

    Raises:
        ConfigurationError: If it cannot be randomised like this.
    """
    params = attr_randomization_params
    if isinstance(prop, SimParams):
        if attr != "gravity":
            raise ConfigurationError(
                f"apply_random_samples: of simulation parameters only gravity can be randomised, "
                f"not {attr!r}."
            )
        original, shape = np.asarray(og_prop[attr]), (3,)
    else:
        original = og_prop[attr]
        shape = prop[attr].shape if isinstance(prop, np.ndarray) else (1,)
    sample = generate_random_samples(params, shape, curr_gym_step_count, extern_sample)
    value = original * sample if params["operation"] == "scaling" else original + sample
    if params.get("num_buckets", 0) > 0:
        value = _bucketed(value, params)
    if isinstance(prop, np.ndarray):
        prop[attr] = value
    else:
        setattr(prop, attr, Vec3(*value) if isinstance(prop, SimParams) else value)


def _bucketed(values: Any, params: Mapping[str, Any]) -> np.ndarray:
    """Return values rounded down to the lower ends of buckets, which divide the range evenly."""
    low, high = params["range"]
    if params["distribution"] == "gaussian":  # two deviations on both sides of the mean
        mean, deviation = low, np.sqrt(high)
        low, high = mean - 2 * deviation, mean + 2 * deviation
    ends = np.linspace(low, high, params["num_buckets"], endpoint=False)
    return ends[np.clip(np.digitize(values, ends) - 1, 0, None)]


def check_buckets(gym: Gym, envs: Sequence[Env], dr_params: Mapping[str, Any]) -> None:
    """Do nothing: PhysX has room for 64,000 materials, MuJoCo for any number."""
