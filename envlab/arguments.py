"""The parser of every command: what is wrong with its flags is one sentence."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from envlab.errors import ConfigurationError


class ArgumentParser(argparse.ArgumentParser):
    """A parser that raises its errors, and knows no abbreviations."""

    def __init__(self, **kwargs: Any) -> None:
        # Otherwise --num_env would be --num_envs, or an error, by accident.
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(f"{message[0].upper()}{message[1:]}. See --help.")
