"""Evaluations that ``envlab play`` saves in a run, with the checkpoint that was played.

``checkpoints/evaluation_300.json`` is of the policy of iteration 300, in the unchanged task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envlab.distributed.disk import whole_file
from envlab.foreign import parse_json, read_text
from envlab.run.records import number_at

NAMES = {
    **{"success_rate": "success rate", "falls_per_hour": "falls per hour"},
    **{"lin_vel_error": "error of velocity", "ang_vel_error": "error of turning"},
    **{"mpkpe": "MPKPE in the world", "r_mpkpe": "MPKPE relative to the anchor"},
    **{"joint_vel_error": "error of joint velocities"},
    **{"ee_pos_error": "error of hands and feet", "ee_ori_error": "error of their angles"},
}
"""What people read, by name."""
TRACKED = tuple(name for name in NAMES if "error" in name or "mpkpe" in name)
"""Distances from what is commanded."""


def keep_evaluation(folder: Path, values: Mapping[str, Any]) -> Path | None:
    """Save an evaluation with its checkpoint, unless the run has one over more episodes.

    Args:
        folder: The run's ``checkpoints/``.
        values: With ``num_episodes``, and the policy's ``iteration``, ``frames`` and ``wall_s``.

    Returns:
        The file; None if it was left as it is.
    """
    path = folder / f"evaluation_{values['iteration']}.json"
    there = read_evaluations(folder).get(values["iteration"], {}).get("num_episodes", 0)
    if there > values["num_episodes"]:
        return None
    with whole_file(path) as stream:
        stream.write(json.dumps(dict(values), indent=1).encode() + b"\n")
    return path


def read_evaluations(folder: Path) -> dict[int, dict[str, Any]]:
    """Return the evaluations in a run's ``checkpoints/`` by iteration, without damaged ones."""
    found = {}
    for path in folder.glob("evaluation_*.json"):
        try:
            values = parse_json(read_text(path))
        except (OSError, ValueError):
            continue
        counts = {"num_episodes", "iteration", "frames", "wall_s"}
        if all(number_at(values, count) is not None for count in counts):
            found[int(values["iteration"])] = values
    return dict(sorted(found.items()))
