"""JSONPath as kubectl has it (staging/src/k8s.io/client-go/util/jsonpath): templates of text and paths in braces.

``{.items[*].metadata.name}``, ``{range .items[*]}{.metadata.name}{"\\n"}{end}``, filters, slices, unions, ``..``.
``RelaxedJSONPathExpression`` of kubectl's ``get`` lets the braces and the first dot of a single path be left out.
"""

import re

from dra_kube.jsonpath.syntax import PathError
from dra_kube.jsonpath.template import Template

__all__ = ["PathError", "Template", "path"]

_RELAXED = re.compile(r"\{\.?([^{}]+)\}|\.?([^{}]+)")


def path(expression: str) -> Template:
    """A single path, with or without its braces; kubectl finds nothing where it begins with ``$``.

    Raises:
        PathError: it is none.
    """
    relaxed = _RELAXED.fullmatch(expression)
    if not relaxed:
        raise PathError(
            "unexpected path string, expected a 'name1.name2' or '.name1.name2' or '{name1.name2}' or "
            "'{.name1.name2}'"
        )
    inside = (relaxed[1] or relaxed[2]).removeprefix("$").removeprefix(".")
    return Template(f"{{.{inside}}}")
