"""The path of a request to the console, as it reaches the cluster.

Whether a request may pass is decided by its path. Servers and clients rewrite paths with dots, empty segments, encoded
slashes or backslashes in different ways, so that such a path may mean another one behind the decision. No page of the
console has one, and no object's name makes one necessary.
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
    """Return the path of a request as the client has encoded it, None if it may mean more than one path."""
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
    """Return the target of a request to the Kubernetes API, None if it is to anything else."""
    path = plain_path(scope)
    if path is None or not any(path == one or path.startswith(f"{one}/") for one in _API):
        return None
    query = scope.get("query_string", b"").decode("latin-1")
    return f"{path}?{quote(query, safe=_IN_QUERY)}" if query else path


def acts_in_pod(path: str) -> bool:
    """True if a WebSocket to this path runs commands in a pod or talks with it."""
    return unquote(path).rstrip("/").endswith(_ACTS)


def is_terminal(path: str) -> bool:
    """True if the path is that of a terminal."""
    return path.endswith("/exec")
