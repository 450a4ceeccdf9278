"""skrl's own flags. They are parsed before skrl, torch or JAX are loaded."""

from __future__ import annotations

import argparse

ALGORITHMS = tuple("ppo a2c rpo trpo sac td3 ddpg dqn ddqn cem amp ippo mappo".split())
FRAMEWORKS = ("torch", "jax")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add ``--algorithm`` and ``--ml_framework``."""
    parser.add_argument(
        "--algorithm",
        type=str.lower,
        choices=ALGORITHMS,
        metavar="NAME",
        help=f"{', '.join(ALGORITHMS)} (default: the agent configuration's)",
    )
    parser.add_argument("--ml_framework", choices=FRAMEWORKS, help="torch (default) or jax")
