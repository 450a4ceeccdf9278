"""Agent configurations, one file per library."""
