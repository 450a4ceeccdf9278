"""A YAM arm lifts cubes to places in the air, told or seen; mjlab 1.6.0's tasks."""
