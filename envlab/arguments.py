"""The parser of every command: errors in flags are one sentence."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from envlab.errors import ConfigurationError


class ArgumentParser(argparse.ArgumentParser):
    """A parser that raises its errors, and accepts no abbreviations."""

    def __init__(self, **kwargs: Any) -> None:
        # Otherwise --num_env would mean --num_envs, or be an error, by accident.
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(f"{message[0].upper()}{message[1:]}. See --help.")
