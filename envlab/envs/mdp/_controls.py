"""The common part of action terms: settings by name, bounds, and motors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import mujoco
import torch

from envlab.envs.entities import joint_values
from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

Clip = tuple[float, float] | dict[str, tuple[float, float]] | None
"""Lower and upper bound, for all or by regular expressions of names."""
_LARGEST = float(torch.finfo(torch.float32).max)


def by_name(
    setting: float | Mapping[str, float],
    names: Sequence[str],
    device: torch.device,
    *,
    default: float | None = None,
    kind: str = "joint",
) -> float | torch.Tensor:
    """Return one number for all, or one for each name, float32 ``(len(names),)``.

    Args:
        setting: The number, or numbers by regular expressions.
        names: The names that the numbers belong to.
        device: Of the result.
        default: Number of names that match no expression; None: each must match one.
        kind: The kind of part that the names belong to, for errors.
    """
    if not isinstance(setting, Mapping):
        return setting
    values = joint_values(setting, names, default=default, kind=kind)
    return torch.tensor(values, device=device)


class Bounds:
    """The ``clip`` of an action term."""

    def __init__(
        self, clip: Clip, names: Sequence[str], device: torch.device, *, kind: str = "joint"
    ) -> None:
        """Look up the bounds.

        Args:
            clip: The setting.
            names: What the action moves, for bounds by name; without any these are refused.
            device: Of the controls.
            kind: The kind of part that the names belong to, for errors.

        Raises:
            ConfigurationError: If ends are swapped, or names match nothing.
        """
        self._pair: tuple[Any, Any] | None = None
        if isinstance(clip, Mapping):
            if not names:
                raise ConfigurationError(
                    f"An action's clip is {dict(clip)}, by joint, but its numbers are not joints'. "
                    "Give [lower, upper] for all of them."
                )
            for pair in clip.values():
                _check(pair)
            self._pair = tuple(  # type: ignore[assignment]
                by_name(
                    {pattern: float(pair[end]) for pattern, pair in clip.items()},
                    names,
                    device,
                    default=default,
                    kind=kind,
                )
                for end, default in enumerate((-math.inf, math.inf))
            )
        elif clip is not None:
            _check(clip)
            self._pair = clip[0], clip[1]

    def apply(self, controls: torch.Tensor) -> None:
        """Bound ``controls``, ``(num_envs, len(names))``, in place."""
        if self._pair is not None:
            controls.clamp_(*self._pair)

    def describe(self) -> list[Any] | None:
        """Return the lower and the upper bound, or a list of each, in finite numbers."""
        if self._pair is None:
            return None
        if not isinstance(self._pair[0], torch.Tensor):
            return list(self._pair)
        # JSON has no infinity, and a control beyond float32 is none.
        return [ends.clamp(-_LARGEST, _LARGEST).tolist() for ends in self._pair]


class Motors:
    """The motors by which an action gives its joints efforts, in N m or N."""

    def __init__(
        self, what: str, env: VectorEnv, joint_names: Sequence[str], actuators: torch.Tensor
    ) -> None:
        """Check them.

        Args:
            what: The action, for errors.
            env: The environment.
            joint_names: The joints.
            actuators: Their actuators, columns of ``ctrl``.

        Raises:
            ConfigurationError: If an actuator's control is not an effort.
        """
        model = env.sim.model
        ids = actuators.tolist()
        for name, i in zip(joint_names, ids, strict=True):
            if (
                int(model.actuator_gaintype[i]) != mujoco.mjtGain.mjGAIN_FIXED
                or int(model.actuator_biastype[i]) != mujoco.mjtBias.mjBIAS_NONE
                or int(model.actuator_dyntype[i]) != mujoco.mjtDyn.mjDYN_NONE
            ):
                raise ConfigurationError(
                    f"The joint {name!r} of {what} has no motor, but an actuator of another kind. "
                    "Write a <motor>, or give it an IdealPDActuatorCfg with stiffness 0 and "
                    "damping 0 in env.scene.actuators."
                )
        strength = [float(model.actuator_gainprm[i, 0] * model.actuator_gear[i, 0]) for i in ids]
        self._ids, self._ctrl = actuators, env.sim.ctrl
        self._strength = torch.tensor(strength, device=env.device)

    def write(self, efforts: torch.Tensor) -> None:
        """Write efforts, ``(num_envs, num_joints)``."""
        self._ctrl.index_copy_(1, self._ids, efforts / self._strength)


def _check(pair: Sequence[float]) -> None:
    if len(pair) != 2 or not pair[0] <= pair[1]:
        raise ConfigurationError(
            f"An action's clip is {list(pair)}, but must be [lower, upper], in this order."
        )
