"""Entry points of navigation: a way to train, and a command."""

from __future__ import annotations

from envlab.commands import Command
from envlab.libraries import Library

DDPPO = Library(
    name="ddppo",
    cfg="envlab_navigation.ddppo.cfg:default_cfg",
    build="envlab_navigation.ddppo.build:build",
    old_state="envlab_navigation.ddppo.build:old_state",
    player="envlab_navigation.ddppo.play:DdppoPlayer",
    bound="envlab_navigation.ddppo.checks:action_bound",
    flags="envlab_navigation.ddppo.flags:DdppoFlags",
    prepare="envlab_navigation.ddppo.experiment_words:prepare",
    file_flag="experiment",
    file_flags=("config_kwargs", "allenact"),
    description="recurrent PPO for agents with cameras, by envlab's own DD-PPO",
)
NAV = Command(
    name="nav",
    main="envlab_navigation.command:main",
    usage="nav houses | evaluate",
    description="houses to navigate; the success of an expert or of random actions",
    words=("houses", "evaluate"),
)
