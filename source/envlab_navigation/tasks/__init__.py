"""Visual navigation in houses."""
