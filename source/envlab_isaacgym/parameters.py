"""Parameters and properties of ``isaacgym.gymapi``, with its documented defaults.

``WITHOUT_EFFECT`` lists settings of PhysX without a counterpart in MuJoCo.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

import numpy as np

from envlab_isaacgym.absent_records import FlexParams
from envlab_isaacgym.enums import (
    ContactCollection,
    MeshNormalMode,
    TendonType,
    UpAxis,
)
from envlab_isaacgym.values import Mat33, Record, Transform, Vec3

logger = logging.getLogger(f"envlab.{__name__}")

DOF_PROPERTIES = np.dtype(
    [
        ("hasLimits", "?"),
        ("lower", "f4"),
        ("upper", "f4"),
        ("driveMode", "i4"),
        ("velocity", "f4"),
        ("effort", "f4"),
        ("stiffness", "f4"),
        ("damping", "f4"),
        ("friction", "f4"),
        ("armature", "f4"),
    ]
)
"""Fields of ``get_asset_dof_properties`` for each degree of freedom."""

UNLIMITED = float(np.finfo(np.float32).max)
"""No limit: the largest float32."""


@dataclass(slots=True)
class PhysXParams(Record):
    """Settings of PhysX; of these, MuJoCo takes the number of threads."""

    solver_type: int = 1
    num_position_iterations: int = 4
    num_velocity_iterations: int = 1
    num_threads: int = 0
    num_subscenes: int = 0
    use_gpu: bool = False
    contact_offset: float = 0.02
    rest_offset: float = 0.001
    bounce_threshold_velocity: float = 0.2
    max_depenetration_velocity: float = 100.0
    friction_offset_threshold: float = 0.04
    friction_correlation_distance: float = 0.025
    default_buffer_size_multiplier: float = 2.0
    max_gpu_contact_pairs: int = 2**20
    contact_collection: ContactCollection = ContactCollection.CC_ALL_SUBSTEPS
    always_use_articulations: bool = False


@dataclass(slots=True)
class SimParams(Record):
    """Settings of a simulation: time step (s), physics steps in it, gravity (m/s^2)."""

    dt: float = 1.0 / 60.0
    substeps: int = 2
    up_axis: UpAxis = UpAxis.UP_AXIS_Y
    gravity: Vec3 = field(default_factory=lambda: Vec3(0.0, -9.8, 0.0))
    use_gpu_pipeline: bool = False
    num_client_threads: int = 0
    physx: PhysXParams = field(default_factory=PhysXParams)
    flex: FlexParams = field(default_factory=FlexParams)
    enable_actor_creation_warning: bool = True
    stress_visualization: bool = False
    stress_visualization_min: float = 0.0
    stress_visualization_max: float = 1e5


@dataclass(slots=True)
class VhacdParams(Record):
    """Settings of convex decomposition, which is not done: meshes become their hulls."""

    resolution: int = 100000
    concavity: float = 0.0025
    alpha: float = 0.04
    beta: float = 0.05
    min_volume_per_ch: float = 0.0001
    max_convex_hulls: int = 64
    max_num_vertices_per_ch: int = 64
    convex_hull_downsampling: int = 4
    plane_downsampling: int = 4
    convex_hull_approximation: bool = True
    project_hull_vertices: bool = True
    ocl_acceleration: bool = True
    mode: int = 0
    pca: int = 0


@dataclass(slots=True)
class AssetOptions(Record):
    """Settings for reading a file."""

    angular_damping: float = 0.5
    linear_damping: float = 0.0
    max_angular_velocity: float = 64.0
    max_linear_velocity: float = 1000.0
    armature: float = 0.0
    density: float = 1000.0
    default_dof_drive_mode: int = 0
    collapse_fixed_joints: bool = False
    fix_base_link: bool = False
    disable_gravity: bool = False
    enable_gyroscopic_forces: bool = True
    flip_visual_attachments: bool = False
    replace_cylinder_with_capsule: bool = False
    slices_per_cylinder: int = 20
    override_com: bool = False
    override_inertia: bool = False
    thickness: float = 0.02
    tendon_limit_stiffness: float = 1.0
    min_particle_mass: float = 1e-12
    mesh_normal_mode: MeshNormalMode = MeshNormalMode.FROM_ASSET
    use_mesh_materials: bool = False
    use_physx_armature: bool = True
    convex_decomposition_from_submeshes: bool = False
    vhacd_enabled: bool = False
    vhacd_params: VhacdParams = field(default_factory=VhacdParams)


@dataclass(slots=True)
class PlaneParams(Record):
    """The ground: all points with ``normal . point + distance = 0``."""

    normal: Vec3 = field(default_factory=lambda: Vec3(0.0, 1.0, 0.0))
    distance: float = 0.0
    static_friction: float = 1.0
    dynamic_friction: float = 1.0
    restitution: float = 0.0
    segmentation_id: int = 0


@dataclass(slots=True)
class HeightFieldParams(Record):
    """A grid of heights: its size, the sizes of a cell (m), and the place of its corner."""

    nbRows: int = 0
    nbColumns: int = 0
    row_scale: float = 1.0
    column_scale: float = 1.0
    vertical_scale: float = 1.0
    transform: Transform = field(default_factory=Transform)
    static_friction: float = 1.0
    dynamic_friction: float = 1.0
    restitution: float = 0.0
    segmentation_id: int = 0


HeightFieldProperties = HeightFieldParams
"""Its name in the first legged_gym and projects based on it."""


@dataclass(slots=True)
class TriangleMeshParams(Record):
    """A terrain of triangles, and the place of its origin."""

    nb_vertices: int = 0
    nb_triangles: int = 0
    transform: Transform = field(default_factory=Transform)
    static_friction: float = 1.0
    dynamic_friction: float = 1.0
    restitution: float = 0.0
    segmentation_id: int = 0


@dataclass(slots=True)
class RigidShapeProperties(Record):
    """Surface of a collision shape."""

    friction: float = 1.0
    rolling_friction: float = 0.0
    torsion_friction: float = 0.0
    restitution: float = 0.0
    compliance: float = 0.0
    thickness: float = 0.0
    contact_offset: float = 0.02
    rest_offset: float = 0.001
    filter: int = 0


@dataclass(slots=True)
class RigidBodyProperties(Record):
    """Mass (kg), centre of mass (m) and inertia (kg m^2) of a body, in its frame."""

    mass: float = 1.0
    invMass: float = 1.0
    com: Vec3 = field(default_factory=Vec3)
    inertia: Mat33 = field(default_factory=Mat33)
    invInertia: Mat33 = field(default_factory=Mat33)
    flags: int = 0


@dataclass(slots=True)
class ActuatorProperties(Record):
    """An actuator of an MJCF file; tasks read its gear as ``motor_effort``."""

    motor_effort: float = 0.0
    control_limited: bool = False
    lower_control_limit: float = 0.0
    upper_control_limit: float = 0.0
    force_limited: bool = False
    lower_force_limit: float = 0.0
    upper_force_limit: float = 0.0
    kp: float = 0.0
    kv: float = 0.0
    type: int = 0


@dataclass(slots=True)
class TendonProperties(Record):
    """A tendon."""

    stiffness: float = 0.0
    damping: float = 0.0
    limit_stiffness: float = 0.0
    is_fixed_limited: bool = False
    fixed_lower_limit: float = 0.0
    fixed_upper_limit: float = 0.0
    fixed_spring_rest_length: float = 0.0
    num_attachments: int = 0
    num_joints: int = 0
    type: TendonType = TendonType.TENDON_FIXED


@dataclass(slots=True)
class ForceSensorProperties(Record):
    """The forces that a sensor adds up, and their frame."""

    enable_constraint_solver_forces: bool = True
    enable_forward_dynamics_forces: bool = True
    use_world_frame: bool = False


@dataclass(slots=True)
class AttractorProperties(Record):
    """A spring between a body and a target."""

    stiffness: float = 0.0
    damping: float = 0.0
    axes: int = 0
    offset: Transform = field(default_factory=Transform)
    target: Transform = field(default_factory=Transform)
    rigid_handle: int = -1


@dataclass(slots=True)
class CameraProperties(Record):
    """A camera: its size in pixels, its field of view in degrees, its range in m."""

    width: int = 1600
    height: int = 900
    horizontal_fov: float = 90.0
    near_plane: float = 0.01
    far_plane: float = 2_000_000.0
    supersampling_horizontal: int = 1
    supersampling_vertical: int = 1
    enable_tensors: bool = False
    use_collision_geometry: bool = False


@dataclass(slots=True)
class IndexRange(Record):
    """``count`` indices from ``start`` on."""

    start: int = 0
    count: int = 0


@dataclass(slots=True)
class Version(Record):
    """The release of Isaac Gym that the interface follows, Preview 4."""

    major: int = 1
    minor: int = 0


@dataclass(slots=True)
class ActionEvent(Record):
    """A key or button that was subscribed to."""

    action: str = ""
    value: float = 0.0


WITHOUT_EFFECT = {
    PhysXParams: (
        *("solver_type", "num_position_iterations", "num_velocity_iterations", "num_subscenes"),
        *("contact_offset", "rest_offset", "bounce_threshold_velocity"),
        *("max_depenetration_velocity", "friction_offset_threshold"),
        *("friction_correlation_distance", "default_buffer_size_multiplier"),
        *("max_gpu_contact_pairs", "contact_collection", "always_use_articulations"),
    ),
    AssetOptions: (
        *("angular_damping", "linear_damping", "max_angular_velocity", "max_linear_velocity"),
        *("enable_gyroscopic_forces", "override_com", "override_inertia", "thickness"),
        *("tendon_limit_stiffness", "convex_decomposition_from_submeshes", "vhacd_enabled"),
    ),
    PlaneParams: ("static_friction", "restitution"),
    HeightFieldParams: ("static_friction", "restitution"),
    TriangleMeshParams: ("static_friction", "restitution"),
    AttractorProperties: ("stiffness", "damping"),
    TendonProperties: (
        *("limit_stiffness", "is_fixed_limited", "fixed_lower_limit", "fixed_upper_limit"),
        "fixed_spring_rest_length",
    ),
    RigidShapeProperties: (
        *("rolling_friction", "torsion_friction", "restitution", "compliance", "thickness"),
        *("contact_offset", "rest_offset"),
    ),
}
"""Names of settings that are read but not used, by class."""

_logged: set[str] = set()


def tell_ignored(parameters: Record) -> None:
    """Name settings without effect in the log, once each."""
    kind = type(parameters).__name__
    names = {f"{kind}.{name}" for name in without_effect(parameters)} - _logged
    if names:
        _logged.update(names)
        logger.warning("Without effect in MuJoCo: %s.", ", ".join(sorted(names)))


def without_effect(parameters: Record) -> list[str]:
    """Return the names of set settings without effect; 0 does not count as set."""
    kind = type(parameters)
    usual = kind()
    return [
        name
        for name in WITHOUT_EFFECT.get(kind, ())
        if getattr(parameters, name) not in (getattr(usual, name), 0)
    ]
