"""Lengths of time in the notation of `sleep` and `timeout`."""

import re

#: The value of `infinity`, in seconds.
FOREVER = 10 * 365 * 86400.0

_DURATION = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)")
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_duration(text: str) -> float | None:
    """Return the seconds in ``10``, ``1.5``, ``2m`` or ``infinity``; None if the text is not a duration."""
    if text in ("infinity", "inf"):
        return FOREVER
    match = _DURATION.fullmatch(text)
    return None if match is None else min(float(match[1]) * _UNITS[match[2]], FOREVER)
