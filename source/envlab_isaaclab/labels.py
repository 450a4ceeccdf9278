"""What a segmentation's pixels mean: the classes that spawners gave to things."""

from __future__ import annotations

from typing import Any

import mujoco
import torch

from envlab_isaaclab.world import World

_FIRST = ({"class": "BACKGROUND"}, {"class": "UNLABELLED"})


class Labels:
    """Numbers and colours of classes.

    Attributes:
        info: What Isaac Lab's cameras tell of them: ``idToLabels``, by number, or by colour if the
            picture is of colours.
    """

    def __init__(self, world: World, cfg: Any) -> None:
        """Give the classes numbers, in the order in which things were spawned.

        Args:
            world: The running world.
            cfg: The camera's configuration.
        """
        self._world, self._is_coloured = world, bool(cfg.colorize_semantic_segmentation)
        self._labels: list[dict[str, str]] = [dict(one) for one in _FIRST]
        self._of_thing: dict[str, int] = {}
        for path, spawned in world.stage.spawned.items():
            tags = dict(getattr(spawned.cfg, "semantic_tags", None) or ())
            if tags:
                label = {str(kind): str(name) for kind, name in tags.items()}
                if label not in self._labels:
                    self._labels.append(label)
                self._of_thing[path] = self._labels.index(label)
        colours = [self._colour(cfg, number) for number in range(len(self._labels))]
        self._colours = torch.tensor(colours, dtype=torch.uint8, device=world.device)
        keys = map(str, colours if self._is_coloured else range(len(colours)))
        self.info = {"idToLabels": dict(zip(keys, self._labels, strict=True))}

    def picture(self, geoms: torch.Tensor) -> torch.Tensor:
        """Return the classes of geoms, ``(k, height, width, 4)`` colours or ``1`` number.

        Args:
            geoms: Their indices, -1 where none is seen, ``(k, height, width)``.
        """
        numbers = self._numbers[geoms.long() + 1]
        return self._colours[numbers] if self._is_coloured else numbers[..., None].int()

    def number(self, model: mujoco.MjModel) -> None:
        """Find the class of each geom; before, nothing of the model can be shown."""
        found = [0]  # of no geom
        for geom in range(model.ngeom):
            body = int(model.geom_bodyid[geom])
            path = model.body(body).name if body else model.geom(geom).name
            thing = self._world.thing_at(path)
            found.append(1 if thing is None else self._of_thing.get(thing[0], 1))
        self._numbers = torch.tensor(found, device=self._world.device)

    def _colour(self, cfg: Any, number: int) -> tuple[int, ...]:
        label = self._labels[number]
        names = [f"{kind}:{name}" for kind, name in label.items()]
        chosen = dict(getattr(cfg, "semantic_segmentation_mapping", None) or {})
        for name in names:
            if name in chosen:
                return tuple(int(value) for value in chosen[name])
        if number == 0:
            return 0, 0, 0, 0
        parts = (0.618, 0.414, 0.236)
        return (*(int(255 * (number * part % 1.0)) for part in parts), 255)
