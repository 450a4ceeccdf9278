"""Choice of OpenGL for MuJoCo. Does not import mujoco, which reads MUJOCO_GL only once.

Without a display, MuJoCo can render through EGL (on the GPU, or in software by Mesa) or OSMesa
(software), and ``import mujoco`` itself fails if MUJOCO_GL names a missing one. So the command line
tries each in its own process, before anything imports mujoco.
"""

from __future__ import annotations

import importlib
import os
import subprocess
from multiprocessing.connection import Connection

from envlab.child import Child
from envlab.errors import ConfigurationError, EnvlabError

BACKENDS = ("egl", "osmesa")
"""MUJOCO_GL's values that need no display, best first."""

INSTALL_HINT = (
    "On Debian or Ubuntu: apt-get install libegl1 libopengl0 libgl1-mesa-dri (EGL), or libosmesa6 "
    "(OSMesa); in a container with an NVIDIA GPU, start it with NVIDIA_DRIVER_CAPABILITIES=all. "
    "MUJOCO_GL=egl or MUJOCO_GL=osmesa chooses one by hand"
)

_TRIAL_TIMEOUT_S = 60.0

_problems: dict[str, str] = {}


def choose_opengl() -> None:
    """Set MUJOCO_GL to the first OpenGL that works here, or else to ``disable``.

    If the user has set a value, only that is tested. A test takes 0.5 s.
    """
    _problems.clear()
    wanted = os.environ.get("MUJOCO_GL")
    for name in (wanted,) if wanted else BACKENDS:
        problem = try_opengl(name)
        if problem is None:
            os.environ["MUJOCO_GL"] = name
            return
        _problems[name] = problem
    os.environ["MUJOCO_GL"] = "disable"  # so that mujoco can be imported


def provide_opengl() -> None:
    """Let MuJoCo, which is already imported, render without a display if there is none.

    Raises:
        ConfigurationError: If nothing here can.
    """
    if {"MUJOCO_GL", "DISPLAY", "WAYLAND_DISPLAY"} & set(os.environ):
        return
    choose_opengl()
    if os.environ["MUJOCO_GL"] == "disable":
        del os.environ["MUJOCO_GL"]
        raise ConfigurationError(f"No picture can be made ({opengl_problems()}). {INSTALL_HINT}.")
    from mujoco.rendering.classic import gl_context

    importlib.reload(gl_context)  # it read MUJOCO_GL when it was imported


def opengl_problems() -> str:
    """Return the failures of :func:`choose_opengl`, ``MUJOCO_GL=egl: ...; ...``, or ``""``."""
    return "; ".join(f"MUJOCO_GL={name}: {problem}" for name, problem in _problems.items())


def pin_opengl(gpu: int) -> None:
    """Render on CUDA device ``gpu``; call it before the first picture.

    MuJoCo begins with cuda:0 by default, and falls back to Mesa's software only if no device is
    named. So cuda:0 is not named.
    """
    if gpu > 0:
        os.environ.setdefault("MUJOCO_EGL_DEVICE_ID", str(gpu))


def try_opengl(name: str) -> str | None:
    """Render a picture in another process; return the reason if that fails."""
    quiet = subprocess.DEVNULL
    with Child(
        "envlab.sim.opengl:render",
        timeout_s=_TRIAL_TIMEOUT_S,
        environ={"MUJOCO_GL": name},
        stdout=quiet,
        stderr=quiet,
    ) as trial:
        try:
            trial.receive()
        except EnvlabError as error:
            return str(error)
    return None


def render(connection: Connection) -> None:
    """Render a picture, as a child of :func:`choose_opengl`."""
    import mujoco

    model = mujoco.MjModel.from_xml_string("<mujoco/>")
    mujoco.Renderer(model, 16, 16).render()
