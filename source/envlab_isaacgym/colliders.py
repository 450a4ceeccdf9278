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
Code = tuple[int, int, tuple[int, int, int]]
"""A shape's collision group, its filter, and its actor with the masks of its MJCF file."""
_ANY = (-1, 1, 1)
"""Of shapes that no masks of a file keep from colliding."""


class Colliders:
    """Collision filters and friction of a scene's shapes."""

    def __init__(self, spec: mujoco.MjSpec, template: Env) -> None:
        self._spec = spec
        self._static: dict[str, float] = {}
        self._shapes: list[tuple[str, int, int]] = []
        self.pairs: list[tuple[int | float, int]] = []
        codes: set[Code] = {(-1, 0, _ANY)}
        for number, actor in enumerate(template.actors):
            shapes = range(len(actor.asset.shapes))
            codes |= {_filter_code(number, actor, shape) for shape in shapes}
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
        self._set(geom, (-1, 0, _ANY))

    def filter(self, number: int, actor: Actor) -> None:
        """Set the filter of an actor's shapes: shapes collide if their filters share no bit."""
        model = actor.asset.model
        for shape in range(model.ngeom):
            name = f"{number}/{model.geom(shape).name}"
            geom = self._spec.geom(name)
            if model.geom_contype[shape] or model.geom_conaffinity[shape]:
                self._shapes.append((name, number, shape))
                self._set(geom, _filter_code(number, actor, shape))
            geom.friction = [actor.shapes[shape].friction, *_TORSION_ROLL]

    def _set(self, geom: mujoco.MjsGeom, code: Code) -> None:
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

    def shape_friction(self, sim: Sim, model: mujoco.MjModel) -> np.ndarray:
        """Return the friction of each shape, ``(num_envs, num_shapes, 3)``."""
        values = np.repeat(model.geom_friction[None], len(sim.envs), axis=0)
        for index, (name, _, _) in enumerate(self._shapes):
            values[:, model.geom(name).id, 0] = self._friction(sim, index)
        return values

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


def _filter_code(number: int, actor: Actor, shape: int) -> Code:
    """Return the collision group of an actor, and the filter of a shape of it.

    A filter of -1 means those of the asset: of an MJCF file, its ``contype`` and ``conaffinity``,
    within the actor.
    """
    bits, own = actor.filter, _ANY
    if bits == -1:
        model = actor.asset.model
        masks = int(model.geom_contype[shape]), int(model.geom_conaffinity[shape])
        bits, own = actor.shapes[shape].filter, (_ANY if masks == (1, 1) else (number, *masks))
    return actor.group, bits, own


def _collide(one: Code, other: Code) -> bool:
    """Return whether two shapes collide: their groups match, or are -1, and no bit is shared."""
    is_same_group = -1 in (one[0], other[0]) or one[0] == other[0]
    (first, *masks), (second, *others) = one[2], other[2]
    if first == second != _ANY[0] and not (masks[0] & others[1] or others[0] & masks[1]):
        return False
    return is_same_group and (one[1] & other[1]) == 0


def _index_pairs(count: int) -> Iterator[tuple[int, int]]:
    return ((first, second) for first in range(count) for second in range(first + 1, count))
