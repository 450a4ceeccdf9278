"""Moving policies and data between simulators, which put a robot's joints in different orders.

Orders are computed from the tree of bodies in a MuJoCo model, by these rules, which name their
sources:

``envlab``
    Depth first, in the order of the file. This is MuJoCo's order, and so that of our actions and
    observations.
``isaaclab``
    Breadth first, as PhysX builds an articulation (isaac-sim/IsaacLab#37). Checked against lists
    printed from Isaac Lab's G1, and against ``joint_gears`` of its ``humanoid_env.py`` (2.3.2).
``isaacgym``
    Depth first (isaac-sim/IsaacLab#270).

Both Isaacs sort the bodies on the same parent by name if the robot was described by a URDF file
(Go2, H1, G1, Allegro, Franka), and keep the file's order if by MJCF (Ant, Humanoid).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeVar

import mujoco
import numpy as np
import torch

from envlab.envs.entities import SceneEntityCfg, resolve_entity
from envlab.errors import ConfigurationError, did_you_mean

Convention = Literal["envlab", "isaaclab", "isaacgym"]
Values = TypeVar("Values", torch.Tensor, np.ndarray)


def joint_names(
    model: mujoco.MjModel,
    convention: Convention,
    *,
    siblings: Literal["name", "file"] = "name",
    asset_cfg: SceneEntityCfg | None = None,
) -> list[str]:
    """Return a robot's hinges and slides in the order of a simulator.

    Args:
        model: A model with the robot, such as ``env.sim.model``.
        convention: The simulator.
        siblings: How the Isaacs order bodies on the same parent: by ``name`` for robots from URDF,
            as in the ``file`` for robots from MJCF.
        asset_cfg: Which joints; by default all of the scene's.

    Raises:
        ConfigurationError: For an unknown convention, or names that match nothing.
    """
    conventions = ("envlab", "isaaclab", "isaacgym")
    if convention not in conventions:
        raise ConfigurationError(
            f"There is no order of joints called {convention!r}; choose one of "
            f"{', '.join(conventions)}."
        )
    chosen = resolve_entity(asset_cfg or SceneEntityCfg(), model, torch.device("cpu")).joint_names
    if convention == "envlab":
        return chosen
    children: dict[int, list[int]] = {body: [] for body in range(model.nbody)}
    for body in range(1, model.nbody):
        children[int(model.body_parentid[body])].append(body)
    if siblings == "name":
        for bodies in children.values():
            bodies.sort(key=lambda body: model.body(body).name)
    ordered: list[str] = []
    waiting = deque([0])
    while waiting:
        body = waiting.popleft()
        start, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
        own = [model.joint(joint).name for joint in range(start, start + count)]
        if convention == "isaaclab":
            ordered += sorted(own)  # PhysX's joint of several axes has them as x, y, z
            waiting.extend(children[body])
        else:
            ordered += own
            waiting.extendleft(reversed(children[body]))
    return [name for name in ordered if name in chosen]


class JointOrder:
    """Converts values with one number a joint from one order of joints to another."""

    def __init__(self, source: Sequence[str], target: Sequence[str]) -> None:
        """Compare two lists of the same joints.

        Args:
            source: The joints in the order of the given values.
            target: The joints in the wanted order.

        Raises:
            ConfigurationError: For a joint that only one list has, or that a list has twice.
        """
        self.source, self.target = list(source), list(target)
        for name in (*source, *target):
            times = self.source.count(name), self.target.count(name)
            if 0 in times:
                has, lacks = ("source", "target") if times[0] else ("target", "source")
                names = self.source if has == "target" else self.target
                raise ConfigurationError(
                    f"The joint {name!r} is in the {has}'s order, but not in the {lacks}'s; both "
                    f"have to hold the same joints.{did_you_mean(name, names)}"
                )
            if times != (1, 1):
                raise ConfigurationError(
                    f"The joint {name!r} is in an order of joints {max(times)} times; name each "
                    "joint once."
                )
        self.indices = [self.source.index(name) for name in self.target]
        """Index in the source of each joint of the target."""

    def inverse(self) -> JointOrder:
        """Return the opposite conversion."""
        return JointOrder(self.target, self.source)

    def actions(self, values: Values) -> Values:
        """Return values with one column a joint, ``(..., num_joints)``, in the target's order.

        Raises:
            ConfigurationError: If there are not as many columns as joints.
        """
        self._check_width("actions", values.shape[-1], [0])
        if values.shape[-1] != len(self.indices):
            raise ConfigurationError(
                f"The actions have {values.shape[-1]} columns for {len(self.indices)} joints; "
                "give one column a joint, or permute them as observations, with their starts."
            )
        return values[..., self.indices]

    def observations(self, values: Values, starts: Sequence[int]) -> Values:
        """Return observations ``(..., num_obs)`` whose joints are in the target's order.

        Args:
            values: Observations, or any rows with blocks that have a column for each joint.
            starts: The first column of each block. Those of a manager-based environment's terms are
                in ``env.observation_manager.columns("policy")``.

        Raises:
            ConfigurationError: For a block that overlaps another, or goes beyond the last column.
        """
        return values[..., self._columns(values.shape[-1], starts)]

    def policy(self, state: Any, num_obs: int, starts: Sequence[int]) -> Any:
        """Return a policy's state whose observations and actions are in the target's order.

        First layers, normalisers, last layers and standard deviations are recognised by their
        sizes, in the state of any library, with critics on the same observations and with Adam's
        averages: ``torch.load(path, weights_only=True)["model"]`` of a checkpoint as well as an
        actor's ``state_dict()``.

        Args:
            state: Tensors in nested dicts, lists and tuples; anything else is left as it is.
            num_obs: Number of columns of an observation.
            starts: The first column of each block of joints in it.

        Raises:
            ConfigurationError: If a hidden layer is as wide as the observations or actions, so that
                sizes are ambiguous; or if nothing has those sizes.
        """
        columns = self._columns(num_obs, starts)
        if num_obs == len(self.indices):
            raise _ambiguous("Observations are as wide as the actions", num_obs)
        found: set[str] = set()
        permuted = self._permute(state, columns, found)
        missing = {"observations", "actions"} - found
        if missing:
            raise ConfigurationError(
                f"Nothing in the policy's state has the size of its {' or '.join(sorted(missing))} "
                f"({num_obs} observations, {len(self.indices)} actions); give the state of a "
                "policy for this robot, and its own num_obs."
            )
        return permuted

    def _permute(self, value: Any, columns: list[int], found: set[str]) -> Any:
        if isinstance(value, Mapping):
            return type(value)(  # type: ignore[call-arg]
                {key: self._permute(item, columns, found) for key, item in value.items()}
            )
        if isinstance(value, list | tuple):
            return type(value)(self._permute(item, columns, found) for item in value)
        if not isinstance(value, torch.Tensor) or not 1 <= value.dim() <= 2:
            return value
        num_obs, num_actions = len(columns), len(self.indices)
        rows, width = value.shape[0], value.shape[-1]
        if value.dim() == 2 and rows > 1 and (rows == num_obs or width == num_actions > 1):
            raise _ambiguous("A hidden layer is as wide as the observations or actions", width)
        if width == num_obs:
            found.add("observations")
            value = value[..., columns]
        if rows == num_actions:
            found.add("actions")
            value = value[self.indices]
        elif (rows, width) == (1, num_actions):  # such as a standard deviation
            value = value[:, self.indices]
        return value

    def _columns(self, width: int, starts: Sequence[int]) -> list[int]:
        self._check_width("observations", width, starts)
        columns = list(range(width))
        for start in starts:
            for offset, index in enumerate(self.indices):
                columns[start + offset] = start + index
        return columns

    def _check_width(self, what: str, width: int, starts: Sequence[int]) -> None:
        num_joints, end = len(self.indices), 0
        for start in sorted(starts):
            if start < end or start + num_joints > width:
                raise ConfigurationError(
                    f"A block of {num_joints} joints from column {start} does not fit the {width} "
                    f"columns of the {what}, or overlaps the block before it; give the first "
                    "column of each block."
                )
            end = start + num_joints


def _ambiguous(what: str, size: int) -> ConfigurationError:
    return ConfigurationError(
        f"{what} ({size}), so sizes in the policy's state do not show what to permute; "
        "permute its observations and actions instead."
    )
