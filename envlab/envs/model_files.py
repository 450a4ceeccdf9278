"""Finding and reading model files: MJCF or URDF, from a path, a package, or the Menagerie.

MuJoCo's own messages name no file, and no line in an included file; those of :func:`read_spec` and
:func:`compile_spec` name both. Networks are files of TorchScript, which run no code beyond its own.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Any

import mujoco
import torch

from envlab.envs._model_sources import Source, read_sources
from envlab.errors import ConfigurationError, SimulationError

SUFFIXES = (".xml", ".mjcf", ".urdf")
"""Suffixes of model files."""

_OPTION = "env.scene.model"

_VISUAL = re.compile(r"<visual\b.*?</visual>", re.DOTALL)
_MATERIAL = re.compile(r"<material\b[^>]*?(/>|>.*?</material>)", re.DOTALL)


def find_model(source: str, option: str = _OPTION) -> Path:
    """Return the model file that ``source`` names; see :func:`find_file`.

    Raises:
        SimulationError: If there is no such file, or it is not MJCF or URDF.
    """
    path = find_file(source, option)
    if path.suffix.lower() not in SUFFIXES:
        raise SimulationError(
            f"{option} is {source!r}, but a file that ends in {path.suffix or 'nothing'!r} is no "
            "model that MuJoCo reads. Give MJCF (.xml, .mjcf) or URDF (.urdf)."
        )
    return path


def find_file(source: str, option: str = _OPTION) -> Path:
    """Return the file that ``source`` names.

    Args:
        source: A path, ``package:path/inside/it.xml``, or ``menagerie:robot`` or
            ``menagerie:robot/entry``, from the package ``mujoco-menagerie``.
        option: Path of the configuration, for errors.

    Raises:
        SimulationError: If there is no such file.
    """
    path = Path(source)
    package, colon, relative = source.partition(":")
    if colon and not path.exists():
        if package == "menagerie":
            path = _find_in_menagerie(source, relative, option)
        else:
            path = package_folder(source, package, option) / relative
    if path.is_dir() and source:
        found = sorted(file.name for file in path.iterdir() if file.suffix in SUFFIXES)
        raise SimulationError(
            f"{option} is {source!r}, but {path} is a folder, and must be a file. "
            f"It holds {', '.join(found[:8]) or 'no model'}{', ...' if len(found) > 8 else '.'}"
        )
    if not path.is_file():
        raise SimulationError(
            f"{option} is {source!r}, but {path} is not a file. Give a path, package:path or "
            "menagerie:robot."
        )
    return path


def is_urdf(path: Path) -> bool:
    """Return whether a model file holds URDF, judging by its outermost element."""
    return re.search(r"<(?![?!])\s*([\w:]+)", _text(path)).group(1) == "robot"  # type: ignore[union-attr]


def urdf_moves_freely(path: Path) -> bool | None:
    """Return whether a URDF robot moves freely: by custom, unless it has a link called ``world``.

    None if the file is not URDF.
    """
    if not is_urdf(path):
        return None
    return re.search(r"<link\s[^>]*name\s*=\s*[\"']world[\"']", _text(path)) is None


def one_material_each(text: str) -> str:
    """Return a model's text with the first ``<material>`` alone in each ``<visual>`` of URDF.

    Exporters write one for each part of a mesh, which URDF does not have and MuJoCo refuses.
    """
    return _VISUAL.sub(lambda visual: _keep_first(_MATERIAL, visual.group()), text)


def _keep_first(pattern: re.Pattern[str], text: str) -> str:
    """Return a text without all matches but the first; lines keep their numbers."""
    found = pattern.search(text)
    if found is None:
        return text
    end = found.end()
    return text[:end] + pattern.sub(lambda one: "\n" * one.group().count("\n"), text[end:])


def read_spec(path: Path) -> mujoco.MjSpec:
    """Parse a model file.

    Links without a joint are kept in URDF, as terms may name them.

    Raises:
        SimulationError: For a file that cannot be read, naming file and line.
    """
    if not _text(path).strip():
        raise SimulationError(f"The model {path} is empty. Give a file with MJCF or URDF in it.")
    try:
        if path.suffix.lower() == ".mjcf":  # which MuJoCo does not read from a file
            spec = mujoco.MjSpec.from_string(read_sources(path).text)
            spec.modelfiledir = str(path.parent)
        elif (text := one_material_each(_text(path))) != _text(path):
            spec = mujoco.MjSpec.from_string(text)
            spec.modelfiledir = str(path.parent)
        else:
            spec = mujoco.MjSpec.from_file(str(path))
    except ValueError as error:
        raise _refusal(error, path, compiled=False) from None
    if is_urdf(path):
        spec.compiler.fusestatic = False
    return spec


def compile_spec(spec: mujoco.MjSpec, path: Path) -> mujoco.MjModel:
    """Compile the result of :func:`read_spec` for ``path``.

    Raises:
        SimulationError: If MuJoCo refuses it, naming file and line.
    """
    try:
        return spec.compile()
    except ValueError as error:
        raise _refusal(error, path, compiled=True) from None


def _refusal(error: ValueError, path: Path, *, compiled: bool) -> SimulationError:
    """Return the error for a model that MuJoCo refuses, with the place in the files."""
    sources = read_sources(path)
    reason, line = _reason_and_line(error)
    if not line and sources.has_includes:
        reason, line = _reason_in_one_text(sources, path, compiled) or (reason, line)
        file, line = sources.place(line) if line else (path, 0)
    else:
        file = path
    missing = re.search(r"Error opening file '(.+)'", reason)
    if missing:
        name = re.split(r"[/\\]", missing.group(1))[-1]
        file, line = sources.find(name) or (file, line)
        reason = (
            f"the file {missing.group(1)!r} does not exist; paths are relative to {path.parent}, "
            "and to meshdir or texturedir below it"
        )
    place = f"{file}, line {line}" if line else f"{file}"
    return SimulationError(f"MuJoCo cannot compile {place}: {reason}. Correct it there.")


def _reason_and_line(error: ValueError) -> tuple[str, int]:
    """Return MuJoCo's message in one line without its prefix, and the line it names or 0."""
    text = str(error)
    line = re.search(r"\bline (?:number=)?(\d+)|Line number=(\d+)", text)
    number = int(line.group(1) or line.group(2)) if line else 0
    element = re.search(r"Element '(\w+)'", text)
    name = re.search(r"Element name '([^']+)'", text)
    reason = re.sub(r"\n?Element (name )?'.*", "", text, flags=re.DOTALL)
    reason = re.sub(r"^((XML )?Error:\s*|ParseXML:\s*)+", "", reason)
    reason = " ".join(reason.split()).rstrip(".")
    if element:
        reason += f" (<{element.group(1)}>)"
    elif name:
        reason += f" ({name.group(1)})"
    return reason, number


