"""Constants of the 29-joint Unitree G1's tasks, for ``g1_29.xml``, from mjlab 1.6.0."""

MODEL = "envlab_assets:robots/g1_29.xml"
SOLES = "(left|right)_foot[1-7]_collision"
"""Geoms that touch the ground."""
ACTION_SCALE = {
    ".*_(shoulder_(pitch|roll|yaw)|elbow|wrist_roll)_joint": 0.438577,
    "(.*_hip_(pitch|yaw)|waist_yaw)_joint": 0.547546,
    ".*_(hip_roll|knee)_joint": 0.350661,
    ".*_wrist_(pitch|yaw)_joint": 0.0745009,
    "(waist_(pitch|roll)|.*_ankle_(pitch|roll))_joint": 0.438577,
}
"""A quarter of the torque limit over the stiffness, in rad, by motor."""
