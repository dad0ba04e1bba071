"""JSONPath as in kubectl (staging/src/k8s.io/client-go/util/jsonpath): templates of text and paths in braces.

``{.items[*].metadata.name}``, ``{range .items[*]}{.metadata.name}{"\\n"}{end}``, filters, slices, unions, ``..``.
As with ``RelaxedJSONPathExpression`` of kubectl's ``get``, a single path may omit the braces and the first dot.
"""

import re

from dra_shared.jsonpath.syntax import PathError
from dra_shared.jsonpath.template import Template

__all__ = ["PathError", "Template", "path"]

_RELAXED = re.compile(r"\{\.?([^{}]+)\}|\.?([^{}]+)")


def path(expression: str) -> Template:
    """Parse a single path, with or without its braces. As with kubectl, a path that begins with ``$`` finds nothing.

    Raises:
        PathError: the expression is not a path.
    """
    relaxed = _RELAXED.fullmatch(expression)
    if not relaxed:
        raise PathError(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or "
            "'{.name1.name2}'"
        )
    inside = (relaxed[1] or relaxed[2]).removeprefix("$").removeprefix(".")
    return Template(f"{{.{inside}}}")
