"""The API server's limits, from the constants that it checks."""

from dra_apiserver.app import MAX_REQUESTS, MAX_WATCHES
from dra_apiserver.config import Config
from dra_apiserver.http import BODY_LIMIT, MOST_PARAMETERS
from dra_shared.httpserver import HEADER_BYTES, HEADER_TIMEOUT, IDLE_TIMEOUT
from dra_shared.jsontext import MAX_DEPTH

from tools.reference.markdown import table

_MEBIBYTE = 1 << 20


def limits() -> str:
    """Return the table of the limits."""
    rows = [
        ["a body, compressed or not", f"{BODY_LIMIT // _MEBIBYTE} MiB"],
        ["nesting of a body", f"{MAX_DEPTH} levels (upstream: 10,000)"],
        ["aliases in YAML", "as many as Go's library allows"],
        ["a request's line and headers", f"{HEADER_BYTES // _MEBIBYTE} MiB, {HEADER_TIMEOUT:g} s"],
        ["parameters of a query", f"{MOST_PARAMETERS:,}"],
        ["an idle connection", f"{IDLE_TIMEOUT} s"],
        ["requests at the same time", f"{MAX_REQUESTS:,}; more get 429"],
        ["watches at the same time", f"{MAX_WATCHES:,}; more get 429"],
        ["an Event", f"deleted {Config().event_ttl / 60:g} minutes after it was last written"],
    ]
    return table(["what", "limit"], rows)
