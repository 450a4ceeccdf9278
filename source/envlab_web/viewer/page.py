"""The process of the page: viser's server, which draws each frame from the run."""

from __future__ import annotations

import math
import os
import time
from multiprocessing.connection import Connection

import mujoco
import numpy as np
import viser
from mjviser import ViserMujocoScene

from envlab_web.address import take_address
from envlab_web.viewer.gamepad import Gamepad
from envlab_web.viewer.guard import serve_viser
from envlab_web.viewer.handset import Handset
from envlab_web.viewer.marks import Marks
from envlab_web.viewer.messages import RATE_HZ, TRAINING_RATE_HZ, Frame, Stage
from envlab_web.viewer.panel import Panel
from envlab_web.viewer.scenery import Ground, Scenery, extent_of, painted_meshes, spots_of


def main(connection: Connection, stage: Stage) -> None:
    """Serve the page until the run, at the other end of ``connection``, has ended.

    Raises:
        EnvlabError: If there is no free address.
    """
    if not stage.is_played:
        os.nice(19)  # training has priority, even if it keeps all cores busy
    address = take_address(stage.port)
    devices = Handset(len(stage.axes)) if stage.axes else Gamepad()
    page = Page(serve_viser(address, stage.title, devices), stage, devices)
    try:
        connection.send((address.url, address.lines("Viewer")))
        while True:
            page.exchange(connection)
    finally:
        page.server.stop()


class Page:
    """The scene and its controls."""

    def __init__(self, server: viser.ViserServer, stage: Stage, devices: Gamepad | Handset) -> None:
        self.server, self._stage, self._devices = server, stage, devices
        model = stage.model
        server.gui.configure_theme(
            show_logo=False,
            show_share_button=False,  # it would publish the scene on a third party's server
            control_layout="collapsible",  # next to the scene, not in front of it
        )
        server.gui.set_panel_label("envlab")
        self.panel = Panel(server, stage)
        with painted_meshes():
            self._scene = ViserMujocoScene(server, model, stage.num_shown)
            self._scenery = Scenery(server, stage)
        # mjviser's environment map and viser's shadows look better, but if a CPU draws the page,
        # as on many a remote desktop, they slow it from 50 frames per second to 1.
        server.scene.configure_environment_map(None)
        server.scene.configure_default_lights(cast_shadow=False)
        server.scene.add_light_hemisphere(
            "/light", sky_color=(255, 255, 255), ground_color=(140, 140, 150), intensity=1.2
        )
        self.panel.shadows.on_update(
            lambda _: server.scene.configure_default_lights(cast_shadow=self.panel.shadows.value)
        )
        self._data = [mujoco.MjData(model) for _ in range(stage.num_shown)]
        self._spots = spots_of(stage)
        self._ground = Ground(server, model)
        self._marks = Marks(server)
        self._followed = (0, 0)
        self._point_camera()

    def exchange(self, connection: Connection) -> None:
        """Ask the run for a frame and draw it; wait if no visitor is watching.

        Raises:
            EOFError: If the run has ended; or OSError.
        """
        start = time.monotonic()
        if not self.server.get_clients():
            if connection.poll(0.2):
                connection.recv()
            return
        self._read_devices()
        connection.send(self.panel.wishes())
        self.draw(connection.recv())
        rate = RATE_HZ if self._stage.is_played else TRAINING_RATE_HZ
        time.sleep(max(0.0, 1.0 / rate - (time.monotonic() - start)))

    def _read_devices(self) -> None:
        if isinstance(self._devices, Handset):
            self.panel.pushes = self._devices.pushes()
            for tap in self._devices.take_taps():
                self.panel.count(tap)
        elif (pushes := self._devices.take()) is not None:
            self.panel.steer(pushes)

    def draw(self, frame: Frame) -> None:
        """Show a frame."""
        panel, scene, model = self.panel, self._scene, self._stage.model
        for row, data in enumerate(self._data):
            data.qpos[:] = frame.qpos[row]
            mujoco.mj_kinematics(model, data)
        followed = frame.wishes.followed
        if (frame.wishes.first, followed) != self._followed:
            panel.forget()
            self._followed = frame.wishes.first, followed
        spots = self._spots - self._spots[followed]
        scene.env_idx, scene.show_only_selected = followed, panel.alone.value
        scene.camera_tracking_enabled = panel.follows.value
        scene.show_contact_forces = scene.show_contact_points = panel.forces.value
        with self.server.atomic():
            scene.update_from_arrays(
                np.stack([data.xpos for data in self._data]) + spots[:, None],
                np.stack([data.xmat.reshape(-1, 3, 3) for data in self._data]),
                qpos=frame.qpos,
                qvel=frame.qvel,
                ctrl=frame.ctrl,
            )
            origin = np.asarray(scene.fixed_bodies_frame.position)
            self._ground.move(-origin)
            self._scenery.move(spots, followed, panel.alone.value)
            is_seen = followed == 0 or not panel.alone.value
            self._marks.draw(frame.markers if is_seen else None, origin + spots[0])
            panel.show(frame)

    def _point_camera(self) -> None:
        """Start with the robot filling the picture, seen from ahead and above."""
        model = self._stage.model
        distance = 1.5 * extent_of(model)
        azimuth, elevation = math.radians(-50.0), math.radians(22.0)
        camera = self.server.initial_camera
        flat = distance * math.cos(elevation)
        camera.position = (
            flat * math.cos(azimuth),
            flat * math.sin(azimuth),
            distance * math.sin(elevation),
        )
        camera.look_at = (0.0, 0.0, 0.0)
        camera.fov = math.radians(45.0)
