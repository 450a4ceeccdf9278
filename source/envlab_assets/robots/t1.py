"""What tasks of the Booster T1 share beside the model."""

MODEL = "envlab_assets:robots/t1.xml"
FEET = ["left_foot", "right_foot"]
"""Sites of the feet."""
