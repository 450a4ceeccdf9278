"""Skins: the visual meshes of another MJCF file, drawn in place of a robot's own shapes.

A skin changes pictures alone: the physics has its own model, without the skin.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from envlab.envs.model_files import find_model, read_spec
from envlab.errors import ConfigurationError, SimulationError, did_you_mean
from envlab.sim.simulation import Simulation, model_field

logger = logging.getLogger(__name__)

OPTION = "env.scene.skin"
MENAGERIE = {
    **{"g1_29": "unitree_g1", "go2": "unitree_go2", "h1": "unitree_h1"},
    **dict.fromkeys(("go1", "go1_mjlab", "go1_playground"), "unitree_go1"),
}
"""MuJoCo Menagerie's robots, by the names of our models."""
FAR_M = 0.01
"""Distance of a body's place in the skin from that in the robot, from which it is reported."""
_NAME = "envlab_skin"
_HIDDEN, _MOST_SEEN = 5, 2
"""Groups of geoms: a hidden one, and the last that is drawn."""
_MATERIAL = ("rgba", "emission", "specular", "shininess", "reflectance", "metallic", "roughness")
_MESH = ("scale", "refpos", "refquat", "smoothnormal", "inertia", "maxhullvert")
_TEXTURE = ("type", "builtin", "rgb1", "rgb2", "width", "height", "gridsize", "gridlayout")


@dataclass(frozen=True, kw_only=True)
class Look:
    """A model for pictures: that of the physics, with a skin."""

    model: mujoco.MjModel
    geoms: np.ndarray
    """Its geoms that are those of the physics, in their order."""
    data: mujoco.MjData

    def write_params(self, model: mujoco.MjModel, sim: Simulation, index: int) -> None:
        """Write an environment's randomised fields to a copy of :attr:`model`."""
        for name, tensor in sim.params.items():
            values = tensor[index].cpu().numpy()
            field = model_field(model, name)
            if np.shape(field) == values.shape:
                field[...] = values
            else:
                field[self.geoms if name.startswith("geom_") else slice(len(values))] = values

    def state_of(self, sim: Simulation, index: int) -> mujoco.MjData:
        """Return where an environment's bodies, cameras and lights are."""
        now = sim.data_of(index)
        for name in ("qpos", "qvel", "mocap_pos", "mocap_quat"):
            getattr(self.data, name)[:] = getattr(now, name)
        for place in (mujoco.mj_kinematics, mujoco.mj_comPos, mujoco.mj_tendon, mujoco.mj_camlight):
            place(self.model, self.data)
        return self.data


def wear(spec: mujoco.MjSpec, source: str) -> Look:
    """Return the look of a scene with a skin.

    Args:
        spec: The scene, as it was compiled; it stays as it is.
        source: MJCF, as in ``env.scene.model``; ``menagerie``: the Menagerie's robot of this name.

    Raises:
        ConfigurationError: If its bodies are not those of the scene.
        SimulationError: If a file is missing, or cannot be read.
    """
    worn = spec.copy()
    path = find_model(_source(spec, source), OPTION)
    skin = read_spec(path)
    _Tailor(worn, skin, path).dress()
    model = worn.compile()
    names = [model.geom(index).name for index in range(model.ngeom)]
    own = [index for index, name in enumerate(names) if not name.startswith(_NAME)]
    logger.info("Robots look like %s in pictures; the physics is as it was.", source)
    return Look(model=model, geoms=np.array(own), data=mujoco.MjData(model))


def _source(spec: mujoco.MjSpec, source: str) -> str:
    if source != "menagerie":
        return source
    names = [spec.modelname, *(body.name.split("/")[0] for body in spec.bodies)]
    robot = next((MENAGERIE[name] for name in names if name in MENAGERIE), None)
    if robot is None:
        raise ConfigurationError(
            f"{OPTION} is 'menagerie', but no robot of it is known for the model "
            f"{spec.modelname!r}, only for {', '.join(MENAGERIE)}. Name it, as in "
            "menagerie:unitree_go2."
        )
    return f"menagerie:{robot}"


