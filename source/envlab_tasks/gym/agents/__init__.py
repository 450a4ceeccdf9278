"""Agent configurations, one file per library and kind of action."""
