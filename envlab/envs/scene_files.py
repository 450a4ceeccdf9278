"""A compiled scene as files that MuJoCo opens: an MJCF, and its meshes, textures and fields."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mujoco

ASSETS = "assets"
"""Folder of the files beside ``scene.xml``."""


def absolute_files(spec: mujoco.MjSpec) -> None:
    """Give the files that a specification reads their whole paths, which hold in another."""
    for one, folder in _readers(spec):
        if not Path(one.file).is_absolute():
            one.file = str(Path(spec.modelfiledir, folder, one.file).resolve())


def write_scene(spec: mujoco.MjSpec, folder: Path) -> list[Path]:
    """Write ``scene.xml`` and copies of the files that it reads.

    Args:
        spec: A compiled scene; it is changed.
        folder: Where to, a folder that exists.

    Returns:
        What was written.
    """
    absolute_files(spec)
    spec.meshdir = spec.texturedir = ""
    written: list[Path] = []
    with warnings.catch_warnings():  # about attachments, which were logged
        warnings.simplefilter("ignore", UserWarning)
        text = str(spec.to_xml())
    sources = {one.file for one, _ in _readers(spec)}
    for number, source in enumerate(sorted(sources)):
        (folder / ASSETS).mkdir(exist_ok=True)
        target = folder / ASSETS / f"{number}_{Path(source).name}"
        shutil.copyfile(source, target)
        text = text.replace(f'"{source}"', f'"{ASSETS}/{target.name}"')
        written.append(target)
    (folder / "scene.xml").unlink(missing_ok=True)  # it could be a link to another file
    (folder / "scene.xml").write_text(text)
    return [folder / "scene.xml", *written]


def _readers(spec: mujoco.MjSpec) -> Iterator[tuple[Any, str]]:
    """Yield the parts of a specification that read files, and the folders of these."""
    for one in (*spec.meshes, *spec.hfields, *spec.skins):
        if one.file:
            yield one, spec.meshdir
    for one in spec.textures:
        if one.file:
            yield one, spec.texturedir
