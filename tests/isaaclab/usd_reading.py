"""A program: reads a USD file as a robot, and prints what it is as JSON, or why it is none."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from envlab.errors import ConfigurationError
from envlab_isaaclab.usd import read_usd

try:
    robot = read_usd(Path(sys.argv[1]))
except ConfigurationError as error:
    print(error)
    raise SystemExit(2) from error
masses = {body.name: body.mass for body in robot.spec.bodies}
print(json.dumps({"links": robot.links(), "joints": robot.joints(), "masses": masses}))
