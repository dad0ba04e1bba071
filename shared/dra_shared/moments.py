"""Parse a moment of a cluster's history: a revision, a time, or an offset from now."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from dra_shared.clock import parse_rfc3339
from dra_shared.durations import parse_age

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
    if text.startswith("-") and (ago := parse_age(text[1:])) is not None:
        try:
            return now - timedelta(seconds=ago)
        except OverflowError:
            raise ValueError(f"{text} is too long ago") from None
    try:
        return parse_rfc3339(text)
    except ValueError:
        raise ValueError(
            f"not a moment: {text!r}, such as 1234 (a revision), -5m, -1h30m or 2026-01-02T03:04:05Z"
        ) from None
