"""Parse a moment of a cluster's history: a revision, a time, or a time ago."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from dra_shared.clock import parse_rfc3339

_AGO = re.compile(r"-(?=.)(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?").fullmatch
_REVISION = re.compile(r"\d{1,18}").fullmatch


def parse_moment(text: str, now: datetime) -> int | datetime:
    """Parse a revision or a time: ``1234``, ``now``, ``-5m``, ``-1h30m``, ``2026-01-02T03:04:05Z``.

    Raises:
        ValueError: the text is neither.
    """
    if text == "now":
        return now
    if _REVISION(text):
        return int(text)
    if (ago := _AGO(text)) is not None:
        days, hours, minutes, seconds = (float(part or 0) for part in ago.groups())
        try:
            return now - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        except OverflowError:
            raise ValueError(f"{text} is too long ago") from None
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise ValueError(
            f"not a moment: {text!r}, such as 1234 (a revision), -5m, -1h30m or 2026-01-02T03:04:05Z"
        ) from None
