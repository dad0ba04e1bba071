"""Decide whether a request is sent again after an answer of the API server (client-go's rest/with_retry.go)."""

import re

MAX_RETRIES = 10
"""The number of times that client-go sends a request again."""

_TOO_MANY_REQUESTS = 429
_FAILED = 500
_SECONDS = re.compile(r"[+-]?[0-9]{1,9}")


def retry_after(status: int, field: str | None) -> int | None:
    """Return the seconds to wait before a request is sent again, None if it must not be.

    ``field`` is the answer's ``Retry-After``. client-go does not read one with a date either.
    """
    if status != _TOO_MANY_REQUESTS and status < _FAILED:
        return None
    return max(0, int(field)) if field and _SECONDS.fullmatch(field) else None
