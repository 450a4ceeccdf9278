"""Write docs/images/banner.webp: the films of four policies side by side, for the README.

The films are those of docs/images/policies. Run this again after one of them has changed::

    python scripts/documentation/banner.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image, ImageSequence

IMAGES = Path(__file__).parents[2] / "docs/images"
POLICIES = (
    "Isaac-Velocity-Flat-Unitree-Go2-v0",
    "Isaac-Velocity-Flat-H1-v0",
    "Envlab-Velocity-Parkour-Unitree-Go2-v0",
    "Isaac-Open-Drawer-Franka-v0",
)


def main() -> int:
    """Write the banner."""
    films = [frames(IMAGES / f"policies/{name}.webp") for name in POLICIES]
    # Films differ by a frame or two: the shortest decides, so that no frame is repeated.
    joined = [beside(pictures) for pictures in zip(*films, strict=False)]
    with Image.open(IMAGES / f"policies/{POLICIES[0]}.webp") as film:
        film.load()  # which reads the duration
        duration_ms = film.info["duration"]
    joined[0].save(
        IMAGES / "banner.webp",
        save_all=True,
        append_images=joined[1:],
        duration=duration_ms,
        loop=0,
        quality=60,
        method=6,
    )
    return 0


def frames(path: Path) -> list[Image.Image]:
    """Return the pictures of a film."""
    with Image.open(path) as film:
        return [frame.convert("RGB") for frame in ImageSequence.Iterator(film)]


def beside(pictures: tuple[Image.Image, ...]) -> Image.Image:
    """Join pictures of one height from left to right."""
    row = Image.new("RGB", (sum(picture.width for picture in pictures), pictures[0].height))
    left = 0
    for picture in pictures:
        row.paste(picture, (left, 0))
        left += picture.width
    return row


if __name__ == "__main__":
    sys.exit(main())
