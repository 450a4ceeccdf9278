"""The parser of every command: errors in flags are one sentence."""

from __future__ import annotations

import argparse
import re
from typing import Any, NoReturn

from envlab.errors import ConfigurationError


def positive(text: str) -> int:
    """Return a whole number above 0, the type of a flag that counts."""
    number = int(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"is {text}, but must be greater than 0")
    return number


class ArgumentParser(argparse.ArgumentParser):
    """A parser that raises its errors, and accepts no abbreviations."""

    def __init__(self, **kwargs: Any) -> None:
        # Otherwise --num_env would mean --num_envs, or be an error, by accident.
        super().__init__(allow_abbrev=False, **kwargs)

    def error(self, message: str) -> NoReturn:
        message = re.sub(r"^argument (\S+): (?=is )", r"\1 ", message)
        raise ConfigurationError(f"{message[0].upper()}{message[1:]}. See --help.")
