"""Small robots of our own, and a world to put them in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from envlab_isaacgym import gymapi, gymtorch

BOX = """<collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision>"""
INERTIAL = """<inertial><mass value="{mass}"/>
  <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0" ixz="0" iyz="0"/></inertial>"""


def link(name: str, mass: float = 1.0, shape: str = "") -> str:
    return f'<link name="{name}">{INERTIAL.format(mass=mass)}{shape}</link>'


def joint(
    name: str,
    parent: str,
    child: str,
    kind: str = "revolute",
    xyz: str = "0 0 0",
    axis: str = "0 0 1",
    limit: str = 'lower="-3" upper="3" effort="100" velocity="100"',
    extra: str = "",
) -> str:
    bounds = f"<limit {limit}/>" if kind in ("revolute", "prismatic") else ""
    return (
        f'<joint name="{name}" type="{kind}" {extra}><parent link="{parent}"/>'
        f'<child link="{child}"/><origin xyz="{xyz}"/><axis xyz="{axis}"/>{bounds}</joint>'
    )


def urdf(folder: Path, *parts: str) -> str:
    (folder / "robot.urdf").write_text(f'<robot name="robot">{"".join(parts)}</robot>')
    return "robot.urdf"


SLIDER = (
    link("base", 10.0),
    link("carriage", 1.0),
    joint("slide", "base", "carriage", "prismatic", axis="1 0 0"),
)
"""A mass of 1 kg on a rail along x."""


def options(**values: object) -> gymapi.AssetOptions:
    made = gymapi.AssetOptions()
    for name, value in values.items():
        setattr(made, name, value)
    return made


class World:
    """Environments with the same actors, which ``fill`` adds to each, and their tensors."""

    def __init__(
        self,
        num_envs: int,
        fill: Callable[[World, gymapi.Env], None],
        *,
        gravity: float = -9.81,
        dt: float = 0.005,
        substeps: int = 1,
        ground: float | None = None,
    ) -> None:
        self.gym, params = gymapi.acquire_gym(), gymapi.SimParams()
        params.dt, params.substeps, params.up_axis = dt, substeps, gymapi.UP_AXIS_Z
        params.gravity = gymapi.Vec3(0, 0, gravity)
        self.sim = self.gym.create_sim(0, -1, gymapi.SIM_PHYSX, params)
        if ground is not None:
            plane = gymapi.PlaneParams()
            plane.normal = gymapi.Vec3(0, 0, 1)
            plane.static_friction = plane.dynamic_friction = ground
            self.gym.add_ground(self.sim, plane)
        self.num_envs = num_envs
        self.envs: list[gymapi.Env] = []
        self._made: gymapi.Asset | None = None
        for _ in range(num_envs):
            env = self.gym.create_env(self.sim, gymapi.Vec3(), gymapi.Vec3(), num_envs)
            self.envs.append(env)
            fill(self, env)
        self.gym.prepare_sim(self.sim)

    def load(self, folder: Path, *parts: str, **values: object) -> gymapi.Asset:
        """Return the asset of a robot whose base is fixed, unless ``values`` say otherwise."""
        wanted = options(**{"fix_base_link": True} | values)
        return self.gym.load_asset(self.sim, str(folder), urdf(folder, *parts), wanted)

    def once(self, make: Callable[[], gymapi.Asset]) -> gymapi.Asset:
        """Return the asset that was made for the first environment."""
        self._made = self._made or make()
        return self._made

    def put(
        self,
        env: gymapi.Env,
        asset: gymapi.Asset,
        place: gymapi.Transform | None = None,
        name: str = "thing",
        bits: int = 0,
    ) -> int:
        """Add an actor, of a collision group of its environment's own; return its handle."""
        return self.gym.create_actor(env, asset, place or pose(), name, env.index, bits)

    def push(self, forces: torch.Tensor, at: torch.Tensor | None = None) -> None:
        """Apply forces to all bodies for one step, ``(bodies, 3)``, at points of the world."""
        values = gymtorch.unwrap_tensor(forces)
        if at is None:
            self.gym.apply_rigid_body_force_tensors(self.sim, values, None)
        else:
            points = gymtorch.unwrap_tensor(at.contiguous())
            apply = self.gym.apply_rigid_body_force_at_pos_tensors
            apply(self.sim, values, points, gymapi.ENV_SPACE)

    def acquired(self, name: str) -> torch.Tensor:
        """Return a tensor, ``(num_envs, ...)``."""
        tensor = gymtorch.wrap_tensor(getattr(self.gym, f"acquire_{name}_tensor")(self.sim))
        return tensor.view(self.num_envs, -1, *tensor.shape[1:])

    def refreshed(self, name: str) -> torch.Tensor:
        values = self.acquired(name)
        getattr(self.gym, f"refresh_{name}_tensor")(self.sim)
        return values

    def set(self, name: str, values: torch.Tensor, actors: list[int] | None = None) -> None:
        """Set states or controls, of all or of some actors."""
        unwrapped = gymtorch.unwrap_tensor(values.contiguous())
        if actors is None:
            getattr(self.gym, f"set_{name}_tensor")(self.sim, unwrapped)
        else:
            indices = gymtorch.unwrap_tensor(torch.tensor(actors, dtype=torch.int32))
            setter = getattr(self.gym, f"set_{name}_tensor_indexed")
            setter(self.sim, unwrapped, indices, len(actors))

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.gym.simulate(self.sim)


def pose(x: float = 0.0, y: float = 0.0, z: float = 0.0) -> gymapi.Transform:
    return gymapi.Transform(gymapi.Vec3(x, y, z))


def box(world: World, size: float = 0.2, density: float = 1000.0) -> gymapi.Asset:
    options = gymapi.AssetOptions()
    options.density = density
    return world.gym.create_box(world.sim, size, size, size, options)
