"""Another object in each environment: variants of a thing that share its bodies and joints.

The scene has the first variant's geoms; what differs in the others are fields of the model, whose
rows each environment gets from its own. Each variant is compiled alone for them. All have the
meshes of all, in one order, and as many geoms, the missing ones as specks that touch nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import torch
from mujoco import batch

from envlab.envs.entity_cfg import EntityCfg, VariantCfg
from envlab.errors import ConfigurationError
from envlab.sim.simulation import Simulation

_MESH = ("scale", "refpos", "refquat", "inertia", "maxhullvert", "smoothnormal", "content_type")
_MESH_DATA = ("uservert", "usernormal", "userface", "userfacenormal")
_KINDS = ("body", "geom", "jnt", "dof")
_DERIVED = frozenset(
    "body_bvhadr body_bvhnum body_subtreemass body_invweight0 dof_M0 dof_invweight0 dof_length "
    "dof_simplenum".split()
)
"""Fields that MuJoCo computes from the others."""


@dataclass
class EntityVariants:
    """The variants of a thing in a scene.

    Attributes:
        name: The thing's name.
        weights: Their weights.
        rows: For each field that differs, the first of the scene's rows and the values of each
            variant, ``(num_variants, num_rows, ...)``.
    """

    name: str
    weights: list[float]
    rows: dict[str, tuple[int, np.ndarray]]

    def chosen(self, env_ids: Sequence[int] | np.ndarray) -> np.ndarray:
        """Return the variant of each environment by its global index: round robin, by weight."""
        share = np.array(self.weights) / sum(self.weights)
        credit, order = np.zeros(len(share)), []
        for _ in range(int(np.max(env_ids)) + 1):
            credit += share
            order.append(int(np.argmax(credit.round(9))))
            credit[order[-1]] -= 1.0
        return np.array(order)[np.asarray(env_ids)]


def as_entity(cfg: EntityCfg, variant: VariantCfg) -> EntityCfg:
    """Return a thing's configuration with the file or shape of a variant."""
    return dataclasses.replace(cfg, model=variant.model, shape=variant.shape, variants={})


def merge(
    specs: dict[str, mujoco.MjSpec], where: str
) -> tuple[mujoco.MjSpec, list[mujoco.MjModel]]:
    """Make variants alike in all but fields of the model.

    Args:
        specs: Their specifications, which are changed.
        where: Path of the thing's configuration, for errors.

    Returns:
        The first, for the scene; and each, compiled alone.

    Raises:
        ConfigurationError: If their bodies or joints differ.
    """
    (first, template), *others = specs.items()
    for name, spec in others:
        if (ours := _structure(spec)) != (wanted := _structure(template)):
            raise ConfigurationError(
                f"{where}.variants.{name} has bodies and joints {ours}, but {first!r} has "
                f"{wanted}, and variants must have the same. Change one of the files."
            )
    meshes = {
        name: [{key: getattr(one, key) for key in ("name", *_MESH)} | _data(one)
               for one in spec.meshes]
        for name, spec in specs.items()
    }  # fmt: skip
    for name, spec in specs.items():
        _share_meshes(name, spec, meshes)
    bodies = [list(spec.bodies) for spec in specs.values()]
    for alike in zip(*bodies, strict=True):
        for body in alike:
            body.name, body.simple = alike[0].name, 0
        geoms = [list(body.geoms) for body in alike]
        for number in range(max(map(len, geoms))):
            for body, own in zip(alike, geoms, strict=True):
                if number >= len(own):
                    body.add_geom(
                        size=[1e-4, 0, 0], mass=0, contype=0, conaffinity=0, rgba=[0, 0, 0, 0]
                    )
    for alike in zip(*(list(spec.joints) for spec in specs.values()), strict=True):
        for joint in alike[1:]:
            joint.name = alike[0].name
    models = [spec.copy().compile() for spec in specs.values()]
    # MuJoCo refuses that a geom collides later if it did not when the scene was compiled.
    for alike in zip(*(list(spec.geoms) for spec in specs.values()), strict=True):
        for geom in alike[1:]:
            alike[0].contype |= geom.contype
            alike[0].conaffinity |= geom.conaffinity
    return template, models


