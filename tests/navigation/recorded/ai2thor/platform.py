"""What a controller is told to render with."""


class CloudRendering:
    """Without a display."""
