"""The tasks: one folder a family, one folder a task. Importing a folder registers its tasks."""
