"""The watchdog's timeouts, in their own module so that flags can be parsed before torch loads."""

STARTUP_TIMEOUT_S = 600.0
"""How long a rank may make no progress before the first update, as code is compiled."""
DEFAULT_TIMEOUT_S = 120.0
"""The same after the first update, unless ``--timeout_s`` says otherwise."""
LEAST_TIMEOUT_S = 2.0
"""The minimum of ``--timeout_s``, because heartbeats come each second."""
LOST_AFTER_S = 10.0
"""How long another machine, or a stopped process, may be silent after the first update."""
HICCUP_S = 3.0
"""Shorter silence means nothing: heartbeats come each second, and busy machines delay them."""
