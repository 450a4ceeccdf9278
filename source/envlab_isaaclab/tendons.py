"""Fixed tendons of a robot, part of PhysX's view of an articulation.

MuJoCo's have stiffness, damping, limits and a rest length. PhysX's stiffness of the limits and its
offset of the length are noted, and have no effect.
"""

from __future__ import annotations

import mujoco
import torch

from envlab_isaaclab.world import World

ROOT = "PhysxTendonAxisRootAPI"
"""What USD calls the joint that a fixed tendon bears its name from."""


class FixedTendons:
    """Properties of the fixed tendons of one robot in all environments.

    Attributes:
        max_fixed_tendons: Their number.
        max_spatial_tendons: 0.
    """

    max_spatial_tendons = 0

    def __init__(self, world: World, path: str, joints: list[str]) -> None:
        """Find the tendons in the order of the joints, the first of each, that name them.

        Args:
            world: The running world.
            path: The robot's.
            joints: Its joints, in PhysX's order.
        """
        self._tendon_world, model = world, world.model
        first = {}
        for tendon in range(model.ntendon):
            wrap = model.tendon_adr[tendon]
            if model.wrap_type[wrap] == mujoco.mjtWrap.mjWRAP_JOINT:
                first[model.joint(model.wrap_objid[wrap]).name] = tendon
        named = [joint for joint in joints if f"{path}/{joint}" in first]
        self._tendons = torch.tensor(
            [first[f"{path}/{joint}"] for joint in named], dtype=torch.int64, device=world.device
        )
        self.max_fixed_tendons = len(named)
        for joint in named:
            world.stage.define(f"{path}/joints/{joint}").apis.add(ROOT)
        self._noted = {
            name: torch.zeros(world.num_envs, len(named)) for name in ("limit_stiffness", "offset")
        }

    def get_fixed_tendon_stiffnesses(self) -> torch.Tensor:
        """Return springs in N/m, ``(num_envs, num_tendons)``."""
        return self._of_tendons("tendon_stiffness")

    def get_fixed_tendon_dampings(self) -> torch.Tensor:
        """Return dampers in N s/m."""
        return self._of_tendons("tendon_damping")

    def get_fixed_tendon_limits(self) -> torch.Tensor:
        """Return the smallest and largest length in m, ``(num_envs, num_tendons, 2)``."""
        return self._of_tendons("tendon_range")

    def get_fixed_tendon_rest_lengths(self) -> torch.Tensor:
        """Return lengths at which the springs do not pull, in m."""
        return self._of_tendons("tendon_lengthspring")[..., 0]

    def get_fixed_tendon_limit_stiffnesses(self) -> torch.Tensor:
        """Return what was set, which has no effect."""
        return self._noted["limit_stiffness"].clone()

    def get_fixed_tendon_offsets(self) -> torch.Tensor:
        """Return what was set, which has no effect."""
        return self._noted["offset"].clone()

    def set_fixed_tendon_properties(
        self,
        stiffness: torch.Tensor,
        damping: torch.Tensor,
        limit_stiffness: torch.Tensor,
        limits: torch.Tensor,
        rest_lengths: torch.Tensor,
        offsets: torch.Tensor,
        indices: torch.Tensor,
    ) -> None:
        """Change the properties in some environments; all tensors are of all environments."""
        envs, world = indices.long(), self._tendon_world
        self._noted["limit_stiffness"][envs.cpu()] = limit_stiffness.cpu()[envs.cpu()]
        self._noted["offset"][envs.cpu()] = offsets.cpu()[envs.cpu()]
        both = rest_lengths[..., None].expand(*rest_lengths.shape, 2)
        for name, values in (
            ("tendon_stiffness", stiffness),
            ("tendon_damping", damping),
            ("tendon_range", limits),
            ("tendon_lengthspring", both),
        ):
            values = values.to(world.device)[envs.to(world.device)]
            world.write_field(name, envs, self._tendons, values)

    def get_spatial_tendon_stiffnesses(self) -> torch.Tensor:
        """Return nothing, ``(num_envs, 0)``."""
        return torch.zeros(self._tendon_world.num_envs, 0)

    get_spatial_tendon_dampings = get_spatial_tendon_stiffnesses
    get_spatial_tendon_limit_stiffnesses = get_spatial_tendon_stiffnesses
    get_spatial_tendon_offsets = get_spatial_tendon_stiffnesses

    def _of_tendons(self, name: str) -> torch.Tensor:
        return self._tendon_world.read_field(name)[:, self._tendons].cpu().clone()
