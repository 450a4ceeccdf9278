"""Collision filters and friction of a scene's shapes.

The friction of two surfaces is their average, as in PhysX; MuJoCo would take the maximum. Pairs
of shapes for which these differ become explicit contact pairs.
"""

from __future__ import annotations

from collections.abc import Iterator

import mujoco
import numpy as np

from envlab.errors import ConfigurationError
from envlab_isaacgym.world import Actor, Env, Sim

_FILTER_BITS = 31
_PAIR = "average/"
_TORSION_ROLL = (0.005, 0.0001)


class Colliders:
    """Collision filters and friction of a scene's shapes."""

    def __init__(self, spec: mujoco.MjSpec, template: Env) -> None:
        self._spec = spec
        self._static: dict[str, float] = {}
        self._shapes: list[tuple[str, int, int]] = []
        self.pairs: list[tuple[int | float, int]] = []
        codes = {(-1, 0)}
        for actor in template.actors:
            codes |= {_filter_code(actor, shape) for shape in range(len(actor.asset.shapes))}
        self._codes = sorted(codes)
        if len(self._codes) > _FILTER_BITS:
            raise ConfigurationError(
                f"The actors have {len(self._codes)} different collision filters, but at most "
                f"{_FILTER_BITS} are supported. Use fewer."
            )

    def add_static(self, name: str, friction: float) -> None:
        """Let the ground or a terrain collide with everything."""
        self._static[name] = friction
        geom = self._spec.geom(name)
        geom.friction = [friction, *_TORSION_ROLL]
        self._set(geom, (-1, 0))

    def filter(self, number: int, actor: Actor) -> None:
        """Set the filter of an actor's shapes: shapes collide if their filters share no bit."""
        model = actor.asset.model
        for shape in range(model.ngeom):
            name = f"{number}/{model.geom(shape).name}"
            geom = self._spec.geom(name)
            if model.geom_contype[shape] or model.geom_conaffinity[shape]:
                self._shapes.append((name, number, shape))
                self._set(geom, _filter_code(actor, shape))
            geom.friction = [actor.shapes[shape].friction, *_TORSION_ROLL]

    def _set(self, geom: mujoco.MjsGeom, code: tuple[int, int]) -> None:
        geom.contype = 1 << self._codes.index(code)
        geom.conaffinity = sum(
            1 << bit for bit, other in enumerate(self._codes) if _collide(code, other)
        )

    def average_friction(self, sim: Sim) -> None:
        """Make pairs of shapes for which the average differs from the larger friction."""
        frictions = [
            np.array([env.actors[number].shapes[shape].friction for env in sim.envs])
            for _, number, shape in self._shapes
        ]
        for index, (name, _, _) in enumerate(self._shapes):
            for static, friction in self._static.items():
                if np.any(frictions[index] != friction):
                    self._add_pair(static, name, (friction, index))
        if all(np.array_equal(frictions[0], other) for other in frictions):
            return
        for first, second in _index_pairs(len(self._shapes)):
            if not np.array_equal(frictions[first], frictions[second]) and self._may_touch(
                first, second
            ):
                self._add_pair(self._shapes[first][0], self._shapes[second][0], (first, second))

    def _may_touch(self, first: int, second: int) -> bool:
        geoms = [self._spec.geom(self._shapes[index][0]) for index in (first, second)]
        bodies = [geom.parent for geom in geoms]
        names = [body.name for body in bodies]
        parents = [body.parent.name for body in bodies]
        is_near = names[0] == names[1] or names[0] == parents[1] or names[1] == parents[0]
        return not is_near and bool(
            geoms[0].contype & geoms[1].conaffinity or geoms[1].contype & geoms[0].conaffinity
        )

    def _add_pair(self, first: str, second: str, source: tuple[int | float, int]) -> None:
        name = f"{_PAIR}{len(self.pairs)}"
        self._spec.add_pair(name=name, geomname1=first, geomname2=second, condim=3)
        self.pairs.append(source)

    def pair_friction(self, sim: Sim, model: mujoco.MjModel) -> np.ndarray:
        """Return the friction of each pair, ``(num_envs, num_pairs, 5)``; averages for our own."""
        values = np.repeat(model.pair_friction[None], len(sim.envs), axis=0)
        for number, (first, second) in enumerate(self.pairs):
            pair = model.pair(f"{_PAIR}{number}").id  # assets may have their own pairs
            one = first if isinstance(first, float) else self._friction(sim, first)
            values[:, pair, :2] = ((one + self._friction(sim, second)) / 2)[:, None]
            values[:, pair, 2:] = (_TORSION_ROLL[0], _TORSION_ROLL[1], _TORSION_ROLL[1])
        return values

    def _friction(self, sim: Sim, index: int) -> np.ndarray:
        _, number, shape = self._shapes[index]
        return np.array([env.actors[number].shapes[shape].friction for env in sim.envs])


def _filter_code(actor: Actor, shape: int) -> tuple[int, int]:
    """Return the collision group of an actor, and the filter of one of its shapes."""
    bits = actor.shapes[shape].filter if actor.filter == -1 else actor.filter
    return (-1 if actor.group == -1 else actor.group), bits


def _collide(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Return whether two shapes collide: groups are equal, or one is -1, and no bit is shared."""
    is_same_group = -1 in (one[0], other[0]) or one[0] == other[0]
    return is_same_group and (one[1] & other[1]) == 0


def _index_pairs(count: int) -> Iterator[tuple[int, int]]:
    return ((first, second) for first in range(count) for second in range(first + 1, count))
