"""A model and its data in ``mujoco_warp``'s arrays, and the tensors through which tasks see them.

Tensors are zero-copy views of Warp's float32 arrays, with three exceptions: integer fields have
float32 stand-ins, and fields of the acceleration stage and sensors are shown through mirrors.

Surprises of ``mujoco_warp`` (4.0), and this file's answers (each has a test in ``tests/sim``):

- A reset recomputes every environment, which would give the others acceleration-stage values that
  belong to no physics step. So those fields are shown through :class:`Mirror` copies, in which a
  reset writes only the masked rows, as on the CPU.
- ``set_const`` writes one row for all environments unless its outputs are expanded as well.
- Geoms fixed to the world keep the poses that ``make_data`` gave them, whatever is written to
  ``geom_pos`` or ``body_pos`` later: :func:`check_static_geoms` reports it.
- Spheres and capsules near a height field get contacts that are far too deep:
  :mod:`envlab.sim.warp_height_field`.
"""

from __future__ import annotations

import dataclasses
import logging
import operator
from collections.abc import Sequence

import mujoco
import mujoco_warp as mjw
import numpy as np
import torch
import warp as wp

from envlab.errors import ConfigurationError, SimulationError, did_you_mean
from envlab.sim.simulation import Fields, SimulationCfg, model_field
from envlab.sim.warp_height_field import mend_height_fields

logger = logging.getLogger(__name__)

_ROW_FIELDS = frozenset(("time", "qpos", "qvel", "act", "ctrl", "mocap_pos", "mocap_quat"))
"""Fields that integration itself leaves current (see :mod:`envlab.sim.mujoco_backend`)."""

_SMOOTH_FIELDS = frozenset(
    "xpos xquat xmat xipos ximat xanchor xaxis geom_xpos geom_xmat site_xpos site_xmat cam_xpos "
    "cam_xmat light_xpos light_xdir subtree_com cdof cinert crb ten_length ten_velocity cvel "
    "cdof_dot actuator_length actuator_velocity qfrc_bias qfrc_spring qfrc_damper qfrc_gravcomp "
    "qfrc_fluid qfrc_passive energy eq_active ne nf nl nefc".split()
)
"""Fields of the position and velocity stages. Other derived fields need the acceleration stage."""

_SET_CONST_OUTPUTS = tuple(
    "body_subtreemass body_invweight0 dof_invweight0 tendon_length0 tendon_invweight0 "
    "actuator_acc0 eq_data cam_pos0 cam_poscom0 cam_mat0 light_pos0 light_poscom0 "
    "light_dir0".split()
)
_OPTION = "opt."
_GEOM_SIZE_OUTPUTS = ("geom_aabb", "geom_rbound")


@wp.kernel(enable_backward=False)
def _copy_rows(
    rows: wp.array[bool],
    columns: wp.array[bool],
    source: wp.array2d[float],
    target: wp.array2d[float],
):
    row, column = wp.tid()
    if rows[row] and columns[column]:
        target[row, column] = source[row, column]


class Mirror:
    """A copy of a tensor's chosen columns, updated for chosen rows.

    Args:
        source: The tensor to copy, ``(num_envs, ...)``.
        target: The copy, of the same shape.
        columns: The elements of a row to copy, bool, one per element. None: all.
    """

    def __init__(
        self, source: torch.Tensor, target: torch.Tensor, columns: torch.Tensor | None = None
    ) -> None:
        width = target[0].numel()
        if columns is None:
            columns = torch.ones(width, dtype=torch.bool, device=target.device)
        self._columns = wp.from_torch(columns)
        self._source = wp.from_torch(source.view(len(source), width))
        self._target = wp.from_torch(target.view(len(target), width))

    def update(self, rows: wp.array) -> None:
        """Copy the rows of a bool mask, ``(num_envs,)``."""
        inputs = [rows, self._columns, self._source, self._target]
        wp.launch(_copy_rows, dim=self._target.shape, inputs=inputs)


