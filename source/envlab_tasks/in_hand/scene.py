"""Scenes in which a hand holds a cube, composed of the hand, a room and the cube."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import mujoco

from envlab.envs import EntityCfg, InitialStateCfg, SceneCfg, ShapeCfg

SIGHT = (0.81, 0.586, 0.0, -0.372, 0.514, 0.773)
"""Axes of the camera."""
ALLEGRO_HOME = {"thumb_joint_0": 0.28}
"""The thumb of the Allegro hand as episodes start, in rad; Isaac Lab's ALLEGRO_HAND_CFG."""
FACES = (
    (0, 1, (0.85, 0.2, 0.15, 1.0)),
    (0, -1, (0.95, 0.6, 0.1, 1.0)),
    (1, 1, (0.15, 0.6, 0.25, 1.0)),
    (1, -1, (0.95, 0.85, 0.2, 1.0)),
    (2, 1, (0.15, 0.35, 0.85, 1.0)),
    (2, -1, (0.55, 0.25, 0.7, 1.0)),
)
"""Axis, side and colour of a cube's faces."""


def hand(
    name: str,
    joint_pos: dict[str, float] | None = None,
    spec_fn: Callable[[mujoco.MjSpec], None] | None = None,
) -> EntityCfg:
    """Return a hand, without a prefix, so that its names are those of its file."""
    return EntityCfg(
        model=f"envlab_assets:robots/{name}.xml",
        prefix="",
        init_state=InitialStateCfg(joint_pos=joint_pos or {}),
        spec_fn=spec_fn,
    )


def cube(
    half_m: float, pos: tuple[float, float, float], mass: float = 0.216, friction: float = 1.0
) -> EntityCfg:
    """Return a cube with coloured faces.

    The mass is the 0.216 kg that the USD file of Isaac Lab's DexCube authors, which outrank the
    tasks' densities (newton-physics/newton#2639), and which a scale does not change.

    Args:
        half_m: Half its edge, in m.
        pos: Where it begins, in m.
        mass: In kg.
        friction: Sliding friction.
    """
    return EntityCfg(
        shape=ShapeCfg(
            type="box",
            size=(half_m, half_m, half_m),
            mass=mass,
            friction=(friction, 0.005, 0.0001),
            rgba=(0.95, 0.95, 0.95, 1.0),
        ),
        init_state=InitialStateCfg(pos=pos),
        spec_fn=paint_faces,
    )


def paint_faces(spec: mujoco.MjSpec) -> None:
    """Give each face of a cube its colour."""
    (body,) = spec.worldbody.bodies
    half = float(body.geoms[0].size[0])
    for axis, side, rgba in FACES:
        size, pos = [0.8 * half] * 3, [0.0] * 3
        size[axis], pos[axis] = 0.001, side * (half - 0.0005)
        body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=size,
            pos=pos,
            rgba=rgba,
            group=1,
            mass=0.0,
            contype=0,
            conaffinity=0,
        )


def add_velocity_sensors(spec: mujoco.MjSpec, links: Sequence[str]) -> None:
    """Let links' velocities be read at their centres of mass, as Isaac Lab's ``body_vel_w``."""
    for link in links:
        for word, kind in (("lin", "LIN"), ("ang", "ANG")):
            spec.add_sensor(
                name=f"{link}_{word}_vel",
                type=getattr(mujoco.mjtSensor, f"mjSENS_FRAME{kind}VEL"),
                objtype=mujoco.mjtObj.mjOBJ_BODY,
                objname=link,
            )


def scene(
    name: str,
    hand: EntityCfg,
    cube: EntityCfg,
    look: Callable[[mujoco.MjSpec], None],
    num_envs: int = 8192,
) -> SceneCfg:
    """Return the scene of a hand and a cube, once the file ``name``; ``look`` adds a camera."""
    room = EntityCfg(model="envlab_assets:robots/hand_room.xml", spec_fn=look)
    return SceneCfg(
        num_envs=num_envs,
        entities={"robot": hand, "room": room, "object": cube},
        replaces=f"envlab_assets:robots/{name}.xml",
    )


def add_camera(spec: mujoco.MjSpec, pos: Sequence[float], fovy: float) -> None:
    """Add the camera ``front``."""
    spec.worldbody.add_camera(name="front", pos=pos, xyaxes=SIGHT, fovy=fovy)
