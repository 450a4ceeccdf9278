"""Models and constants of the Unitree Go1's tasks."""

MODEL = "envlab_assets:robots/go1.xml"
"""The model as in Isaac Lab 2.3.2."""
MJLAB_MODEL = "envlab_assets:robots/go1_mjlab.xml"
"""The model as in mjlab 1.6.0."""
PLAYGROUND_MODEL = "envlab_assets:robots/go1_playground.xml"
"""The model as in MuJoCo Playground's Go1Getup."""
FEET = ["FR", "FL", "RR", "RL"]
"""Sites of the feet."""
MJLAB_ACTION_SCALE = {".*_(hip|thigh)_joint": 0.372753, ".*_calf_joint": 0.248502}
"""A quarter of the torque limit over the stiffness, in rad, by motor."""
