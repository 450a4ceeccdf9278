"""Isaac Gym's interface on envlab's simulators: ``import isaacgym`` where there is none.

``python -m envlab_isaacgym SCRIPT ...`` runs a script in which ``isaacgym`` is this package;
:func:`install` does so in the current process. Supported names, and differences from PhysX, are in
docs/isaacgym.md. All of it was written from public task code, type stubs and documentation.
"""

from __future__ import annotations


def install() -> None:
    """Let ``import isaacgym`` find this package, in this process.

    Raises:
        ConfigurationError: If Isaac Gym itself can be imported.
    """
    from envlab_isaacgym import shim  # loads torch, which a list of commands does not need

    shim.install()
