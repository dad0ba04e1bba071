"""``jsonpatch.escapeKey`` for mutating admission policies.

Mirrors k8s.io/apiserver/pkg/cel/library/jsonpatch.go.
"""

from typing import Final

from dra_shared.cel.declarations import Function, function, overload


def escape_key(key: str) -> str:
    """Escape a key for a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("jsonpatch.escapeKey", overload("string_jsonpatch_escapeKey_string(string) string", escape_key)),
)
