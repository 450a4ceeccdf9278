"""A biped that follows velocity commands: Agility Robotics Cassie."""
