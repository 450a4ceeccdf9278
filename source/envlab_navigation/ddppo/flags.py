"""Flags of DD-PPO, beside those that all libraries have."""

from __future__ import annotations

import argparse

from envlab_navigation.ddppo.experiment_words import add_experiment_flags


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add them."""
    add_experiment_flags(parser)
    parser.add_argument(
        "--preemption_threshold",
        type=float,
        metavar="SHARE",
        help="share of the processes that must be done collecting before the others are stopped; "
        "1 (default): rollouts are never cut short",
    )
    parser.add_argument(
        "--replay_rollouts",
        metavar="RUN",
        help="cut rollouts short where this run's processes did, to repeat it bit by bit",
    )