class DataTensors:
    """The declared data fields.

    Attributes:
        fields: The tensors that tasks read, float32 ``(num_envs, ...)`` in MuJoCo's own shapes.
        smooth_mirrors: Shown copies of fields of the position and velocity stages.
        acceleration_mirrors: Shown copies of fields of the acceleration stage.
        substep_mirrors: Shown copies of each physics step of a control step.
        has_derived: Whether a field needs any stage beyond integration.
        needs_acceleration: Whether a field needs the acceleration stage.

    Raises:
        ConfigurationError: For a field that ``mujoco_warp`` does not have in MuJoCo's layout.
    """

    def __init__(self, model: mujoco.MjModel, data: mjw.Data, names: Sequence[str]) -> None:
        self.smooth_mirrors: list[Mirror] = []
        self.acceleration_mirrors: list[Mirror] = []
        self._converted: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.has_derived = not _ROW_FIELDS.issuperset(names)
        self.needs_acceleration = False
        example = mujoco.MjData(model)
        self._values = {
            name: _values(data, name, np.shape(getattr(example, name))) for name in names
        }
        tensors = {name: self._shown(model, name, self._values[name]) for name in names}
        self.fields = Fields("data", "env.sim.data_fields", tensors)

    def keep_substeps(self, names: Sequence[str], decimation: int) -> Fields:
        """Allocate fields of every physics step, ``(num_envs, decimation, ...)``.

        Raises:
            ConfigurationError: For a field that is not of floats.
        """
        self.substep_mirrors: list[list[Mirror]] = [[] for _ in range(decimation)]
        shown = {}
        for name in names:
            values = self._values[name]
            if values.dtype != torch.float32:
                raise ConfigurationError(
                    f"env.sim.substep_fields names {name!r}, whose values are {values.dtype}; the "
                    "mujoco_warp backend keeps float32 fields alone."
                )
            shown[name] = values.new_zeros(len(values), decimation, *values.shape[1:])
            for substep, mirrors in enumerate(self.substep_mirrors):
                mirrors.append(Mirror(values, shown[name][:, substep]))
        return Fields("substep", "env.sim.substep_fields", shown)

    def convert(self) -> None:
        """Refresh the float32 stand-ins of bool and integer fields."""
        for shown, values in self._converted:
            shown.copy_(values)

    def _shown(self, model: mujoco.MjModel, name: str, values: torch.Tensor) -> torch.Tensor:
        """Return a field's values, or the tensor that tasks see instead."""
        if name == "sensordata":
            return self._shown_sensors(model, values)
        is_early = name in _ROW_FIELDS or name in _SMOOTH_FIELDS
        self.needs_acceleration |= not is_early
        if values.dtype != torch.float32:
            shown = values.to(torch.float32)
            self._converted.append((shown, values))
            return shown
        if is_early:
            return values
        shown = torch.zeros_like(values)
        self.acceleration_mirrors.append(Mirror(values, shown))
        return shown

    def _shown_sensors(self, model: mujoco.MjModel, values: torch.Tensor) -> torch.Tensor:
        shown = torch.zeros_like(values)
        stages = np.repeat(model.sensor_needstage, model.sensor_dim)
        late = stages == mujoco.mjtStage.mjSTAGE_ACC
        self.needs_acceleration |= bool(late.any())
        for mirrors, columns in (
            (self.acceleration_mirrors, late),
            (self.smooth_mirrors, ~late),
        ):
            if columns.any():
                mirrors.append(Mirror(values, shown, torch.from_numpy(columns).to(values.device)))
        return shown


class ParamTensors:
    """The model fields that differ between environments.

    Attributes:
        fields: Declared fields, float32 ``(num_envs, ...)`` in MuJoCo's own shapes.
        constants: Values that ``set_const`` derives from them, by name; empty without declared
            fields.
    """

    def __init__(
        self, model: mujoco.MjModel, warp_model: mjw.Model, model_fields: Sequence[str]
    ) -> None:
        self._converted: list[tuple[torch.Tensor, torch.Tensor]] = []
        array = operator.attrgetter
        num_envs = array(model_fields[0])(warp_model).shape[0] if model_fields else 0
        tensors = {}
        for name in dict.fromkeys(model_fields):
            shape = (num_envs, *np.shape(model_field(model, name)))
            values = tensors[name] = wp.to_torch(array(name)(warp_model)).view(shape)
            if values.dtype != torch.float32:
                tensors[name] = values.to(torch.float32)
                self._converted.append((tensors[name], values))
        self.fields = Fields("model", "env.sim.model_fields", tensors)
        self.constants = {
            name: wp.to_torch(getattr(warp_model, name))
            for name in _expanded(model_fields)
            if name not in tensors
        }

    def convert(self) -> None:
        """Write the float32 stand-ins of integer fields to the model."""
        for shown, values in self._converted:
            values.copy_(shown)


