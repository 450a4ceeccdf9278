"""A controller that answers like that of ai2thor 5.0.0, without Unity.

It knows one room of 4 by 4 m with a mug at (2, 3), to which every way is straight.
"""

import itertools
import math
import os
import pathlib

import numpy as np

FOLDER = pathlib.Path(os.environ["RECORDED_THOR"])
LOG = FOLDER / "log.txt"
LOST = FOLDER / "lost"
"""Its text names the error that the next move raises."""
MUG = (2.0, 3.0)
ERRORS = {"hang": TimeoutError, "always": TimeoutError, "crash": RuntimeError}


class Event:
    def __init__(self, controller, result=None, success=True):
        x, z, turn, horizon = controller.pose
        far = math.dist((x, z), MUG)
        mug = {"objectType": "Mug", "visible": far <= controller.options["visibilityDistance"]}
        place = {"x": x, "y": 0.9, "z": z}
        agent = {"position": place, "rotation": {"y": turn}, "cameraHorizon": horizon}
        self.metadata = {
            **{"objects": [mug, {"objectType": "Fridge", "visible": True}], "agent": agent},
            **{"actionReturn": result, "lastActionSuccess": success},
        }
        size = controller.options["height"], controller.options["width"]
        self.frame = np.full((*size, 3), int(10 * x) % 256, np.uint8)
        has_depth = controller.options["renderDepthImage"]
        self.depth_frame = np.full(size, z, np.float32) if has_depth else None


class Controller:
    def __init__(self, **options):
        self.options, self.pose = options, (1.0, 1.0, 0.0, 0.0)
        with LOG.open("a") as file:
            view, mode = options["fieldOfView"], options["agentMode"]
            file.write(f"start {options['scene']} {view:.1f} {mode} {os.getpid()}\n")
        self.last_event = Event(self)

    def reset(self, scene):
        self.pose = (1.0, 1.0, 0.0, 0.0)
        self.last_event = Event(self)
        return self.last_event

    def stop(self):
        with LOG.open("a") as file:
            file.write("stop\n")

    def step(self, action, **arguments):
        x, z, turn, horizon = self.pose
        result, success = None, True
        if action == "GetReachablePositions":
            places = itertools.product(range(1, 8), range(1, 4))
            result = [{"x": 0.5 * i, "y": 0.9, "z": 0.5 * j} for i, j in places]
        elif action == "GetShortestPath":
            start = arguments["position"]
            result = {"corners": [start, {"x": MUG[0], "y": 0.0, "z": MUG[1] - 1.0}]}
        elif action == "Teleport":
            place, turn = arguments["position"], arguments["rotation"]["y"]
            x, z, horizon = place["x"], place["z"], arguments["horizon"]
        else:
            if LOST.exists():
                name = LOST.read_text()
                if name != "always":
                    LOST.unlink()
                raise ERRORS[name]("lost")
            if action == "MoveAhead":
                step = self.options["gridSize"]
                way = math.radians(turn)
                to = x + step * math.sin(way), z + step * math.cos(way)
                success = all(0.2 <= value <= 3.8 for value in to)
                x, z = to if success else (x, z)
            sense = {"RotateLeft": -1, "RotateRight": 1}.get(action, 0)
            turn += sense * self.options["rotateStepDegrees"]
            horizon += {"LookUp": -30.0, "LookDown": 30.0}.get(action, 0.0)
        self.pose = (x, z, turn % 360, horizon)
        self.last_event = Event(self, result, success)
        return self.last_event
