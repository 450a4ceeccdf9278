"""Constants of the Booster T1's tasks."""

MODEL = "envlab_assets:robots/t1.xml"
FEET = ["left_foot", "right_foot"]
"""Sites of the feet."""
