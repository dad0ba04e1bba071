"""The CDI specification (1.1.0) as a strict JSON schema, in which unknown fields are errors."""

from pathlib import Path
from typing import Any

import jsonschema
import yaml

_STRING: dict[str, Any] = {"type": "string", "minLength": 1}
_STRINGS = {"type": "array", "items": {"type": "string"}}
_INT64 = {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}
_UINT32 = {"type": "integer", "minimum": 0, "maximum": 2**32 - 1}
_ANNOTATIONS = {"type": "object", "additionalProperties": {"type": "string"}}


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


_EDITS = _object(
    (),
    env={"type": "array", "items": {"type": "string", "pattern": "^[^=]+=.*$"}},
    deviceNodes=_list(
        _object(
            ("path",),
            path=_STRING,
            hostPath=_STRING,
            type={"enum": ["b", "c", "u", "p"]},
            major=_INT64,
            minor=_INT64,
            fileMode=_UINT32,
            permissions={"type": "string", "pattern": "^[rwm]*$"},
            uid=_UINT32,
            gid=_UINT32,
        )
    ),
    netDevices=_list(_object(("hostInterfaceName", "name"), hostInterfaceName=_STRING, name=_STRING)),
    mounts=_list(
        _object(
            ("hostPath", "containerPath"),
            hostPath=_STRING,
            containerPath=_STRING,
            options=_STRINGS,
            type=_STRING,
        )
    ),
    hooks=_list(
        _object(
            ("hookName", "path"),
            hookName={
                "enum": [
                    "prestart",
                    "createRuntime",
                    "createContainer",
                    "startContainer",
                    "poststart",
                    "poststop",
                ]
            },
            path=_STRING,
            args=_STRINGS,
            env=_STRINGS,
            timeout=_UINT32,
        )
    ),
    intelRdt=_object(
        (),
        closID={"type": "string"},
        l3CacheSchema={"type": "string"},
        memBwSchema={"type": "string"},
        schemata=_STRINGS,
        enableMonitoring={"type": "boolean"},
    ),
    additionalGids=_list(_UINT32),
)

SCHEMA = _object(
    ("cdiVersion", "kind", "devices"),
    cdiVersion={"type": "string", "pattern": r"^[0-9]+\.[0-9]+\.[0-9]+$"},
    kind={"type": "string", "pattern": r"^[A-Za-z][A-Za-z0-9_.-]*/[A-Za-z][A-Za-z0-9_.-]*$"},
    annotations=_ANNOTATIONS,
    devices=_list(
        _object(("name", "containerEdits"), name=_STRING, annotations=_ANNOTATIONS, containerEdits=_EDITS)
    )
    | {"minItems": 1},
    containerEdits=_EDITS,
)


def check_file(path: Path) -> dict[str, Any]:
    """Return the document of a spec file after validation."""
    document: dict[str, Any] = yaml.safe_load(path.read_text())
    jsonschema.validate(document, SCHEMA)
    return document
