"""Positions of environments on generated ground, and their levels."""

from __future__ import annotations

import mujoco
import torch

from envlab.envs.random import EnvRandom
from envlab.envs.terrain.cfg import TerrainCfg
from envlab.envs.terrain.generator import GROUP, generate, surface
from envlab.errors import ConfigurationError
from envlab.sim.height_field import HeightField
from envlab.state import State


class Terrain:
    """A tile for every environment, with a level that is drawn and changes, and a type.

    Types are spread evenly over all environments of all processes, in the order of their global
    index, and levels are drawn per environment. So two processes with N environments have the same
    tiles as one with 2 N. Types are fixed unless :meth:`randomize` also draws them.

    Attributes:
        cfg: The configuration.
        num_levels: Rows of tiles.
        geom_group: Geom group of the ground, for rays.
        terrain_levels: Each environment's row, int64 ``(num_envs,)``.
        terrain_types: Each environment's column, int64 ``(num_envs,)``.
        drawn_types: The same object once :meth:`randomize` has drawn columns; None before.
        flat_patches: Flat patches of all tiles by name, in m, ``(num_tiles, number, 3)``.
        kind_names: The sub-terrains, in their order.
        env_origins: Start of each environment's episodes, in m, ``(num_envs, 3)``.
    """

    STATE = State(per_env=("terrain_levels", "drawn_types"))

    def __init__(
        self, cfg: TerrainCfg, model: mujoco.MjModel, random: EnvRandom, world_size: int
    ) -> None:
        """Place the environments.

        Args:
            cfg: The configuration.
            model: The model, whose ground is that of ``cfg``.
            random: The environments' random streams.
            world_size: Number of processes, each with as many environments.

        Raises:
            ConfigurationError: If ``max_init_terrain_level`` is negative.
        """
        self.cfg = cfg
        ground = generate(cfg.terrain_generator)
        self.num_levels, num_types = ground.kinds.shape
        level = cfg.max_init_terrain_level
        if level is not None and level < 0:
            raise ConfigurationError(
                f"env.scene.terrain.max_init_terrain_level is {level}; give 0 or more, or null for "
                f"all {self.num_levels} levels."
            )
        last = self.num_levels - 1
        self.geom_group = GROUP
        self._max_init_level = last if level is None else min(level, last)
        self._random = random
        self._field = HeightField(model, surface(model), random.device)
        if ground.boxes:
            self._field.raise_to(ground.tops.T)
        origins = torch.tensor(ground.origins, dtype=torch.float32, device=random.device)
        self._origins = origins.flatten(0, 1)
        self._num_types = num_types
        subs = cfg.terrain_generator.sub_terrains
        self.kind_names = [name for name, kind in subs.items() if kind is not None]
        self.kinds = torch.tensor(ground.kinds.ravel(), device=random.device)
        total = world_size * len(random.env_ids)
        self._spread_types = random.env_ids * num_types // total
        self.terrain_types = self._spread_types.clone()
        self.drawn_types: torch.Tensor | None = None
        self.flat_patches = {
            name: torch.tensor(places, dtype=torch.float32, device=random.device).flatten(0, 1)
            for name, places in ground.flat_patches.items()
        }
        self.terrain_levels = torch.zeros_like(random.env_ids)
        self.env_origins = torch.zeros(len(random.env_ids), 3, device=random.device)
        self.restart()

    def restart(self) -> None:
        """Draw all levels as at the start of a run."""
        self.terrain_types.copy_(self._spread_types)
        stream = self._random.stream("terrain.start")
        self.move(stream.integers(0, self._max_init_level + 1))

    def update_env_origins(
        self, mask: torch.Tensor, move_up: torch.Tensor, move_down: torch.Tensor
    ) -> None:
        """Change levels by one; environments beyond the last level get a random one.

        Args:
            mask: Environments to change, bool ``(num_envs,)``.
            move_up: Which of these get a harder tile, bool ``(num_envs,)``.
            move_down: Which of these get an easier one, bool ``(num_envs,)``.
        """
        levels = self.terrain_levels + move_up.long() - move_down.long()
        drawn = self._random.stream("terrain.beyond").integers(0, self.num_levels)
        levels = torch.where(levels >= self.num_levels, drawn, levels.clamp(min=0))
        self.move(torch.where(mask, levels, self.terrain_levels))

    @property
    def terrain_kinds(self) -> torch.Tensor:
        """Number of the sub-terrain of each environment's tile, int64 ``(num_envs,)``."""
        return self.kinds[self.tiles(self.terrain_levels)]

    def tiles(self, levels: torch.Tensor) -> torch.Tensor:
        """Return the number of each environment's tile at these levels, int64 ``(num_envs,)``."""
        return levels * self._num_types + self.terrain_types

    def randomize(self, mask: torch.Tensor, drawn: torch.Tensor) -> None:
        """Give environments any tile.

        Args:
            mask: Environments to change, bool ``(num_envs,)``.
            drawn: Uniform draws from 0 to 1, ``(num_envs, 2)``.
        """
        # Until then the types follow from the number of environments, and need not be saved.
        self.drawn_types = self.terrain_types
        levels, types = (
            (draw * number).long().clamp(max=number - 1)
            for draw, number in zip(drawn.T, (self.num_levels, self._num_types), strict=True)
        )
        self.terrain_types.copy_(torch.where(mask, types, self.terrain_types))
        self.move(torch.where(mask, levels, self.terrain_levels))

    def patches(self, name: str, drawn: torch.Tensor) -> torch.Tensor:
        """Return a flat patch of each environment's tile, in m, ``(num_envs, 3)``.

        Args:
            name: A key of ``flat_patches``.
            drawn: Uniform draws from 0 to 1, ``(num_envs,)``.
        """
        patches = self.flat_patches[name]
        number = patches.shape[1]
        chosen = (drawn * number).long().clamp(max=number - 1)
        return patches[self.tiles(self.terrain_levels), chosen]

    def heights_at(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the ground's height at points of the world, in m, of the shape of ``x``."""
        return self._field.heights(x, y)

    def on_restore(self) -> None:
        """Move the origins to the restored tiles."""
        if self.drawn_types is not None and self.drawn_types is not self.terrain_types:
            self.terrain_types.copy_(self.drawn_types)
            self.drawn_types = self.terrain_types
        self.move(self.terrain_levels)

    def move(self, levels: torch.Tensor) -> None:
        """Give the environments tiles of these levels, int64 ``(num_envs,)``."""
        self.terrain_levels.copy_(levels)
        self.env_origins.copy_(self._origins[self.tiles(levels)])
