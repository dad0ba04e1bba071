"""The path of a request to the console, as it is sent to the cluster.

A request is allowed or rejected by its path. Servers and clients rewrite paths with dots, empty segments,
encoded slashes or backslashes in different ways, so such a path could be allowed here and then reach another
resource. They are rejected, because no page of the console and no object's name needs one.
"""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, unquote

_PLAIN = re.compile(r"/|(?:/(?!\.{1,2}(?:/|$))[^/\\%\x00-\x1f\x7f]+)+/?")
_API = ("/api", "/apis", "/version", "/at", "/history")
# Subresources that change things in a pod although the method is GET.
_ACTS = ("/exec", "/attach", "/portforward")
# All characters that a query may have, and the percent sign of those that are encoded already.
_IN_QUERY = "!$&'()*+,;=:@/?-._~%"

NOT_PLAIN = "the path is not in its plain form: without dots, empty parts and encoded slashes"
"""The answer to a request with another path."""


def plain_path(scope: Mapping[str, Any]) -> str | None:
    """Return the path of a request as the client has encoded it, or None if servers may read it as different paths."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    try:
        path = raw.decode("ascii")
        decoded = unquote(path, errors="strict")
    except UnicodeDecodeError:
        return None
    # Reject encoded slashes: only some servers would treat them as separators.
    plain = _PLAIN.fullmatch(decoded) and path.count("/") == decoded.count("/")
    return path if plain and "?" not in path and "#" not in path else None


def forward_target(scope: Mapping[str, Any]) -> str | None:
    """Return the target of a request to the Kubernetes API, or None if the request is for something else."""
    path = plain_path(scope)
    if path is None or not any(path == one or path.startswith(f"{one}/") for one in _API):
        return None
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{quote(query, safe=_IN_QUERY)}" if query else path


def acts_in_pod(path: str) -> bool:
    """True if a WebSocket to this path runs commands in a pod or exchanges data with it."""
    return unquote(path).rstrip("/").endswith(_ACTS)


def is_terminal(path: str) -> bool:
    """True if the path is that of a terminal."""
    return path.endswith("/exec")
