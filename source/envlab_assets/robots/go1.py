"""What tasks of the Unitree Go1 share beside the models."""

MODEL = "envlab_assets:robots/go1.xml"
"""As Isaac Lab 2.3.2 uses it."""
MJLAB_MODEL = "envlab_assets:robots/go1_mjlab.xml"
"""As mjlab 1.6.0 models it."""
PLAYGROUND_MODEL = "envlab_assets:robots/go1_playground.xml"
"""As MuJoCo Playground's Go1Getup has it."""
FEET = ["FR", "FL", "RR", "RL"]
"""Sites of the feet."""
MJLAB_ACTION_SCALE = {".*_(hip|thigh)_joint": 0.372753, ".*_calf_joint": 0.248502}
"""A quarter of the torque limit over the stiffness, in rad, by motor."""
