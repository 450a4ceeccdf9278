"""Which commands envlab.sh installs an extra for, and that those of guests are completed."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from tests.launcher import ROOT
from tests.test_completion import completed

TRAIN = "python -m torch.distributed.run --nproc_per_node=2 scripts/reinforcement_learning"
EXTRAS = {
    f"{TRAIN}/rsl_rl/train.py --task=Isaac-Cartpole-v0 --headless --distributed": "",
    "envlab train rsl_rl --task=Isaac-Cartpole-v0 --nproc 2 --viz native": "",
    "envlab list": "",
    "envlab random --task Isaac-Reach-Franka-Play-v0": "",
    "setup": "",
    "setup --all": "dev",
    "python scripts/reinforcement_learning/rsl_rl/play.py --checkpoint=latest": "export",
    "envlab play rsl_rl --task Isaac-Ant-v0 --checkpoint pretrained": "export",
    "envlab export rsl_rl --task Isaac-Ant-v0": "export",
    "envlab deploy logs/rsl_rl/ant/pretrained/exported": "export",
    "envlab play skrl --task=Isaac-Ant-v0 --ml_framework jax --video": "export jax video",
    f"{TRAIN}/rsl_rl/train.py --task=Isaac-Ant-v0 --viz web": "viewer",
    "envlab view --task Isaac-Ant-v0 --checkpoint latest": "viewer",
    "envlab compare logs/rsl_rl/cartpole": "compare",
    "envlab lineage logs/evolution/run": "compare",
    "envlab evidence page": "compare",
    "envlab evidence run cartpole_a3c": "compare dev",
    "envlab dashboard": "web",
    "envlab train skrl --task=gym:CartPole-v1 --ml_framework=jax": "gym jax",
    "envlab lab run demo.json demo search": "gym lab",
    "python scripts/run_lab.py demo.json demo train": "gym lab",
    "envlab nav houses": "nav",
    f"{TRAIN}/ddppo/train.py --experiment mine.py": "nav",
    "python -m envlab train ddppo --task=Nav-PointNav-Depth-v0 env.backend=ai2thor": "ai2thor nav",
    "envlab random --task LeggedGym-Flat-A1-v0 env.scene.model=menagerie:unitree_a1": "menagerie",
    "accelerate launch scripts/reinforcement_learning/evolution/train.py": "accelerate",
    "python -m envlab_isaacgym legged_gym/scripts/train.py --task=a1": "isaacgym",
    "envlab isaacgym check legged_gym": "isaacgym",
    "python -m envlab.cli warm --task Isaac-Ant-v0": "warp",
    "envlab train rsl_rl --task=Isaac-Ant-v0 env.sim.backend=mujoco_warp": "warp",
    "envlab list /dev/nvidiactl": "warp",  # as envlab.sh has it on a machine with a GPU
    "mkdocs serve": "docs",
    "test": "dev",
    "test -k cartpole": "dev",
    "python -m pytest tests": "dev",
    "python -m pytest": "dev",
    "pytest tests/test_cli.py -k list": "dev",
    "python -m pytest my_reach": "pytest",  # from the output of envlab new
    "ruff format": "dev",
    "python scripts/documentation/commands.py": "dev",
}


def test_the_table_of_extras_knows_the_documented_commands() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    table = pyproject["tool"]["envlab"]["extras"]
    assert table.keys() == pyproject["project"]["optional-dependencies"].keys() - {"test"}  # in dev
    for command, extras in EXTRAS.items():
        found = {extra for extra, pattern in table.items() if re.search(pattern, command)}
        assert found == set(extras.split()), command


def test_a_shell_offers_the_words_that_may_follow(tmp_path: Path):
    words = completed(tmp_path, "envlab cluster l")
    assert "launch" in words
    assert "kill" not in words
