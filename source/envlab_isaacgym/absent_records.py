"""Classes of ``isaacgym.gymapi`` without effect here, or that nothing creates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from envlab_isaacgym.enums import SoftMaterialType, UsdMaterialMode
from envlab_isaacgym.values import Record, Vec2, Vec3


@dataclass(slots=True)
class SpatialForce(Record):
    """Force (N) and torque (N m)."""

    force: Vec3 = field(default_factory=Vec3)
    torque: Vec3 = field(default_factory=Vec3)


@dataclass(slots=True)
class PerformanceTimers(Record):
    """Seconds spent in a frame."""

    frame_idling: float = 0.0
    graphics_image_retrieval: float = 0.0
    graphics_sensor_rendering: float = 0.0
    graphics_viewer_rendering: float = 0.0
    physics_data_movement: float = 0.0
    physics_sim: float = 0.0
    total_time: float = 0.0


@dataclass(slots=True)
class RigidContact(Record):
    """A contact between two bodies."""

    env0: int = -1
    env1: int = -1
    body0: int = -1
    body1: int = -1
    local_pos0: Vec3 = field(default_factory=Vec3)
    local_pos1: Vec3 = field(default_factory=Vec3)
    offset0: Vec3 = field(default_factory=Vec3)
    offset1: Vec3 = field(default_factory=Vec3)
    normal: Vec3 = field(default_factory=Vec3)
    lambda_: float = 0.0
    lambda_friction: Vec2 = field(default_factory=Vec2)
    friction: float = 0.0
    torsion_friction: float = 0.0
    rolling_friction: float = 0.0
    initial_overlap: float = 0.0
    min_dist: float = 0.0


@dataclass(slots=True)
class SoftContact(Record):
    """A contact of a soft body."""

    env0: int = -1
    env1: int = -1
    bodyIndex: int = -1
    lambda_: float = 0.0
    normal: Vec3 = field(default_factory=Vec3)
    particleBarys: Vec3 = field(default_factory=Vec3)
    particleIndices: Any = None


@dataclass(slots=True)
class SoftMaterial(Record):
    """Material of a soft body."""

    model: SoftMaterialType = SoftMaterialType.MAT_COROTATIONAL
    youngs: float = 0.0
    poissons: float = 0.0
    damping: float = 0.0
    activation: float = 0.0
    activationMax: float = 0.0


@dataclass(slots=True)
class OmniConnectionParams(Record):
    """A connection to Omniverse, which is not supported."""

    server: str = ""
    username: str = ""
    password: str = ""
    enable_cache: bool = False
    enable_debug_output: bool = False


@dataclass(slots=True)
class UsdExportOptions(Record):
    """Settings of USD export, which is not supported."""

    export_physics: bool = True
    material_mode: UsdMaterialMode = UsdMaterialMode.USD_MATERIAL_PREVIEW_SURFACE
    scale: float = 1.0
    single_file: bool = False
    use_geom_subsets: bool = False
    use_physics_visuals: bool = False


@dataclass(slots=True)
class FlexParams(Record):
    """Settings of Flex; none has an effect."""

    solver_type: int = 5
    num_outer_iterations: int = 4
    num_inner_iterations: int = 20
    relaxation: float = 0.75
    warm_start: float = 0.4
    geometric_stiffness: float = 1.0
    contact_regularization: float = 1e-6
    deterministic_mode: bool = False
    dynamic_friction: float = 0.5
    static_friction: float = 0.5
    particle_friction: float = 0.0
    friction_mode: int = 2
    max_rigid_contacts: int = 0
    max_soft_contacts: int = 0
    return_contacts: bool = False
    shape_collision_distance: float = 0.0
    shape_collision_margin: float = 0.01
