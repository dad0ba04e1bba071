"""The fields of classic kinds, as OpenAPI schemas (`k8s.io/api/resource/v1alpha2/types.go`).

A ResourceClass has its fields at the top, or below `spec` as in some documents. Parameters of drivers accept
any fields, because the drivers' own definitions are not available here.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

ANYTHING: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_TEXT: Schema = {"type": "string"}
_FLAG: Schema = {"type": "boolean"}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _whole(**properties: Schema) -> Schema:
    """Return the schema of an object with these fields besides its type and metadata."""
    return _object(apiVersion=_TEXT, kind=_TEXT, metadata={"type": "object"}, **properties)


_CLAIM_REFERENCE = _object(apiGroup=_TEXT, kind=_TEXT, name=_TEXT)
_CLASS_REFERENCE = _object(apiGroup=_TEXT, kind=_TEXT, name=_TEXT, namespace=_TEXT)
_CLASS: dict[str, Schema] = {
    "driverName": _TEXT,
    "parametersRef": _CLASS_REFERENCE,
    "suitableNodes": ANYTHING,
    "structuredParameters": _FLAG,
    "defaultClaimParametersRef": _CLASS_REFERENCE,
}
# `devices` and `controller` are v1alpha3 of 1.31.
_CLAIM_SPEC = _object(
    resourceClassName=_TEXT,
    parametersRef=_CLAIM_REFERENCE,
    allocationMode=_TEXT,
    devices=ANYTHING,
    controller=_TEXT,
)
_HANDLE = _object(driverName=_TEXT, data=_TEXT, structuredData=ANYTHING)
_CLAIM_STATUS = _object(
    driverName=_TEXT,
    allocation=_object(resourceHandles=_list(_HANDLE), availableOnNodes=ANYTHING, shareable=_FLAG),
    reservedFor=_list(_object(apiGroup=_TEXT, resource=_TEXT, name=_TEXT, uid=_TEXT)),
    deallocationRequested=_FLAG,
)
_SELECTOR = _object(selector=_TEXT)
_REQUEST = _object(vendorParameters=ANYTHING, namedResources=_SELECTOR)

RESOURCE_CLASS = _whole(spec=_object(**_CLASS), **_CLASS)
RESOURCE_CLAIM = _whole(spec=_CLAIM_SPEC, status=_CLAIM_STATUS)
RESOURCE_CLAIM_TEMPLATE = _whole(spec=_object(metadata=ANYTHING, spec=_CLAIM_SPEC))
POD_SCHEDULING_CONTEXT = _whole(
    spec=_object(selectedNode=_TEXT, potentialNodes=_list(_TEXT)),
    status=_object(resourceClaims=_list(_object(name=_TEXT, unsuitableNodes=_list(_TEXT)))),
)
RESOURCE_CLAIM_PARAMETERS = _whole(
    generatedFrom=_CLAIM_REFERENCE,
    shareable=_FLAG,
    driverRequests=_list(_object(driverName=_TEXT, vendorParameters=ANYTHING, requests=_list(_REQUEST))),
)
RESOURCE_CLASS_PARAMETERS = _whole(
    generatedFrom=_CLASS_REFERENCE,
    vendorParameters=_list(_object(driverName=_TEXT, parameters=ANYTHING)),
    filters=_list(_object(driverName=_TEXT, namedResources=_SELECTOR)),
)
PARAMETERS = _whole(spec=ANYTHING, status=ANYTHING)
