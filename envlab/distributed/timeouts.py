"""How long the watchdog waits; apart from it, so that flags can be parsed before torch loads."""

STARTUP_TIMEOUT_S = 600.0
"""How long a rank may make no progress before the first update: things are compiled."""
DEFAULT_TIMEOUT_S = 120.0
"""The same from then on, unless ``--timeout_s`` says otherwise."""
LEAST_TIMEOUT_S = 2.0
"""The least that ``--timeout_s`` may be: heartbeats come each second."""
LOST_AFTER_S = 10.0
"""How long another machine, or a stopped process, may say nothing from then on."""
HICCUP_S = 3.0
"""Silence for so long means nothing: heartbeats come each second, and busy machines delay them."""
