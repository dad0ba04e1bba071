"""Metadata that only the server sets (`registry/rest/meta.go`, `storage/names/generate.go`)."""

from __future__ import annotations

import random

import orjson
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37, Version

from dra_apiserver.errors import bad_request
from dra_apiserver.http import Request
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.target import Target

# apiserver/pkg/storage/names: no vowels, so that names contain no words.
_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_BASE = 58
_GENERATED_SUFFIX = 5
# Groups whose servers are part of kube-apiserver but have separate registries.
_OTHER_REGISTRIES = ("apiextensions.k8s.io", "apiregistration.k8s.io")
_SYSTEM_FIELDS = ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink")


def generate_name(base: str, suffix: str = "") -> str:
    """Return a name that starts with `base`, shortened if needed, and ends in `suffix` or five random characters."""
    return base[:_GENERATED_BASE] + (suffix or "".join(random.choices(_ALPHABET, k=_GENERATED_SUFFIX)))


def is_generated(meta: JsonObject) -> bool:
    """True if the name may have been generated from generateName."""
    base, name = (meta.get("generateName") or "")[:_GENERATED_BASE], meta["name"]
    return bool(base) and name.startswith(base) and len(name) == len(base) + _GENERATED_SUFFIX


def new_uid() -> str:
    """Return a new unique uid."""
    # Same as uuid.uuid4, but without a system call each time.
    digits = f"{random.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def fill_system_fields(obj: JsonObject, now: str) -> None:
    """Set the metadata of a new object that only the server sets. Generate a name if there is none."""
    meta = obj["metadata"]
    for field in _SYSTEM_FIELDS:
        meta.pop(field, None)
    meta["creationTimestamp"] = now
    meta["uid"] = new_uid()
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generate_name(meta["generateName"])


def match_namespace(target: Target, meta: JsonObject) -> None:
    """Set the object's namespace to that of the request.

    Raises:
        StatusError: 400, the object names another.
    """
    found = meta.get("namespace") or ""
    if found and target.namespace and found != target.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if target.namespace:
        meta["namespace"] = target.namespace
    else:
        meta.pop("namespace", None)


def has_distinct_errors(kind: Kind, kubernetes: Version) -> bool:
    """True if a response contains equal validation errors only once.

    Since 1.37, generated validation runs after hand-written validation for every kind of kube-apiserver's own
    registry, and before that, hand-written errors with the same text are merged
    (ValidateDeclarativelyWithMigrationChecks).
    """
    return kubernetes >= V1_37 and not kind.unstructured and kind.group not in _OTHER_REGISTRIES


def check_name(target: Target, meta: JsonObject) -> None:
    """Check that the object's name is that of the path.

    Raises:
        StatusError: 400, the object has another name.
    """
    name = meta.get("name") or ""
    match_namespace(target, meta)
    if not name:
        raise bad_request(
            f"the name of the object ({target.name} based on URL) was undeterminable: name must be provided"
        )
    if name != target.name:
        raise bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({target.name})"
        )


def drop_duplicate_owners(meta: JsonObject, request: Request) -> None:
    """Keep one of equal owner references, with upstream's warning."""
    owners = meta.get("ownerReferences")
    if not owners or len(owners) < 2:
        return
    kept: dict[bytes, JsonObject] = {}
    for owner in owners:
        if kept.setdefault(orjson.dumps(owner, option=orjson.OPT_SORT_KEYS), owner) is not owner:
            text = (
                f".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
                f"and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
                f"{owner.get('uid', '')}"
            )
            request.warn([text])
    meta["ownerReferences"] = list(kept.values())
