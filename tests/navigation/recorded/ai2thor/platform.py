"""The platform that a controller renders with."""


class CloudRendering:
    """Without a display."""
