"""Pictures of houses: maps from above, paths on them, and agents' views next to them."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from envlab_navigation.camera import Camera
from envlab_navigation.floor_plan import Rectangle
from envlab_navigation.furniture import BOX, CLASSES, FIRST_TARGET
from envlab_navigation.house import CELL, stamp
from envlab_navigation.house_cache import Arrays
from envlab_navigation.nav_cfg import CameraCfg, ImageKind

PIXELS_PER_M = 48
WALL_COLOUR = (40, 40, 45)
OUTSIDE_COLOUR = (245, 245, 245)
WAY_COLOUR = (20, 90, 220)
GOAL_COLOUR = (30, 170, 60)
SHORTEST_COLOUR = (255, 255, 255)
_NUM_PLACES = 96
"""Number of places among which those of pictures are chosen."""
_LEAST_SHARE = 0.005
"""Minimum share of a picture for a class to count."""
_GAP = 4
"""Pixels between pictures."""


def draw_map(house: Arrays, goal: int | None = None) -> Image.Image:
    """Return a house seen from above, with x to the right and y upwards.

    Args:
        house: The house.
        goal: A goal whose cells of arrival are shown in green.
    """
    height, width = (round(cells * CELL * PIXELS_PER_M) for cells in house["free"].shape)
    floor = (255 * house["paints"][:, 0, :3]).clip(0, 255).astype(np.uint8)[house["room_of"]]
    floor[~_is_inside(house)] = OUTSIDE_COLOUR
    if goal is not None:
        floor[house["fields"][goal] == 0] = GOAL_COLOUR
    picture = Image.fromarray(np.ascontiguousarray(floor[::-1])).resize((width, height), 0)
    pen = ImageDraw.Draw(picture)
    for x, y, half_x, half_y in house["walls"]:
        if half_x > 0:
            pen.rectangle(_box(x, y, half_x, half_y, height), fill=WALL_COLOUR)
    shapes = house["primitives"]
    for index in np.argsort(shapes[:, 5], kind="stable"):  # the highest last
        x, y, half_x, half_y, low, _, kind, _ = shapes[index]
        if half_x > 0 and low < 2.0:  # without lintels
            colour = tuple((255 * house["colours"][index]).astype(int).tolist())
            pen_shape = pen.rectangle if kind == BOX else pen.ellipse
            pen_shape(_box(x, y, half_x, half_y, height), fill=colour, outline=(0, 0, 0))
    right = (house["walls"][:, 0] + house["walls"][:, 2]).max() * PIXELS_PER_M
    _label_targets(pen, shapes, (right, height))
    return picture


def draw_way(picture: Image.Image, way: Sequence[tuple[float, float]], yaw: float | None) -> None:
    """Draw an agent's path on a map, and its position and direction.

    Args:
        picture: From :func:`draw_map`; it is changed.
        way: Positions, in m.
        yaw: Direction of the agent, in rad; None: it is not shown.
    """
    pen = ImageDraw.Draw(picture)
    points = [_pixel(x, y, picture.height) for x, y in way]
    if len(points) > 1:
        pen.line(points, fill=WAY_COLOUR, width=3)
    if yaw is not None and points:
        (x, y), size = points[-1], 9
        pen.ellipse(
            (x - size, y - size, x + size, y + size), fill=(255, 255, 255), outline=(0,) * 3
        )
        nose = (x + 2 * size * np.cos(yaw), y - 2 * size * np.sin(yaw))
        pen.line([(x, y), nose], fill=(220, 30, 30), width=4)


def draw_views(house: Arrays, size: int = 192, seed: int = 0) -> Image.Image:
    """Return views from four places of a house: colour above labels above depth.

    The places are chosen among many random ones, so that together they show the most classes.
    """
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(house["free"])
    chosen = rng.integers(len(rows), size=_NUM_PLACES)
    pose = np.zeros((_NUM_PLACES, 5), np.float32)
    pose[:, 0], pose[:, 1] = (columns[chosen] + 0.5) * CELL, (rows[chosen] + 0.5) * CELL
    pose[:, 2], pose[:, 3] = CameraCfg().mount_m, rng.uniform(0.0, 2.0 * np.pi, _NUM_PLACES)
    labels = take_pictures(house, pose, size=32)["labels"]
    images = take_pictures(house, pose[_most_telling(labels, 4)], size=size)
    coloured = label_colours()[images["labels"][..., 0]]
    depth = np.repeat((255 * (images["depth"] / 8).clip(0, 1)).astype(np.uint8), 3, axis=3)
    gap = ((0, 0), (_GAP, 0), (_GAP, 0), (0, 0))
    kinds = [np.pad(kind, gap, constant_values=255) for kind in (images["rgb"], coloured, depth)]
    return Image.fromarray(np.vstack([np.hstack(list(kind)) for kind in kinds]))


def _most_telling(labels: np.ndarray, count: int) -> list[int]:
    """Return pictures that each add the most classes to those before.

    Args:
        labels: Labels of the pictures, ``(num, height, width, 1)``.
        count: How many pictures to choose.
    """
    pixels = np.stack([(labels == number).sum(axis=(1, 2, 3)) for number in range(len(CLASSES))], 1)
    shows = pixels >= _LEAST_SHARE * labels[0].size
    seen = np.zeros(len(CLASSES), bool)
    chosen: list[int] = []
    for _ in range(count):
        worth = (shows & ~seen).sum(axis=1) + 0.1 * shows.sum(axis=1)
        worth[chosen] = -1.0
        chosen.append(int(worth.argmax()))
        seen |= shows[chosen[-1]]
    return chosen


def take_pictures(house: Arrays, pose: np.ndarray, *, size: int) -> dict[ImageKind, np.ndarray]:
    """Return colours, labels and depths, ``(num, size, size, channels)``, from ``(num, 5)`` poses.

    A pose is x, y, height of the camera in m, yaw in rad and tangent of the pitch.
    """
    camera = Camera(
        CameraCfg(width=size, height=size),
        {name: torch.from_numpy(values[None]) for name, values in house.items()},
        slot=torch.zeros(len(pose), dtype=torch.int32),
        pose=torch.from_numpy(pose),
        goal_class=torch.full((len(pose),), -1, dtype=torch.int32),
        kinds=("rgb", "labels", "depth"),
    )
    images = camera.new_images()
    camera.draw(images, torch.ones(len(pose), dtype=torch.bool))
    return {kind: values.numpy() for kind, values in images.items()}


@functools.cache
def label_colours() -> np.ndarray:
    """Return a colour for each class, uint8 ``(num_classes, 3)``; targets are bright."""
    rng = np.random.default_rng(7)
    colours = rng.integers(40, 150, (len(CLASSES), 3))
    colours[FIRST_TARGET:] = rng.integers(60, 256, (len(CLASSES) - FIRST_TARGET, 3))
    colours[:3] = ((90, 80, 70), (200, 200, 200), (140, 140, 150))
    return colours.astype(np.uint8)


def draw_episode(house: Arrays, goal: int, poses: Sequence[np.ndarray], title: str) -> Image.Image:
    """Return an episode on a map: the goal in green, the path in blue, the shortest one in white.

    Args:
        house: The house of the episode.
        goal: The goal of the episode.
        poses: Poses of the agent in order, ``(5,)`` each.
        title: Written above the map.
    """
    picture = draw_map(house, goal)
    way = [(float(pose[0]), float(pose[1])) for pose in poses]
    points = [_pixel(x, y, picture.height) for x, y in shortest_way(house["fields"][goal], way[0])]
    pen = ImageDraw.Draw(picture)
    if len(points) > 1:
        pen.line(points, fill=SHORTEST_COLOUR, width=2)
    draw_way(picture, way, float(poses[-1][3]))
    (x, y), size = _pixel(*way[0], picture.height), 5
    pen.rectangle((x - size, y - size, x + size, y + size), fill=WAY_COLOUR, outline=(0, 0, 0))
    picture = trimmed(picture, house)
    font = ImageFont.load_default(14)
    width = max(picture.width, round(font.getlength(title)) + 12)
    titled = Image.new("RGB", (width, picture.height + 24), (255, 255, 255))
    titled.paste(picture, (0, 24))
    ImageDraw.Draw(titled).text((6, 4), title, (0, 0, 0), font)
    return titled


def shortest_way(field: np.ndarray, start: tuple[float, float]) -> list[tuple[float, float]]:
    """Return a path down a field of distances, in m, from cell to neighbouring cell.

    Args:
        field: Distances in mm, int16 ``GRID``.
        start: Start of the path.
    """
    row, column = int(start[1] / CELL), int(start[0] / CELL)
    way, padded = [start], np.pad(field, 1, constant_values=np.iinfo(field.dtype).max)
    while field[row, column] > 0:
        around = padded[row : row + 3, column : column + 3]
        down, right = np.unravel_index(around.argmin(), around.shape)
        if around[down, right] >= field[row, column]:
            break
        row, column = row + int(down) - 1, column + int(right) - 1
        way.append(((column + 0.5) * CELL, (row + 0.5) * CELL))
    return way


def trimmed(picture: Image.Image, house: Arrays) -> Image.Image:
    """Return the part of a map that a house covers."""
    walls = house["walls"][house["walls"][:, 2] > 0]
    low, high = walls[:, :2] - walls[:, 2:], walls[:, :2] + walls[:, 2:]
    (x0, y0), (x1, y1) = low.min(axis=0).tolist(), high.max(axis=0).tolist()
    left, bottom = _pixel(x0 - CELL / 2, y0 - CELL / 2, picture.height)
    right, top = _pixel(x1 + CELL / 2, y1 + CELL / 2, picture.height)
    return picture.crop((max(round(left), 0), max(round(top), 0), round(right), round(bottom)))


class EpisodeView:
    """Shows an agent's view, and its path on the map, with its goal and its last action."""

    def __init__(self, size: int = 360) -> None:
        """Show pictures of ``size`` pixels in height, an even number."""
        self._size = size
        self._way: list[tuple[float, float]] = []
        self._map: Image.Image | None = None

    def begin(self) -> None:
        """Begin a new episode, possibly in another house."""
        self._way, self._map = [], None

    def show(self, house: Arrays, pose: np.ndarray, goal: int, lines: Sequence[str]) -> np.ndarray:
        """Return a picture, uint8 ``(height, width, 3)``.

        Args:
            house: House of the agent; read once an episode.
            pose: Pose of the agent, ``(5,)``.
            goal: Its goal.
            lines: Text to write on it.
        """
        if self._map is None:
            self._house, self._map = house, draw_map(house, goal)
        self._way.append((float(pose[0]), float(pose[1])))
        way = self._map.copy()
        draw_way(way, self._way, float(pose[3]))
        seen = take_pictures(self._house, pose[None], size=self._size)["rgb"][0]
        picture = beside(Image.fromarray(seen), way, height=self._size)
        pen, font = ImageDraw.Draw(picture), ImageFont.load_default(16)
        for row, line in enumerate(lines):
            black = (0, 0, 0)
            pen.text((8, 6 + 20 * row), line, (255,) * 3, font, stroke_width=2, stroke_fill=black)
        return np.asarray(picture.crop((0, 0, picture.width // 2 * 2, self._size)))


def beside(*pictures: Image.Image, height: int) -> Image.Image:
    """Return pictures side by side, each ``height`` pixels high."""
    scaled = [
        picture.resize((round(picture.width * height / picture.height), height))
        for picture in pictures
    ]
    joined = Image.new("RGB", (sum(one.width for one in scaled), height))
    left = 0
    for one in scaled:
        joined.paste(one, (left, 0))
        left += one.width
    return joined


def _is_inside(house: Arrays) -> np.ndarray:
    """Return the cells that walls separate from the edge of the map, bool ``GRID``."""
    walls = np.zeros((house["free"].shape[0] + 2, house["free"].shape[1] + 2), bool)
    for x, y, half_x, half_y in house["walls"]:
        if half_x > 0:
            stamp(walls[1:-1, 1:-1], Rectangle(x, y, half_x, half_y), CELL / 2)
    outside = np.zeros_like(walls)
    outside[0] = True
    while ((grown := _grown(outside)) & ~walls != outside).any():
        outside = grown & ~walls
    return ~grown[1:-1, 1:-1]  # the outer faces of walls are outside


def _grown(cells: np.ndarray) -> np.ndarray:
    """Return cells and their four neighbours each, bool."""
    grown = cells.copy()
    grown[1:] |= cells[:-1]
    grown[:-1] |= cells[1:]
    grown[:, 1:] |= cells[:, :-1]
    grown[:, :-1] |= cells[:, 1:]
    return grown


def _pixel(x: float, y: float, height: int) -> tuple[float, float]:
    """Return the pixel of a place in m on a map of ``height`` pixels."""
    return x * PIXELS_PER_M, height - y * PIXELS_PER_M


def _box(x: float, y: float, half_x: float, half_y: float, height: int) -> list[float]:
    """Return a rectangle in pixels, from the upper left to the lower right."""
    return [
        (x - half_x) * PIXELS_PER_M,
        height - (y + half_y) * PIXELS_PER_M,
        (x + half_x) * PIXELS_PER_M,
        height - (y - half_y) * PIXELS_PER_M,
    ]


def _label_targets(pen: ImageDraw.ImageDraw, shapes: np.ndarray, size: tuple[float, int]) -> None:
    right, height = size
    font = ImageFont.load_default(11)
    last = np.zeros(8)
    for shape in shapes:
        x, y, half_x, number = (float(shape[i]) for i in (0, 1, 2, 7))
        is_part = number == last[7] and np.abs(shape[:2] - last[:2]).max() < 0.2
        last = shape
        if half_x > 0 and number >= FIRST_TARGET and not is_part:
            name, white = CLASSES[int(number)], (255, 255, 255)
            left = min(x * PIXELS_PER_M + 5, right - pen.textlength(name, font) - 4)
            where = (left, height - y * PIXELS_PER_M - 6)
            pen.text(where, name, (0, 0, 0), font, stroke_width=2, stroke_fill=white)
