"""Methods that are not implemented, by their requirements.

Each exists, has its parameters, and raises :class:`NotImplementedError` when it is called: so none
silently returns zeros.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from envlab.errors import EnvlabError

NEEDS: dict[str, tuple[str, ...]] = {
    "soft bodies and particles, for which MuJoCo's flexes would be needed": (
        "acquire_particle_state_tensor(sim, /)",
        "refresh_particle_state_tensor(sim, /)",
        "set_particle_state_tensor(sim, states, /)",
        "set_particle_state_tensor_indexed(sim, states, actors, count, /)",
        "create_cloth_grid(sim, width, height, dx, dy, /)",
        "create_tet_grid(sim, material, nx, ny, nz, dx, dy, dz, density, left, right, bottom, "
        "top, /)",
        "draw_env_soft_contacts(viewer, env, color, scale, sort, particles, /)",
        "get_actor_soft_materials(env, actor, /)",
        "set_actor_soft_materials(env, actor, materials, /)",
        "get_asset_soft_materials(asset, /)",
        "get_actor_tetrahedra_range(env, actor, body, /)",
        "get_actor_triangle_range(env, actor, body, /)",
        "get_sim_tetrahedra(sim, /)",
        "get_sim_tetrahedra_count(sim, /)",
        "get_sim_triangles(sim, /)",
        "get_sim_triangle_count(sim, /)",
        "get_soft_contacts(sim, /)",
        "reset_actor_particles_to_rest(env, actor, /)",
    ),
    "pneumatic actuators, for which MuJoCo's cylinders would be needed": (
        "acquire_pneumatic_pressure_tensor(sim, /)",
        "acquire_pneumatic_target_tensor(sim, /)",
        "refresh_pneumatic_pressure_tensor(sim, /)",
        "refresh_pneumatic_target_tensor(sim, /)",
        "set_pneumatic_pressure_tensor(sim, values, /)",
        "set_pneumatic_pressure_tensor_indexed(sim, values, /)",
        "set_pneumatic_target_tensor(sim, values, /)",
        "set_pneumatic_target_tensor_indexed(sim, values, /)",
        "get_pneumatic_pressure(env, actor, index, /)",
        "get_pneumatic_target(env, actor, index, /)",
        "set_pneumatic_pressure(env, actor, index, value, /)",
        "set_pneumatic_target(env, actor, index, value, /)",
    ),
    "a window, which is never there": (
        "get_viewer_camera_handle(viewer, /)",
        "get_viewer_mouse_position(viewer, /)",
    ),
    "USD, Omniverse or OpenSim files; load URDF or MJCF": (
        "create_usd_exporter(options=None)",
        "destroy_usd_exporter(exporter, /)",
        "export_usd_asset(exporter, asset, name, /)",
        "export_usd_sim(exporter, sim, name, dirName='')",
        "get_usd_export_root(exporter, /)",
        "set_usd_export_root(exporter, path, /)",
        "load_usd(sim, rootpath, filename, options=None)",
        "load_opensim(sim, rootpath, filename, options=None)",
        "omni_connect(params, /)",
        "omni_disconnect()",
    ),
    "simulations that outlive or leave their process": (
        "attach_sim(compute_device, graphics_device, engine, host, port, /)",
        "load_sim(compute_device, graphics_device, engine, path, file, /)",
        "destroy_env(env, /)",
        "create_performance_timers(sim, /)",
        "destroy_performance_timers(sim, timers, /)",
        "get_performance_timers(sim, timers, /)",
    ),
    "colours and textures of pictures, which show all shapes alike": (
        "get_rigid_body_color(env, actor, body, mesh, /)",
        "get_rigid_body_texture(env, actor, body, mesh, /)",
    ),
    "the reading of one sensor; acquire_force_sensor_tensor has all": (
        "get_actor_force_sensor(env, actor, index, /)",
        "get_sensor(env, index, /)",
    ),
    "tendons' properties for each environment": (
        "find_actor_fixed_tendon_joint_index(env, actor, tendon, name, /)",
        "get_actor_fixed_tendon_joint_coefficients(env, actor, tendon, /)",
        "get_actor_fixed_tendon_joint_name(env, actor, tendon, joint, /)",
        "get_actor_tendon_offset(env, actor, tendon, /)",
        "get_asset_fixed_tendon_joint_coefficients(asset, tendon, /)",
        "get_asset_fixed_tendon_joint_name(asset, tendon, joint, /)",
        "set_actor_fixed_tendon_joint_coefficients(env, actor, tendon, coefficients, /)",
        "set_actor_tendon_offset(env, actor, tendon, offset, /)",
        "set_asset_fixed_tendon_joint_coefficients(asset, tendon, coefficients, /)",
    ),
    "lists of single contacts; net contact forces are available": (
        "get_env_rigid_contacts(env, /)",
        "get_rigid_contacts(sim, /)",
    ),
    "states of inner bodies, which joints determine; set roots and degrees of freedom": (
        "set_actor_rigid_body_states(env, actor, states, flags, /)",
        "set_env_rigid_body_states(env, states, flags, /)",
        "set_sim_rigid_body_states(sim, states, flags, /)",
        "set_rigid_body_state_tensor(sim, states, /)",
        "set_rigid_angular_velocity(env, body, velocity, /)",
        "set_rigid_linear_velocity(env, body, velocity)",
        "set_rigid_transform(env, body, pose)",
    ),
    "joints apart from degrees of freedom; use the methods on DOFs": (
        "get_joint_position(env, joint, /)",
        "get_joint_velocity(env, joint, /)",
        "get_joint_target_position(env, joint, /)",
        "get_joint_target_velocity(env, joint, /)",
        "set_joint_target_position(env, joint, target, /)",
        "set_joint_target_velocity(env, joint, target, /)",
        "get_joint_transform(env, joint, /)",
        "get_actor_joint_transforms(env, actor, /)",
    ),
}
"""Missing features -> methods with their parameters."""


class MissingMethodError(EnvlabError, NotImplementedError):
    """A script reached a method that is not implemented."""

    same_on_all_ranks = False


def _missing(name: str, parameters: str, need: str) -> Callable[..., NoReturn]:
    def method(self: object, *arguments: Any, **keywords: Any) -> NoReturn:
        raise MissingMethodError(
            f"Gym.{name} is not implemented: it needs {need}. envlab isaacgym check "
            "lists all that a checkout lacks, and docs/isaacgym.md says where to ask for more."
        )

    scope: dict[str, Any] = {}
    declaration = f"def signed(self, {parameters}): ..." if parameters else "def signed(self): ..."
    exec(declaration, scope)  # built from the constants above, for the signature
    method.__name__, method.__qualname__ = name, f"Gym.{name}"
    method.__doc__ = f"Raise NotImplementedError: it needs {need}."
    method.__signature__ = inspect.signature(scope["signed"])  # type: ignore[attr-defined]
    return method


class Missing:
    """See :class:`envlab_isaacgym.gymapi.Gym`."""


MISSING: dict[str, str] = {}
"""Names of missing methods, and the need of each."""

for _need, _methods in NEEDS.items():
    for _method in _methods:
        _name, _parameters = _method.removesuffix(")").split("(", 1)
        MISSING[_name] = _need
        setattr(Missing, _name, _missing(_name, _parameters, _need))
