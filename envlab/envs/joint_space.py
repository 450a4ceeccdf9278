"""Inertia and weight of a robot's joints, from what MuJoCo computes on the way to its own.

With the composite inertia of a joint's body and all below it, ``crb``, and the joint's axis as a
motion about the same point, ``cdof``, an entry of the mass matrix is ``cdof_j . (crb_i cdof_i)``
for a joint ``j`` above ``i`` (Featherstone: "Rigid Body Dynamics Algorithms", 2008, 6.2). Unlike
the matrix itself, both fields have one layout on all backends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import mujoco
import torch

from envlab.errors import ConfigurationError

if TYPE_CHECKING:
    from envlab.envs.vector_env import VectorEnv

JOINT_SPACE_FIELDS = ("cdof", "crb")
"""Data fields that :class:`JointSpace` reads."""
_INERTIA = torch.tensor([[0, 3, 4], [3, 1, 5], [4, 5, 2]])
"""Where ``crb`` has the 3 x 3 inertia."""


class JointSpace:
    """The mass matrix and the gravity of some hinges and slides."""

    def __init__(self, env: VectorEnv, joint_names: Sequence[str]) -> None:
        model, device = env.sim.model, env.device
        joints = [model.joint(name).id for name in joint_names]
        bodies = [int(model.jnt_bodyid[joint]) for joint in joints]
        above = [[_is_above(model, i, j) for j in joints] for i in joints]
        self._sim = env.sim
        self._bodies = torch.tensor(bodies, device=device)
        self._dofs = torch.tensor([int(model.jnt_dofadr[i]) for i in joints], device=device)
        self._above = torch.tensor(above, device=device)
        self._inertia = _INERTIA.to(device)
        self._armature = env.nominal_rows("dof_armature")[:, self._dofs]
        self._gravity = env.nominal("opt.gravity").unsqueeze(0)

    def mass_matrix(self) -> torch.Tensor:
        """Return it with the armature of the joints, ``(num_envs, num_joints, num_joints)``."""
        axes, inertia, moment, mass = self._parts()
        turning, moving = axes[..., :3], axes[..., 3:]
        angular = (inertia @ turning.unsqueeze(-1)).squeeze(-1)
        angular = angular + torch.linalg.cross(moment, moving)
        linear = mass * moving - torch.linalg.cross(moment, turning)
        products = torch.cat((angular, linear), dim=-1) @ axes.mT
        zero = products.new_zeros(())
        entries = torch.where(self._above.T, products, torch.where(self._above, products.mT, zero))
        return entries + torch.diag_embed(self._value("dof_armature", self._armature))

    def gravity(self) -> torch.Tensor:
        """Return the efforts that hold the joints against gravity, ``(num_envs, num_joints)``."""
        axes, _, moment, mass = self._parts()
        gravity = self._sim.params["opt.gravity"] if self._varies("opt.gravity") else self._gravity
        force = mass * gravity.unsqueeze(1)
        torque = torch.linalg.cross(moment, gravity.unsqueeze(1).expand_as(moment))
        return -(axes * torch.cat((torque, force), dim=-1)).sum(dim=-1)

    def _parts(self) -> tuple[torch.Tensor, ...]:
        """Return axes ``(num_envs, num_joints, 6)``, and inertia, mass moment and mass below."""
        data = self._sim.data
        below = data.crb[:, self._bodies]
        axes = data.cdof[:, self._dofs]
        return axes, below[..., self._inertia], below[..., 6:9], below[..., 9:]

    def _value(self, field: str, nominal: torch.Tensor) -> torch.Tensor:
        return self._sim.params[field][:, self._dofs] if self._varies(field) else nominal

    def _varies(self, field: str) -> bool:
        return field in self._sim.params


def refuse_compensated(what: str, env: VectorEnv, joint_names: Sequence[str]) -> None:
    """Refuse to hold joints against a gravity that their bodies do not feel.

    Args:
        what: What would hold them, for the error.
        env: The environment.
        joint_names: The joints.

    Raises:
        ConfigurationError: If MuJoCo compensates the gravity of a body below one of them.
    """
    model = env.sim.model
    moved = {int(model.jnt_bodyid[model.joint(name).id]) for name in joint_names}
    for body in range(1, model.nbody):
        chain, one = {body}, body
        while one:
            one = int(model.body_parentid[one])
            chain.add(one)
        if chain & moved and model.body_gravcomp[body]:
            raise ConfigurationError(
                f"{what} has gravity_compensation=true, but the body {model.body(body).name!r} has "
                f"gravcomp={model.body_gravcomp[body]:g} already. Set gravity_compensation to "
                "false, or take the body out of disable_gravity or the MJCF's gravcomp."
            )


def _is_above(model: mujoco.MjModel, upper: int, lower: int) -> bool:
    """Return whether a joint moves what another one moves; it does so itself."""
    body = int(model.jnt_bodyid[lower])
    if body == int(model.jnt_bodyid[upper]):
        return upper <= lower
    while body:
        body = int(model.body_parentid[body])
        if body == int(model.jnt_bodyid[upper]):
            return True
    return False