def rows_in(
    scene: mujoco.MjModel, name: str, cfg: EntityCfg, prefix: str, models: list[mujoco.MjModel]
) -> EntityVariants:
    """Return the rows of a compiled scene that differ between the variants of a thing.

    The scene may no longer rely on frames that coincide in the first.
    """
    first = models[0]
    root = scene.body(prefix + first.body(1).name).id
    starts = {
        "body": (1, root),
        "geom": (int(first.body_geomadr[1]), int(scene.body_geomadr[root])),
        "jnt": (0, int(scene.body_jntadr[root])),
        "dof": (0, int(scene.body_dofadr[root])),
    }
    rows = {}
    for field in sorted(batch.MODEL_FIELDS):
        kind = field.partition("_")[0]
        if kind not in _KINDS or field in _DERIVED:
            continue
        own, ours = starts[kind]
        if field.endswith("_sameframe"):  # says which frames coincide; 0 is right for all
            getattr(scene, field)[ours : ours + len(getattr(first, field)) - own] = 0
            continue
        values = np.stack([np.asarray(getattr(model, field))[own:] for model in models])
        if (values == values[0]).all():
            continue
        if field == "geom_dataid":
            offset = scene.mesh(prefix + first.mesh(0).name).id if first.nmesh else 0
            values = np.where(values < 0, values, values + offset)
        rows[field] = ours, values
    weights = [one.weight for one in cfg.variants.values()]
    return EntityVariants(name, weights, rows)


def fields_of(variants: Sequence[EntityVariants]) -> tuple[str, ...]:
    """Return the fields of the model that differ between environments because of variants."""
    return tuple(dict.fromkeys(field for one in variants for field in one.rows))


def give_variants(
    sim: Simulation, variants: Sequence[EntityVariants], env_ids: torch.Tensor
) -> dict[str, torch.Tensor]:
    """Write each environment's variants to its model.

    Returns:
        The fields' values before anything randomises them, ``(num_envs, ...)``.
    """
    for one in variants:
        chosen = one.chosen(env_ids.cpu().numpy())
        for field, (start, values) in one.rows.items():
            target = sim.params[field][:, start : start + values.shape[1]]
            target.copy_(torch.as_tensor(values[chosen], dtype=torch.float32))
    if variants:
        sim.apply_params()
    return {field: sim.params[field].clone() for field in fields_of(variants)}


# --------------------------------------------------------------------------------------------------


def _structure(spec: mujoco.MjSpec) -> str:
    """Return bodies and joints as text: ``[free hinge [hinge]]``."""

    def of(body: mujoco.MjsBody) -> str:
        kinds = [joint.type.name.removeprefix("mjJNT_").lower() for joint in body.joints]
        return f"[{' '.join([*kinds, *map(of, body.bodies)])}]"

    return of(spec.worldbody)


def _data(mesh: mujoco.MjsMesh) -> dict[str, object]:
    return {"file": mesh.file} if mesh.file else {key: [*getattr(mesh, key)] for key in _MESH_DATA}


def _share_meshes(
    own: str, spec: mujoco.MjSpec, meshes: dict[str, list[dict[str, object]]]
) -> None:
    """Give a variant all variants' meshes in one order, and colours in place of materials."""
    old = list(spec.meshes)
    for owner, settings in meshes.items():
        for one in settings:
            spec.add_mesh(**{**one, "name": f"{owner}.{one['name'] or one.get('file')}"})
    names = {one.name: f"{own}.{one.name}" for one in old}
    for geom in spec.geoms:
        if geom.meshname:
            geom.meshname = names.get(geom.meshname, f"{own}.{geom.meshname}")
        if geom.material:
            geom.rgba, geom.material = spec.material(geom.material).rgba, ""
        geom.name = ""
    for one in old:
        spec.delete(one)