class _Tailor:
    """Copies what is seen of a skin to the bodies of a scene."""

    def __init__(self, worn: mujoco.MjSpec, skin: mujoco.MjSpec, path: Path) -> None:
        self._worn, self._skin, self._path = worn, skin, path
        self._bodies = {body.name.rpartition("/")[2]: body for body in worn.bodies}
        self._num_geoms = 0
        self._sources: dict[str, Path] = {}

    def dress(self) -> None:
        try:
            model = self._skin.compile()
        except ValueError as error:
            raise SimulationError(
                f"{OPTION} is {str(self._path)!r}, which cannot be drawn: {error}. Give a skin "
                "with all its meshes."
            ) from None
        data = mujoco.MjData(model)
        mujoco.mj_kinematics(model, data)
        seen = [geom for geom in self._skin.geoms if _is_seen(geom)]
        if not seen:
            raise ConfigurationError(
                f"{OPTION} is {str(self._path)!r}, which has no visual geoms, that is, such as "
                "collide with nothing. Give another file."
            )
        places = self._wearers(model, seen)
        self._tell_moved(model, set(places.values()))
        for name in set(places.values()):
            for geom in self._bodies[name].geoms:
                if geom.group <= _MOST_SEEN:
                    geom.group = _HIDDEN
        for geom in seen:
            self._add(model, data, geom, places[geom.parent.name])

    def _wearers(self, model: mujoco.MjModel, seen: list[mujoco.MjsGeom]) -> dict[str, str]:
        """Return the scene's body that wears what is seen of each of the skin's.

        A body without joints may be part of the one that carries it.
        """
        places, lost = {}, []
        for name in dict.fromkeys(geom.parent.name for geom in seen):
            body = model.body(name).id
            while body and not self._has(model, body) and not model.body_dofnum[body]:
                body = int(model.body_parentid[body])
            places[name] = model.body(body).name
            if body == 0 or places[name] not in self._bodies:
                lost.append(name)
        if lost:
            known = [name for name in self._bodies if name and name != "world"]
            near = "".join(did_you_mean(name, known) for name in lost[:1])
            raise ConfigurationError(
                f"{OPTION} is {str(self._path)!r}, whose bodies {', '.join(lost)} the task's model "
                f"does not have.{near} It has {', '.join(known)}. Give a skin of the same robot."
            )
        return places

    def _has(self, model: mujoco.MjModel, body: int) -> bool:
        return model.body(body).name in self._bodies

    def _tell_moved(self, model: mujoco.MjModel, names: set[str]) -> None:
        far = [
            name
            for name in sorted(names)
            if model.body_parentid[model.body(name).id]
            and model.body_jntnum[model.body(name).id]
            and np.abs(model.body(name).pos - self._bodies[name].pos).max() > FAR_M
        ]
        if far:
            logger.warning(
                "The skin's bodies %s are elsewhere on their parents than the robot's, by more "
                "than %g m, and look so.",
                *(", ".join(far), FAR_M),
            )

    def _add(
        self, model: mujoco.MjModel, data: mujoco.MjData, geom: mujoco.MjsGeom, wearer: str
    ) -> None:
        """Add a geom to a body, where it is in the skin."""
        own, body = model.body(geom.parent.name).id, model.body(wearer).id
        turn = np.zeros(4)
        mujoco.mju_negQuat(turn, data.xquat[body])
        pos, quat = np.zeros(3), np.zeros(4)
        mujoco.mju_rotVecQuat(pos, data.xpos[own] - data.xpos[body], turn)
        mujoco.mju_mulQuat(quat, turn, data.xquat[own])
        placed, turned = np.zeros(3), np.zeros(4)
        mujoco.mju_mulPose(placed, turned, pos, quat, geom.pos, geom.quat)
        self._num_geoms += 1
        added = self._bodies[wearer].add_geom(
            name=f"{_NAME}{self._num_geoms}",
            type=geom.type,
            size=geom.size,
            pos=placed,
            quat=turned,
            rgba=geom.rgba,
            group=_MOST_SEEN,
            contype=0,
            conaffinity=0,
            mass=0.0,
        )
        if not np.isnan(geom.fromto[0]):
            raise ConfigurationError(
                f"{OPTION} is {str(self._path)!r}, in which {geom.name!r} has a fromto, which a "
                "skin cannot have. Give its pos and quat."
            )
        if geom.meshname:
            added.meshname = self._mesh(geom.meshname)
        if geom.material:
            added.material = self._material(geom.material)

    def _mesh(self, name: str) -> str:
        copied = f"{_NAME}_{name}"
        if self._worn.mesh(copied) is None:
            mesh = self._skin.mesh(name)
            own = self._worn.add_mesh(name=copied, **{key: getattr(mesh, key) for key in _MESH})
            if mesh.file:
                own.file = str(self._file(mesh.file, self._skin.meshdir))
            else:
                own.uservert, own.userface = mesh.uservert, mesh.userface
                own.usertexcoord = mesh.usertexcoord
        return copied

    def _material(self, name: str) -> str:
        copied = f"{_NAME}_{name}"
        if self._worn.material(copied) is None:
            material = self._skin.material(name)
            own = self._worn.add_material(
                name=copied, **{key: getattr(material, key) for key in _MATERIAL}
            )
            own.textures = [texture and self._texture(texture) for texture in material.textures]
        return copied

    def _texture(self, name: str) -> str:
        copied = f"{_NAME}_{name}"
        if self._worn.texture(copied) is None:
            texture = self._skin.texture(name)
            own = self._worn.add_texture(
                name=copied, **{key: getattr(texture, key) for key in _TEXTURE}
            )
            if texture.file:
                own.file = str(self._file(texture.file, self._skin.texturedir))
        return copied

    def _file(self, name: str, folder: str) -> Path:
        return (self._path.parent / folder / name).resolve()


def _is_seen(geom: mujoco.MjsGeom) -> bool:
    is_drawn = geom.group <= _MOST_SEEN and geom.parent.name != "world"
    return is_drawn and not geom.contype and not geom.conaffinity
