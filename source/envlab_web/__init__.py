"""Pages for a browser: the viewer of environments, and the dashboard of runs."""
