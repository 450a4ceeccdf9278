"""Clone a task's scripted policy from demonstrations, as a contender of an experiment.

    python clone.py --task=Isaac-Lift-Cube-Franka-IK-Abs-v0 --demonstrations=50 --seed=0 ...

The demonstrations are recorded with the run's seed. Frames are those of the rollouts that choose
the best checkpoint; the number of iterations is in proportion to them. It writes the run
of ``envlab train bc``, and ``played.json``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ITERATIONS = 100
"""Of a full training."""
FRAMES = {"Isaac-Lift-Cube-Franka-IK-Abs-v0": 62_500, "Isaac-Reach-Franka-IK-Abs-v0": 90_000}
"""By task, those of its five rollouts: an episode of each of 50 environments."""
FILE = Path("demonstrations.hdf5")


def main() -> None:
    """Record, clone and play."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", choices=FRAMES, required=True)
    parser.add_argument("--demonstrations", type=int, required=True, help="episodes that succeeded")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--max_frames", type=float, required=True)
    parser.add_argument("--num_episodes", type=int, required=True, help="to play with the policy")
    flags = parser.parse_args()
    for left in (FILE, Path("logs")):  # by a run that was killed
        if left.is_dir():
            shutil.rmtree(left)
        left.unlink(missing_ok=True)
    common = [f"--task={flags.task}", "--device=cpu"]
    num = flags.demonstrations
    episodes = [f"--num_envs={num}", f"--num_episodes={num}", "--succeeded_only"]
    output = ["--format=hdf5", f"--output={FILE}"]
    _envlab("record", "scripted", *common, f"--seed={flags.seed}", *episodes, *output)
    iterations = max(2, round(ITERATIONS * flags.max_frames / FRAMES[flags.task]))
    learn = [f"--dataset={FILE}", "--num_envs=50", f"--max_iterations={iterations}"]
    learn.append(f"agent.num_demonstrations={num}")
    _envlab("train", "bc", *common, f"--seed={flags.seed}", "--headless", *learn)
    played = [
        f"--num_episodes={flags.num_episodes}",
        "--num_envs=50",
        "--json=played.json",
        "--no_export",
    ]
    _envlab("play", "bc", *common, "--checkpoint=latest", "--headless", *played)


def _envlab(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "envlab", *words], check=True)


if __name__ == "__main__":
    main()
