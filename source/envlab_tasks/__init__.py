"""The tasks: one folder a family, one folder a task. Importing this package registers them all.

A task's ``__init__`` holds nothing but its registration, so that this costs milliseconds.
"""

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    if _module.ispkg:
        importlib.import_module(_module.name)
