"""Methods that make simulations, environments, assets and actors, and run steps."""

from __future__ import annotations

import copy
import time

import numpy as np
import torch

from envlab.errors import ConfigurationError, DeviceError
from envlab_bridge.ranks import draw_apart, is_on_cpu
from envlab_isaacgym.assets import Asset, ForceSensor, load_asset, make_primitive
from envlab_isaacgym.enums import SimType, UpAxis
from envlab_isaacgym.parameters import (
    AssetOptions,
    ForceSensorProperties,
    HeightFieldParams,
    PlaneParams,
    SimParams,
    TriangleMeshParams,
    Version,
    tell_ignored,
)
from envlab_isaacgym.physics import Physics
from envlab_isaacgym.surfaces import grid_of
from envlab_isaacgym.values import Transform, Vec3
from envlab_isaacgym.watching import watching
from envlab_isaacgym.world import Actor, Env, HeightField, Sim, Viewer


def physics_of(sim: Sim) -> Physics:
    """Return a world's physics, which is made on first use."""
    if sim.physics is None:
        if not sim.envs:
            raise ConfigurationError(
                "The simulation has no environments yet. Call create_env and create_actor first."
            )
        sim.physics = Physics(sim)
    physics: Physics = sim.physics
    return physics


class Worlds:
    """See :class:`envlab_isaacgym.gymapi.Gym`."""

    _window: Viewer | None

    def get_version(self) -> Version:
        return Version()

    def create_sim(
        self,
        compute_device: int = 0,
        graphics_device: int = 0,
        type: SimType = SimType.SIM_PHYSX,
        params: SimParams | None = None,
    ) -> Sim:
        """Return an empty world, on a GPU if ``params.use_gpu_pipeline`` is set.

        From here on the ranks of a launch draw different numbers, so that they fill it differently.

        Raises:
            DeviceError: If it should lie on a GPU, and there is none.
        """
        params = copy.deepcopy(params or SimParams())
        device = "cpu"
        if params.use_gpu_pipeline and not is_on_cpu():
            if not torch.cuda.is_available():
                raise DeviceError(
                    "SimParams.use_gpu_pipeline is set, but this machine has no NVIDIA GPU. Run "
                    "with --sim_device=cpu --pipeline=cpu (legged_gym: also --rl_device=cpu; "
                    "IsaacGymEnvs: sim_device=cpu pipeline=cpu rl_device=cpu). If the script has "
                    "no such flags: python -m envlab_isaacgym --cpu SCRIPT ..."
                )
            device = f"cuda:{max(0, compute_device)}"
        tell_ignored(params.physx)
        draw_apart()
        self._window = Viewer(Sim(params, device))
        return self._window.sim

    def destroy_sim(self, sim: Sim, /) -> None:
        if sim.physics is not None and sim.physics.simulation is not None:
            sim.physics.simulation.close()
        sim.physics = None

    def get_sim_params(self, sim: Sim, /) -> SimParams:
        return copy.deepcopy(sim.params)

    def set_sim_params(self, sim: Sim, params: SimParams, /) -> None:
        has_changed = sim.params != params
        sim.params = copy.deepcopy(params)
        if has_changed and sim.physics is not None:
            sim.physics.rebuild()

    def set_sim_device(self, sim: Sim, /) -> None:
        if sim.device != "cpu":
            torch.cuda.set_device(sim.device)

    def add_ground(self, sim: Sim, params: PlaneParams) -> None:
        tell_ignored(params)
        sim.ground = copy.copy(params)

    def add_heightfield(self, sim: Sim, samples: np.ndarray, params: HeightFieldParams, /) -> None:
        """Add a terrain of heights, ``(nbColumns, nbRows)``: columns run along x, rows along y."""
        tell_ignored(params)
        heights = np.asarray(samples).reshape(params.nbColumns, params.nbRows)
        _refuse_turned(params.transform)
        sim.terrains.append(
            HeightField(
                heights * params.vertical_scale,
                (params.column_scale, params.row_scale),
                copy.copy(params.transform.p),
                copy.copy(params),
            )
        )

    def add_triangle_mesh(
        self, sim: Sim, vertices: np.ndarray, triangles: np.ndarray, params: TriangleMeshParams, /
    ) -> None:
        """Add a terrain of triangles, whose upper surface is simulated: see :func:`grid_of`."""
        tell_ignored(params)
        points = np.asarray(vertices, dtype=np.float64).reshape(-1, 3)
        heights, cell, corner = grid_of(
            points, np.asarray(triangles).reshape(-1, 3).astype(np.int64)
        )
        origin = params.transform.p + Vec3(float(corner[0]), float(corner[1]))
        _refuse_turned(params.transform)
        sim.terrains.append(HeightField(heights, cell, origin, copy.copy(params)))

    def create_env(self, sim: Sim, lower: Vec3, upper: Vec3, num_per_row: int, /) -> Env:
        """Return a new environment. Its states are relative to its own origin."""
        if sim.physics is not None:
            raise ConfigurationError(
                "create_env was called after a tensor was acquired or a step was made. Create all "
                "environments before."
            )
        index, size = len(sim.envs), upper - lower
        row, column = divmod(index, max(1, num_per_row))
        is_z_up = sim.params.up_axis == UpAxis.UP_AXIS_Z
        across = row * (size.y if is_z_up else size.z)
        origin = Vec3(column * size.x, across if is_z_up else 0.0, 0.0 if is_z_up else across)
        sim.envs.append(Env(sim, index, origin))
        return sim.envs[-1]

    def get_env(self, sim: Sim, index: int, /) -> Env:
        return sim.envs[index]

    def get_env_count(self, sim: Sim, /) -> int:
        return len(sim.envs)

    def get_env_origin(self, env: Env, /) -> Vec3:
        return copy.copy(env.origin)

    def load_asset(
        self, sim: Sim, rootpath: str, filename: str, options: AssetOptions | None = None
    ) -> Asset:
        """Return the asset of a URDF or MJCF file."""
        if options is not None:
            tell_ignored(options)
        return load_asset(rootpath, filename, options)

    load_urdf = load_mjcf = load_asset

    def create_box(
        self,
        sim: Sim,
        width: float,
        height: float,
        depth: float,
        options: AssetOptions | None = None,
    ) -> Asset:
        """Return a box of ``width`` along x, ``height`` along y and ``depth`` along z, in m."""
        return make_primitive("box", "BOX", [width / 2, height / 2, depth / 2], options)

    def create_sphere(self, sim: Sim, radius: float, options: AssetOptions | None = None) -> Asset:
        return make_primitive("sphere", "SPHERE", [radius, 0, 0], options)

    def create_capsule(
        self, sim: Sim, radius: float, width: float, options: AssetOptions | None = None
    ) -> Asset:
        """Return a capsule along z whose straight part is ``width`` long."""
        return make_primitive("capsule", "CAPSULE", [radius, width / 2, 0], options)

    def create_actor(
        self,
        env: Env,
        asset: Asset,
        pose: Transform,
        name: str = "",
        group: int = -1,
        filter: int = -1,
        segmentationId: int = 0,
    ) -> int:
        """Add an asset to an environment; return the actor's index in it."""
        if env.sim.physics is not None:
            raise ConfigurationError(
                f"create_actor({name!r}) was called after a tensor was acquired or a step was "
                "made. Create all actors before."
            )
        actor = Actor.of(asset, pose, name, group, filter)
        actor.segmentation_id = segmentationId
        env.actors.append(actor)
        return len(env.actors) - 1

    def begin_aggregate(
        self, env: Env, max_bodies: int, max_shapes: int, self_collisions: bool, /
    ) -> bool:
        return True

    def end_aggregate(self, env: Env, /) -> bool:
        return True

    def create_aggregate(self, env: Env, actors: list[int], /) -> bool:
        return True

    def create_asset_force_sensor(
        self,
        asset: Asset,
        body_idx: int,
        local_pose: Transform,
        props: ForceSensorProperties | None = None,
    ) -> int:
        """Add a force sensor to a body; return its index in the asset."""
        asset.force_sensors.append(
            ForceSensor(
                body_idx, copy.copy(local_pose), copy.copy(props or ForceSensorProperties())
            )
        )
        return len(asset.force_sensors) - 1

    def prepare_sim(self, sim: Sim, /) -> bool:
        physics_of(sim)
        return True

    def simulate(self, sim: Sim, /) -> None:
        """Run one step of ``SimParams.dt``."""
        physics_of(sim).step()
        sim.frame += 1
        if watching.port is not None:
            watching.after_step(sim)

    def fetch_results(self, sim: Sim, wait: bool, /) -> None:
        """Do nothing: a step is complete when :meth:`simulate` returns."""

    def get_frame_count(self, sim: Sim, /) -> int:
        return sim.frame

    def get_sim_time(self, sim: Sim, /) -> float:
        return sim.frame * sim.params.dt

    def get_elapsed_time(self, sim: Sim, /) -> float:
        return time.perf_counter() - _START

    def sync_frame_time(self, sim: Sim, /) -> None:
        """Do nothing: there is no picture to wait for."""

    def get_sim_actor_count(self, sim: Sim, /) -> int:
        return sum(len(env.actors) for env in sim.envs)

    def get_sim_rigid_body_count(self, sim: Sim, /) -> int:
        return sim.count("num_bodies")

    def get_sim_dof_count(self, sim: Sim, /) -> int:
        return sim.count("num_dofs")

    def get_sim_joint_count(self, sim: Sim, /) -> int:
        return sim.count("num_joints")

    def get_sim_force_sensor_count(self, sim: Sim, /) -> int:
        return sum(len(actor.asset.force_sensors) for env in sim.envs for actor in env.actors)

    def debug_print_asset(self, asset: Asset, outpath: str = "") -> None:
        """Print an asset's bodies and joints, or write them to a file."""
        lines = [f"body {name}" for name in asset.body_names]
        lines += [f"joint {name}" for name in asset.joint_names]
        if outpath:
            with open(outpath, "w", encoding="utf-8") as file:
                file.write("\n".join(lines) + "\n")
        else:
            print("\n".join(lines))


_START = time.perf_counter()


def _refuse_turned(transform: Transform) -> None:
    """Refuse a terrain that does not lie along the axes."""
    if abs(transform.r.w) < 1.0 - 1e-6:
        raise ConfigurationError(
            f"A terrain's transform has the rotation {transform.r}, but terrains lie along the "
            "axes here. Turn its points instead."
        )
