"""Decide whether a request is sent again after an error response (client-go's rest/with_retry.go)."""

import re

MAX_RETRIES = 10
"""The number of times that client-go sends a request again."""

_TOO_MANY_REQUESTS = 429
_FAILED = 500
_SECONDS = re.compile(r"[+-]?[0-9]{1,9}")


def retry_after(status: int, field: str | None) -> int | None:
    """Return the seconds to wait before a request is sent again, or None if it must not be.

    ``field`` is the response's ``Retry-After``. Like client-go, ignore one with a date.
    """
    if status != _TOO_MANY_REQUESTS and status < _FAILED:
        return None
    return max(0, int(field)) if field and _SECONDS.fullmatch(field) else None
