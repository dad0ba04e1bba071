"""Answers of an API server of Kubernetes 1.37 or another version about a claim or slice, without a socket."""

import copy
from typing import Any

from dra_recordings.validate import answer
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37, Version

# Type, field and text of each error.
Errors = list[tuple[str, str, str]]


def slice_of(*devices: JsonObject, **spec: Any) -> JsonObject:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {
            "driver": "gpu.example.com",
            "pool": pool,
            "nodeName": "n",
            "devices": list(devices),
            **spec,
        },
    }


def get_answer(
    obj: JsonObject,
    *gates: str,
    version: Version = V1_37,
    old: JsonObject | None = None,
    operation: str = "create",
    off: tuple[str, ...] = (),
) -> JsonObject:
    on = dict.fromkeys((*FeatureGates(version), *gates), True) | dict.fromkeys(off, False)
    case = {
        "object": copy.deepcopy(obj),
        "kubernetesVersion": str(version),
        "featureGates": on,
        "operation": operation,
    }
    if old is not None:
        case |= {
            "oldObject": copy.deepcopy(old),
            "operation": "update" if operation == "create" else operation,
        }
    return answer(case)


def errors(obj: JsonObject, *gates: str, **how: Any) -> Errors:
    server = get_answer(obj, *gates, **how)["server"]
    return [(error["type"], error["field"], error["body"]) for error in server["errors"]]


def get_stored(obj: JsonObject, *gates: str, **how: Any) -> JsonObject:
    found: JsonObject = get_answer(obj, *gates, **how)["server"]["object"]
    return found
