"""The types of an AdmissionReview's response (`admission/v1/types.go`), with which upstream's client decodes it."""

from __future__ import annotations

import functools
from typing import Any

from dra_apiserver.schema.reader import Reader
from dra_apiserver.schema.types import Struct

_PACKAGE = "io.k8s.api.admission.v1"
_STATUS = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.Status"


def _text(go: str) -> dict[str, Any]:
    return {"type": "string", "x-go": [go, "e"]}


_RESPONSE: dict[str, Any] = {
    "type": "object",
    "x-go": ["v1.AdmissionResponse", "*e"],
    "properties": {
        "uid": _text("types.UID"),
        "allowed": {"type": "boolean", "x-go": ["bool", ""]},
        "status": {"allOf": [{"$ref": _STATUS}], "x-go": ["v1.Status", "*e"]},
        "patch": {"type": "string", "format": "byte", "x-go": ["[]uint8", "e"]},
        "patchType": {"type": "string", "x-go": ["v1.PatchType", "*e"]},
        "auditAnnotations": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "x-go": ["map[string]string", "e"],
        },
        "warnings": {"type": "array", "items": {"type": "string"}, "x-go": ["[]string", "e"]},
    },
}
_REVIEW = {"properties": {"kind": _text("string"), "apiVersion": _text("string"), "response": _RESPONSE}}


@functools.cache
def _review() -> Struct:
    made = Struct(f"{_PACKAGE}.AdmissionReview", _REVIEW)
    response = made.fields["response"].node
    assert isinstance(response, Struct)
    response.name = f"{_PACKAGE}.AdmissionResponse"
    return made


def check_types(answer: dict[str, Any]) -> None:
    """Remove unknown fields and nulls from a response, in place.

    Raises:
        TypeMismatch: a field is of the wrong type.
    """
    Reader().read(_review(), answer)
