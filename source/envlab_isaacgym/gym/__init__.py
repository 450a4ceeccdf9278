"""Methods of ``gymapi.Gym``, by subject."""
