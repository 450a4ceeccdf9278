"""Entry point of imitation: a way to train."""

from __future__ import annotations

from envlab.libraries import Library

BC = Library(
    name="bc",
    cfg="envlab_imitation.cfg:default_cfg",
    build="envlab_imitation.learner:build",
    player="envlab_imitation.play:BcPlayer",
    flags="envlab_imitation.flags:BcFlags",
    description="behaviour cloning from a file of demonstrations",
    packages={"rsl-rl-lib": "rsl_rl.runners"},
)
