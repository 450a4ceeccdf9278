"""Enumerations and constants of ``isaacgym.gymapi``.

Values that tasks write as numbers (drive modes, up axis, contact collection, index domains) are
those that public task code relies on; other members count from 0.
"""

from __future__ import annotations

import enum


class SimType(enum.IntEnum):
    """Physics engines; both run on MuJoCo here, and Flex's soft bodies do not exist."""

    SIM_PHYSX = 0
    SIM_FLEX = 1


class UpAxis(enum.IntEnum):
    """The axis that points up."""

    UP_AXIS_Y = 0
    UP_AXIS_Z = 1


class DofDriveMode(enum.IntEnum):
    """Drive modes of a degree of freedom."""

    DOF_MODE_NONE = 0
    DOF_MODE_POS = 1
    DOF_MODE_VEL = 2
    DOF_MODE_EFFORT = 3


class DofType(enum.IntEnum):
    """Types of degrees of freedom."""

    DOF_INVALID = 0
    DOF_ROTATION = 1
    DOF_TRANSLATION = 2


class JointType(enum.IntEnum):
    """Kinds of joints."""

    JOINT_INVALID = -1
    JOINT_FIXED = 0
    JOINT_REVOLUTE = 1
    JOINT_PRISMATIC = 2
    JOINT_BALL = 3
    JOINT_PLANAR = 4
    JOINT_FLOATING = 5


class IndexDomain(enum.IntEnum):
    """Domains of an index."""

    DOMAIN_ACTOR = 0
    DOMAIN_ENV = 1
    DOMAIN_SIM = 2


class CoordinateSpace(enum.IntEnum):
    """Frames that forces are given in."""

    ENV_SPACE = 0
    LOCAL_SPACE = 1
    GLOBAL_SPACE = 2


class MeshType(enum.IntEnum):
    """Choice of a body's meshes."""

    MESH_NONE = 0
    MESH_COLLISION = 1
    MESH_VISUAL = 2
    MESH_VISUAL_AND_COLLISION = 3


class MeshNormalMode(enum.IntEnum):
    """Sources of meshes' normals."""

    FROM_ASSET = 0
    COMPUTE_PER_VERTEX = 1
    COMPUTE_PER_FACE = 2


class ContactCollection(enum.IntEnum):
    """Substeps whose contacts are collected; here always the last one."""

    CC_NEVER = 0
    CC_LAST_SUBSTEP = 1
    CC_ALL_SUBSTEPS = 2


class ImageType(enum.IntEnum):
    """Kinds of a camera's images."""

    IMAGE_COLOR = 0
    IMAGE_DEPTH = 1
    IMAGE_SEGMENTATION = 2
    IMAGE_OPTICAL_FLOW = 3


class CameraFollowMode(enum.IntEnum):
    """Ways in which a camera follows its body."""

    FOLLOW_POSITION = 0
    FOLLOW_TRANSFORM = 1


class TendonType(enum.IntEnum):
    """Kinds of tendons."""

    TENDON_FIXED = 0
    TENDON_SPATIAL = 1


class SoftMaterialType(enum.IntEnum):
    """Material models of soft bodies."""

    MAT_COROTATIONAL = 0
    MAT_NEOHOOKEAN = 1


class TensorDataType(enum.IntEnum):
    """Element types of tensors."""

    DTYPE_FLOAT32 = 0
    DTYPE_UINT32 = 1
    DTYPE_UINT64 = 2
    DTYPE_UINT8 = 3
    DTYPE_INT16 = 4


class UsdMaterialMode(enum.IntEnum):
    """How materials are written to USD."""

    USD_MATERIAL_DISPLAY_COLOR = 0
    USD_MATERIAL_PREVIEW_SURFACE = 1
    USD_MATERIAL_MDL = 2


_KEYS = (
    "SPACE APOSTROPHE COMMA MINUS PERIOD SLASH 0 1 2 3 4 5 6 7 8 9 SEMICOLON EQUAL "
    "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z LEFT_BRACKET BACKSLASH RIGHT_BRACKET "
    "GRAVE_ACCENT ESCAPE TAB ENTER BACKSPACE INSERT DEL RIGHT LEFT DOWN UP PAGE_UP PAGE_DOWN HOME "
    "END CAPS_LOCK SCROLL_LOCK NUM_LOCK PRINT_SCREEN PAUSE F1 F2 F3 F4 F5 F6 F7 F8 F9 F10 F11 F12 "
    "NUMPAD_0 NUMPAD_1 NUMPAD_2 NUMPAD_3 NUMPAD_4 NUMPAD_5 NUMPAD_6 NUMPAD_7 NUMPAD_8 NUMPAD_9 "
    "NUMPAD_DEL NUMPAD_DIVIDE NUMPAD_MULTIPLY NUMPAD_SUBTRACT NUMPAD_ADD NUMPAD_ENTER NUMPAD_EQUAL "
    "LEFT_SHIFT LEFT_CONTROL LEFT_ALT LEFT_SUPER RIGHT_SHIFT RIGHT_CONTROL RIGHT_ALT RIGHT_SUPER "
    "MENU"
)
KeyboardInput = enum.IntEnum(  # type: ignore[misc]
    "KeyboardInput", {f"KEY_{name}": number for number, name in enumerate(_KEYS.split())}
)
_BUTTONS = (
    "LEFT_BUTTON RIGHT_BUTTON MIDDLE_BUTTON FORWARD_BUTTON BACK_BUTTON SCROLL_RIGHT SCROLL_LEFT "
    "SCROLL_UP SCROLL_DOWN MOVE_RIGHT MOVE_LEFT MOVE_UP MOVE_DOWN"
)
MouseInput = enum.IntEnum(  # type: ignore[misc]
    "MouseInput", {f"MOUSE_{name}": number for number, name in enumerate(_BUTTONS.split())}
)

AXIS_NONE, AXIS_X, AXIS_Y, AXIS_Z, AXIS_TRANSLATION = 0, 1, 2, 4, 7
AXIS_TWIST, AXIS_SWING_1, AXIS_SWING_2, AXIS_ROTATION, AXIS_ALL = 8, 16, 32, 56, 63
STATE_NONE, STATE_POS, STATE_VEL, STATE_ALL = 0, 1, 2, 3
RIGID_BODY_NONE, RIGID_BODY_DISABLE_GRAVITY, RIGID_BODY_DISABLE_SIMULATION = 0, 1, 2
RIGID_BODY_ENABLE_GYROSCOPIC_FORCES = 4
INVALID_HANDLE = -1
DEFAULT_VIEWER_WIDTH, DEFAULT_VIEWER_HEIGHT = 1600, 900

ENUMERATIONS: tuple[type[enum.IntEnum], ...] = (
    *(SimType, UpAxis, DofDriveMode, DofType, JointType, IndexDomain, CoordinateSpace, MeshType),
    *(MeshNormalMode, ContactCollection, ImageType, CameraFollowMode, TendonType),
    *(SoftMaterialType, TensorDataType, UsdMaterialMode, KeyboardInput, MouseInput),
)
"""``gymapi`` also offers each member under its bare name."""
