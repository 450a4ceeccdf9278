"""Write into docs/from_isaac_lab.md what becomes of projects for Isaac Lab, by their own scripts.

It takes a folder of checkouts, by the repositories' names, and fetches nothing. Each script runs
two iterations with 16 environments on a CPU::

    ISAACLAB_PATH=FOLDER python -m scripts.documentation.isaac_lab_projects ~/projects
    python -m scripts.documentation.isaac_lab_projects --curve RUN  # of a project's task
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from envlab.arguments import ArgumentParser
from envlab.distributed.program import guarded
from envlab_bridge.outcomes import write
from scripts.documentation.tasks import draw_curves

PAGE = Path(__file__).resolve().parents[2] / "docs/from_isaac_lab.md"
IMAGE = PAGE.parent / "images/isaac_lab_project.png"
CURVES = ("mean_return", "Metrics/lin_vel_error")
RSL_RL = "scripts/rsl_rl/train.py"
LONG = "scripts/reinforcement_learning/rsl_rl/train.py"
PROJECTS = (
    ("isaac-sim/IsaacLabExtensionTemplate", RSL_RL, "Template-Isaac-Velocity-Rough-Anymal-D-v0"),
    ("fan-ziqi/robot_lab", LONG, "RobotLab-Isaac-Velocity-Flat-Unitree-A1-v0"),
    ("fan-ziqi/robot_lab", LONG, "RobotLab-Isaac-Velocity-Flat-Unitree-Go2-v0"),
    (
        "MuammerBay/isaac_so_arm101",
        "src/isaac_so_arm101/scripts/rsl_rl/train.py",
        "Isaac-SO-ARM101-Reach-v0",
    ),
    ("unitreerobotics/unitree_rl_lab", RSL_RL, "Unitree-Go2-Velocity"),
    ("YumaMatsumura/template_isaac_lab", RSL_RL, "Template-Template-Isaac-Lab-v0"),
    ("YumaMatsumura/go2_isaac_lab", RSL_RL, "Go2-Isaac-Lab-Velocity-Rough-v0"),
    ("AguLeon/rob6323_go2_project", RSL_RL, "Template-Rob6323-Go2-Direct-v0"),
    ("BDX-R/BDX-R-IsaacLab", RSL_RL, "Bdxr-Velocity-Flat-v0"),
    ("DDTRobot/DDT_Lab", RSL_RL, "DDT-Velocity-Flat-D1-v0"),
    ("ashutoshpanpalia/unitree_go2_stairs", RSL_RL, "Template-Go2-stairs-v0"),
    (
        "Creador270/IsaacLabExtensionSpotMicro",
        RSL_RL,
        "Template-Isaac-Velocity-Flat-Anymal-D-v0",
    ),
    (
        "Field-Robotics-Lab/isaac_lab_walkthrough",
        "scripts/skrl/train.py",
        "Template-Isaac-Lab-Walkthrough-Direct-v0",
    ),
    (
        "JustinCosta10/humanoid_target_move",
        "scripts/rl_games/train.py",
        "Template-Humanoid-Target-Move-Direct-v0 agent.params.config.minibatch_size=512",
    ),
    ("JonTofant/TwoWheeledRobot", RSL_RL, "Template-Twowheeledrobot-Standup-v0"),
    (
        "Gepetto/constraints-as-terminations",
        "scripts/skrl/train.py",
        "Isaac-Velocity-CaT-Flat-Solo12-v0",
    ),
    ("ankitdipto/BALLU_IsaacLab_Extension", RSL_RL, "Template-Isaac-Velocity-Flat-Anymal-D-v0"),
    ("fkfk21/mevius_isaac_lab", RSL_RL, "Isaac-Velocity-Flat-Mevius-v0"),
    ("rt-net/mujina_isaac_lab", RSL_RL, "Isaac-Velocity-Rough-Mujina-v0"),
    ("Hellod035/LeggedLab", "legged_lab/scripts/train.py", "g1_flat"),
    ("zitongbai/legged_lab", RSL_RL, "LeggedLab-Isaac-AMP-G1-v0"),
    ("enactic/openarm_isaac_lab", LONG, "Isaac-Reach-OpenArm-v0"),
    (
        "leggedrobotics/robotic_world_model",
        LONG,
        "Template-Isaac-Velocity-Flat-Anymal-D-Init-v0",
    ),
    (
        "isaac-sim/IsaacLabTutorial",
        "scripts/skrl/train.py",
        "Template-Isaac-Lab-Tutorial-Direct-v0",
    ),
    ("chubarevgeniy/cbr_isaac_lab", "scripts/skrl/train.py", "Template-Cbriisaaclab-Direct-v0"),
)
"""Repositories, their scripts, and a task of each, with overrides for 16 environments."""


def main(arguments: Sequence[str]) -> int:
    """Run the scripts and write the table; return the exit code."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("checkouts", type=Path, nargs="?", help="folder of the checkouts")
    parser.add_argument("--curve", type=Path, metavar="RUN", help="only draw that of a run")
    parser.add_argument("--limit_s", type=float, default=400.0, help="time for a project, in s")
    flags = parser.parse_args(arguments)
    if flags.curve is not None:
        print(draw_curves(flags.curve, CURVES, IMAGE))
        return 0
    lines = ["| project | commit | task | what became of it |", "|---|---|---|---|"]
    for name, script, task in PROJECTS:
        folder = flags.checkouts / name.rpartition("/")[2]
        if not (folder / script).is_file():
            continue
        words = [name, commit(folder), f"`{task}`", outcome(folder, script, task, flags.limit_s)]
        lines.append(f"| {' | '.join(words)} |")
        print(lines[-1], flush=True)
    write(PAGE, Path(__file__).name, "\n".join(lines))
    return 0


def commit(folder: Path) -> str:
    """Return the commit of a checkout."""
    command = ["git", "log", "--format=%h", "-1"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True).stdout.strip()


def outcome(folder: Path, script: str, task: str, limit_s: float) -> str:
    """Return what becomes of two iterations."""
    name, *overrides = task.split()
    command = [sys.executable, "-m", "envlab_isaaclab", script, f"--task={name}", "--headless"]
    command += ["--num_envs=16", "--max_iterations=2", *overrides]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"takes longer than {limit_s:g} s"
    counts = "rsl_rl" in script or "legged_lab" in script
    if done.returncode == 0 and (not counts or "Learning iteration 1/2" in done.stdout):
        return "trains"
    lines = (done.stderr + done.stdout).splitlines()
    told = [line for line in lines if re.match(r"error: |\w*Error: |This run failed", line)]
    last = told[0] if told else f"ends with code {done.returncode}"
    return last.removeprefix("error: ").replace(f"{folder}/", "").replace("|", "/")


if __name__ == "__main__":
    sys.exit(guarded(main, sys.argv[1:]))
