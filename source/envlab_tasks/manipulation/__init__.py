"""Tasks in which an arm reaches, grasps and moves."""
