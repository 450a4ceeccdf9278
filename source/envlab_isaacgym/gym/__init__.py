"""Methods of ``gymapi.Gym``, by what they are about."""
