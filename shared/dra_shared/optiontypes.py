"""Types of the options of commands, for argparse."""

import argparse
from typing import Any


def number(lowest: float, highest: float | None = None, kind: type[Any] = int) -> Any:
    """Return an argparse type that accepts numbers from ``lowest`` to ``highest``."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None
        # NaN compares with nothing.
        if not value >= lowest or (highest is not None and value > highest):
            bounds = f"at least {lowest}" if highest is None else f"between {lowest} and {highest}"
            raise argparse.ArgumentTypeError(f"{text} is not {bounds}")
        return value

    return read
