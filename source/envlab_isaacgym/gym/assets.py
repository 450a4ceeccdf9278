"""Methods on assets: counts, names, indices and properties."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np

from envlab_isaacgym.assets import Asset
from envlab_isaacgym.enums import INVALID_HANDLE, DofType, JointType
from envlab_isaacgym.parameters import (
    ActuatorProperties,
    IndexRange,
    RigidShapeProperties,
    TendonProperties,
    tell_ignored,
)


def find(names: Sequence[str], name: str) -> int:
    """Return a name's index, or INVALID_HANDLE."""
    return names.index(name) if name in names else INVALID_HANDLE


def numbered(names: Sequence[str]) -> dict[str, int]:
    """Return each name's index."""
    return {name: index for index, name in enumerate(names)}


def shape_indices(asset: Asset) -> list[IndexRange]:
    """Return the range of each body's shapes."""
    return [IndexRange(*asset.shape_range(body)) for body in range(len(asset.body_names))]


class Assets:
    """See :class:`envlab_isaacgym.gymapi.Gym`."""

    def get_asset_rigid_body_count(self, asset: Asset, /) -> int:
        return len(asset.body_names)

    def get_asset_rigid_body_name(self, asset: Asset, index: int, /) -> str:
        return asset.body_names[index]

    def get_asset_rigid_body_names(self, asset: Asset, /) -> list[str]:
        return list(asset.body_names)

    def get_asset_rigid_body_dict(self, asset: Asset, /) -> dict[str, int]:
        return numbered(asset.body_names)

    def find_asset_rigid_body_index(self, asset: Asset, name: str, /) -> int:
        return find(asset.body_names, name)

    def get_asset_rigid_shape_count(self, asset: Asset, /) -> int:
        return len(asset.shapes)

    def get_asset_rigid_shape_properties(self, asset: Asset, /) -> list[RigidShapeProperties]:
        return copy.deepcopy(asset.shapes)

    def set_asset_rigid_shape_properties(
        self, asset: Asset, props: list[RigidShapeProperties], /
    ) -> bool:
        """Set the properties of actors made from now on."""
        asset.shapes = copy.deepcopy(props)
        return True

    def get_asset_rigid_body_shape_indices(self, asset: Asset, /) -> list[IndexRange]:
        return shape_indices(asset)

    def get_asset_dof_count(self, asset: Asset, /) -> int:
        return len(asset.dof_names)

    def get_asset_dof_name(self, asset: Asset, index: int, /) -> str:
        return asset.dof_names[index]

    def get_asset_dof_names(self, asset: Asset, /) -> list[str]:
        return list(asset.dof_names)

    def get_asset_dof_dict(self, asset: Asset, /) -> dict[str, int]:
        return numbered(asset.dof_names)

    def find_asset_dof_index(self, asset: Asset, name: str, /) -> int:
        return find(asset.dof_names, name)

    def get_asset_dof_properties(self, asset: Asset, /) -> np.ndarray:
        """Return an array of :data:`envlab_isaacgym.parameters.DOF_PROPERTIES`."""
        return asset.dof_properties.copy()

    def get_asset_dof_type(self, asset: Asset, index: int, /) -> DofType:
        return asset.dof_type(index)

    def get_asset_joint_count(self, asset: Asset, /) -> int:
        return len(asset.joint_names)

    def get_asset_joint_name(self, asset: Asset, index: int, /) -> str:
        return asset.joint_names[index]

    def get_asset_joint_names(self, asset: Asset, /) -> list[str]:
        return list(asset.joint_names)

    def get_asset_joint_dict(self, asset: Asset, /) -> dict[str, int]:
        return numbered(asset.joint_names)

    def get_asset_joint_type(self, asset: Asset, index: int, /) -> JointType:
        return asset.joint_type(index)

    def find_asset_joint_index(self, asset: Asset, name: str, /) -> int:
        return find(asset.joint_names, name)

    def get_asset_actuator_count(self, asset: Asset, /) -> int:
        return len(asset.actuators)

    def get_asset_actuator_name(self, asset: Asset, index: int, /) -> str:
        return asset.actuators[index].name

    def get_asset_actuator_joint_name(self, asset: Asset, index: int, /) -> str:
        return asset.actuators[index].joint

    def get_asset_actuator_properties(self, asset: Asset, /) -> list[ActuatorProperties]:
        return [copy.copy(actuator.properties) for actuator in asset.actuators]

    def find_asset_actuator_index(self, asset: Asset, name: str, /) -> int:
        return find([actuator.name for actuator in asset.actuators], name)

    def get_asset_soft_body_count(self, asset: Asset, /) -> int:
        return 0

    def get_dof_type_string(self, kind: DofType, /) -> str:
        return DofType(kind).name.removeprefix("DOF_").capitalize()

    def get_joint_type_string(self, kind: JointType, /) -> str:
        return JointType(kind).name.removeprefix("JOINT_").capitalize()

    def get_asset_tendon_count(self, asset: Asset, /) -> int:
        return int(asset.model.ntendon)

    def get_asset_tendon_name(self, asset: Asset, index: int, /) -> str:
        return str(asset.model.tendon(index).name)

    def find_asset_tendon_index(self, asset: Asset, name: str, /) -> int:
        model = asset.model
        return find([model.tendon(index).name for index in range(model.ntendon)], name)

    def get_asset_tendon_properties(self, asset: Asset, /) -> list[TendonProperties]:
        """Return stiffness and damping of each tendon, from the file."""
        return asset.tendon_properties()

    def set_asset_tendon_properties(
        self, asset: Asset, properties: list[TendonProperties], /
    ) -> bool:
        """Set stiffness and damping; MuJoCo's limits have no separate stiffness."""
        for tendon, new in zip(asset.spec.tendons, properties, strict=True):
            tell_ignored(new)
            for name in ("stiffness", "damping"):
                values = np.array(getattr(tendon, name), dtype=float)
                values.flat[0] = getattr(new, name)
                setattr(tendon, name, values if values.ndim else float(values))
        return True