def _reason_in_one_text(sources: Source, path: Path, compiled: bool) -> tuple[str, int] | None:
    """Return MuJoCo's reason and line for the model with all includes written out, if it has one.

    MuJoCo reports line 0 for everything from an included file.
    """
    try:
        spec = mujoco.MjSpec.from_string(sources.text)
        spec.modelfiledir = str(path.parent)
        if compiled:
            spec.compile()
    except ValueError as error:
        return _reason_and_line(error)
    return None


def package_folder(source: str, package: str, option: str = _OPTION) -> Path:
    """Return the folder of a package, for a file that ``source`` names in it, in ``option``.

    Raises:
        SimulationError: If there is no such package.
    """
    # Found without an import, which would run it: an untrusted configuration may name any package.
    top, *below = package.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    folders = [] if spec is None else spec.submodule_search_locations or []
    found = [folder for each in folders if (folder := Path(each, *below)).is_dir()]
    if not found:
        raise SimulationError(
            f"{option} is {source!r}, but there is no package {package!r}. Install it with: "
            f"pip install {package.replace('_', '-')}"
        )
    return found[0]


def _find_in_menagerie(source: str, relative: str, option: str) -> Path:
    """Return the file of a robot of MuJoCo Menagerie, which its package downloads where needed."""
    try:
        import mujoco_menagerie
    except ModuleNotFoundError:
        raise SimulationError(
            f"{option} is {source!r}, which needs the package 'mujoco-menagerie'. Install it "
            "with: pip install -c constraints.txt -e '.[menagerie]'"
        ) from None
    name, _, entry = relative.partition("/")
    try:
        robot = mujoco_menagerie.get(name)
        return Path(robot.xml(entry or robot.default_model))
    except (mujoco_menagerie.MenagerieError, OSError) as error:
        reason = str(error.args[0] if error.args else error).rstrip(".?")
        raise SimulationError(
            f"{option} is {source!r}, but MuJoCo Menagerie cannot give it: {reason}. Without a "
            "network, set MENAGERIE_ROOT to a checkout of it."
        ) from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SimulationError(
            f"The model {path} cannot be read: {error.strerror}. Make it readable."
        ) from None


def load_network(file: str, option: str, device: torch.device, *, others: str = "") -> Any:
    """Return a network in evaluation, whose weights stay as they are.

    Args:
        file: A path, or ``package:path`` for a file in a package.
        option: The setting that names it, for errors.
        device: Where it is to compute.
        others: What the setting may name besides, for errors: ``", or one of a, b"``.

    Raises:
        ConfigurationError: If there is no such file, or it is not TorchScript.
    """
    package, colon, inside = file.partition(":")
    path = package_folder(file, package, option) / inside if colon else Path(file).expanduser()
    if not path.is_file():
        raise ConfigurationError(
            f"{option} is {file!r}, which does not exist. Give the path of a TorchScript file"
            f"{others}."
        )
    try:
        network = torch.jit.load(str(path), map_location=device).eval()
    except RuntimeError as error:
        raise ConfigurationError(
            f"{option} {file} is not TorchScript ({str(error).splitlines()[0]:.80}). Save one by "
            "torch.jit.script(network).save()."
        ) from error
    for parameter in network.parameters():
        parameter.requires_grad_(False)
    return network
