"""Grasp the handle of a drawer and pull it open."""

from envlab_tasks.registration import register

register(
    __name__,
    "Isaac-Open-Drawer-Franka-v0",
    "open_drawer_env_cfg:FrankaCabinetEnvCfg",
    "Open a cabinet's drawer with a Panda, controlled by joint positions.",
)
register(
    __name__,
    "Isaac-Open-Drawer-Franka-Play-v0",
    "open_drawer_env_cfg:FrankaCabinetPlayEnvCfg",
    "Isaac-Open-Drawer-Franka-v0 with few environments, for playing.",
)