def put(cfg: SimulationCfg, model: mujoco.MjModel, num_envs: int) -> tuple[mjw.Model, mjw.Data]:
    """Put model and data on Warp's device, with declared model fields for each environment.

    Raises:
        ConfigurationError: For a model field that cannot differ between environments.
        SimulationError: For a model that ``mujoco_warp`` cannot simulate.
    """
    known = [
        f"{prefix}{field.name}"
        for prefix, owner in (("", mjw.Model), ("opt.", mjw.Option))
        for field in dataclasses.fields(owner)
        if getattr(field.type, "shape", ())[:1] == ("*",)
    ]
    for name in cfg.model_fields:
        if name not in known:
            raise ConfigurationError(
                f"An event, a variant of a thing or env.sim.model_fields changes {name!r}, which "
                "mujoco_warp does not hold per environment. Use env.sim.backend=mujoco; variants "
                f"with geoms of one kind need no such field.{did_you_mean(name, known)}"
            )
    check_static_geoms(model, cfg.model_fields)
    if model.nhfield:
        mend_height_fields()
    try:
        names = _expanded(cfg.model_fields)
        own = [name for name in names if not name.startswith(_OPTION)]
        warp_model = mjw.put_model(model, batch_sizes=dict.fromkeys(own, num_envs))
        for name in (name.removeprefix(_OPTION) for name in names if name not in own):
            shared = getattr(warp_model.opt, name)
            values = np.repeat(shared.numpy(), num_envs, axis=0)
            setattr(warp_model.opt, name, wp.array(values, dtype=shared.dtype))
        data = mjw.make_data(
            model, nworld=num_envs, nconmax=cfg.num_contacts_max, njmax=cfg.num_constraints_max
        )
    except (NotImplementedError, ValueError) as error:
        raise SimulationError(
            f"mujoco_warp cannot simulate this model: {str(error).rstrip('.')}. Change the "
            "model, or use env.sim.backend=mujoco."
        ) from error
    if cfg.deterministic:
        warp_model.opt.deterministic = mjw.DeterminismType.ALL
    warp_model.opt.warn_overflow = 0  # Printing from kernels stalls the device.
    return warp_model, data


def has_ordered_rows(model: mujoco.MjModel, warp_model: mjw.Model) -> bool:
    """Return whether no two constraints can change places, as there is at most one.

    Threads of a GPU take rows in the order in which they run, and sums of rows differ by rounding
    in another order. mujoco_warp 4.0 has a flag to sort them, but what it calls is still empty.
    """
    fields = ("jnt_limited", "tendon_limited", "dof_frictionloss", "tendon_frictionloss")
    rows = model.neq + sum(np.count_nonzero(getattr(model, name)) for name in fields)
    return len(warp_model.nxn_geom_pair_filtered) == 0 and bool(rows <= 1)


def check_static_geoms(model: mujoco.MjModel, model_fields: Sequence[str]) -> None:
    """Report that randomising the poses of geoms fixed to the world has no effect.

    If the field also moves other geoms or bodies, this is only a warning.

    Raises:
        ConfigurationError: For a declared field that has no effect on any geom.
    """
    # The condition of mujoco_warp's kernel _geom_local_to_global().
    is_fixed = (model.body_weldid == 0) & (model.body_mocapid[model.body_rootid] == -1)
    geoms = is_fixed[model.geom_bodyid]
    bodies = np.zeros(model.nbody, dtype=bool)
    for body in model.geom_bodyid[geoms]:
        while body:  # Moving a body moves all its children; the world, 0, is not moved.
            bodies[body] = True
            body = model.body_parentid[body]
    for name, fixed in (
        ("geom_pos", geoms),
        ("geom_quat", geoms),
        ("body_pos", bodies[1:]),
        ("body_quat", bodies[1:]),
    ):
        if name not in model_fields or not fixed.any():
            continue
        message = (
            f"env.sim.model_fields names {name!r}, but mujoco_warp never moves geoms that are "
            f"fixed to the world, which concerns {fixed.sum()} of {len(fixed)} "
            f"{'geoms' if name.startswith('geom') else 'bodies'}: give the moving ones a joint or "
            'mocap="true", or use env.sim.backend=mujoco.'
        )
        if fixed.all():
            raise ConfigurationError(message)
        logger.warning("%s", message)


def _expanded(model_fields: Sequence[str]) -> tuple[str, ...]:
    """Return the declared model fields and, if there are any, those that ``set_const`` derives."""
    if not model_fields:
        return ()
    sizes = _GEOM_SIZE_OUTPUTS if "geom_size" in model_fields else ()
    return tuple(dict.fromkeys((*model_fields, *_SET_CONST_OUTPUTS, *sizes)))


def _values(data: mjw.Data, name: str, shape: tuple[int, ...]) -> torch.Tensor:
    """Return a view of a data field with MuJoCo's own shape."""
    array = getattr(data, name, None)
    shape = (data.nworld, *shape)
    if not isinstance(array, wp.array) or wp.to_torch(array).numel() != np.prod(shape):
        raise ConfigurationError(
            f"env.sim.data_fields names {name!r}, which mujoco_warp does not have in MuJoCo's "
            "layout. Use a sensor and declare 'sensordata', or env.sim.backend=mujoco."
        )
    return wp.to_torch(array).view(shape)
