"""Field management: track the manager of each field, and server-side apply."""

import functools
from collections.abc import Sequence
from typing import Any

import orjson
from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject

from dra_apiserver.equality import differs
from dra_apiserver.kindkit.behaviour import FieldPath
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.patch.comparison import Comparison, compare
from dra_apiserver.patch.errors import ApplyConflict, PatchError
from dra_apiserver.patch.fieldset import (
    SELF,
    FieldSet,
    difference,
    intersection,
    members,
    path_text,
    union,
    union_all,
    without,
)
from dra_apiserver.patch.managers import STRIPPED, Entry, ManagerKey, Managers, read_managers, write_managers
from dra_apiserver.patch.operations import copy_value
from dra_apiserver.patch.typed import TypedError, field_set, merge, remove, with_named_parents
from dra_apiserver.schema.types import Struct, object_type
from dra_apiserver.schema.unstructured import convert_applied

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_BEFORE_FIRST_APPLY = "before-first-apply"


def reset_fields(kind: Kind, subresource: str) -> Sequence[FieldPath]:
    """Return the fields that a write through ``subresource`` (empty: the object itself) does not change."""
    return kind.writes.reset_fields.get(subresource, ())


def _empty(node: Struct) -> JsonObject:
    return _blank(node) if node.native else {}


@functools.cache
def _blank(node: Struct) -> JsonObject:
    return node.zero()


_Names = frozenset[str]


@functools.cache
def _unowned_members(kind: Kind, subresource: str) -> tuple[_Names, _Names]:
    """Return the members of an object, and of its metadata, that have no manager after a write through
    ``subresource``.
    """
    paths = [tuple(step[2:] for step in path) for path in reset_fields(kind, subresource)]
    whole = {path[0] for path in paths if len(path) == 1}
    own = {path[1] for path in paths if path[0] == "metadata" and len(path) > 1}
    stripped = {step[2:] for step in STRIPPED["f:metadata"] if step != SELF}
    return frozenset(whole | {"apiVersion", "kind"}), frozenset(own | stripped)


def _changes(
    node: Struct, kind: Kind, subresource: str, before: JsonObject, after: JsonObject, literal: bool = False
) -> Comparison:
    """Return the changes of ownable fields by a write through ``subresource``."""
    whole, own = _unowned_members(kind, subresource)
    seen = []
    for obj in (before, after):
        shown = {key: value for key, value in obj.items() if key not in whole}
        if "metadata" not in whole:
            metadata = obj.get("metadata") or {}
            shown["metadata"] = {key: value for key, value in metadata.items() if key not in own}
        seen.append(shown)
    return compare(node, seen[0], seen[1], literal)


def _metadata(obj: JsonObject) -> JsonObject:
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}


def _describe(kind: Kind, version: str, obj: JsonObject) -> str:
    """Format an object for upstream's errors of an apply."""
    name, namespace = (_metadata(obj).get(field) for field in ("name", "namespace"))
    where = f"{namespace if isinstance(namespace, str) else ''}/{name if isinstance(name, str) else ''}"
    return f"{where}; {kind.group}/{version}, Kind={kind.kind}"


def _managed_fields(obj: JsonObject | None) -> Any:
    return ((obj or {}).get("metadata") or {}).get("managedFields")


def _plain(obj: JsonObject) -> JsonObject:
    """Return ``obj`` without its managedFields, for comparison."""
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}


def _store(obj: JsonObject, managers: Managers) -> None:
    metadata = obj.setdefault("metadata", {})
    entries = write_managers(managers)
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)


def track_update(
    kind: Kind,
    version: str,
    old: JsonObject | None,
    new: JsonObject,
    *,
    manager: str,
    subresource: str = "",
    now: str,
) -> None:
    """Update ``new``'s managedFields after a create (``old`` is None), update or patch.

    Both objects are in ``version``. Changed fields become ``manager``'s. Removed fields lose their managers.
    An update does not add managedFields to an object that has none. A client may write managedFields itself:
    ``[{}]`` or ``[]`` clears them.
    """
    node = object_type(kind, version)
    kept = _managed_fields(old)
    # A client can't write managedFields through a subresource.
    sent = kept if subresource else _managed_fields(new)
    if isinstance(sent, list) and sent in ([], [{}]):
        new["metadata"].pop("managedFields", None)
        return
    # Use the client's entries if it changed them and they are valid, otherwise the stored ones. A client that
    # sends invalid entries must not be able to remove managers by mistake.
    managers = read_managers(sent) if sent != kept else Managers()
    if not managers.entries:
        managers = read_managers(kept, stored=True)
    if old is not None and not managers.entries:
        new.get("metadata", {}).pop("managedFields", None)
        return
    api_version = kind.api_version(version)
    _update(node, kind, old, new, managers, ManagerKey(manager, "Update", api_version, subresource), now)
    managers.cap()
    _store(new, managers)


def _update(
    node: Struct,
    kind: Kind,
    old: JsonObject | None,
    new: JsonObject,
    managers: Managers,
    key: ManagerKey,
    now: str | None,
) -> None:
    # Invariant: after a write, each field of the object has the managers that set its current value. So a
    # changed field is taken from all other managers, a removed field from all managers, and an unchanged
    # field keeps its managers, even if the request contained it.
    found = _changes(node, kind, key.subresource, _empty(node) if old is None else old, new)
    changed = union(found.modified, found.added)
    # The manager itself also loses removed fields. The union below adds its changes.
    managers.take_from_others(ManagerKey("", ""), changed, found.removed)
    if changed:
        previous = managers.entries.get(key)
        fields = union(previous.fields, changed) if previous is not None else changed
        managers.entries[key] = Entry(key.api_version, fields, now)


def server_side_apply(
    kind: Kind,
    version: str,
    live: JsonObject | None,
    applied: JsonObject,
    *,
    manager: str,
    force: bool = False,
    subresource: str = "",
    now: str,
) -> JsonObject:
    """Return ``live`` (None: a new object) after ``manager`` applied a configuration, with updated managedFields.

    The result has parts of both arguments, which are modified. It still has to be defaulted. It equals
    ``live`` if nothing changes.

    Raises:
        PatchError: the configuration is malformed.
        ApplyConflict: other managers own some fields and ``force`` is false.
    """
    node = object_type(kind, version)
    api_version = kind.api_version(version)
    _check_applied(applied, api_version)
    managers = read_managers(_managed_fields(live), stored=True)
    # The result has parts of the live object.
    before = copy_value(_empty(node)) if live is None else _plain(live)
    if live is not None and not managers.entries:
        _update(node, kind, None, live, managers, ManagerKey(_BEFORE_FIRST_APPLY, "Update", api_version), now)
    # The order of the following steps is that of structured-merge-diff, and each needs the previous one.
    # Merge the configuration into the object. Record the applied fields as the manager's, so that pruning
    # does not count its old ones. Prune fields that it applied before and no longer applies. Compare the
    # pruned result with the old object, and check these changes for conflicts: a conflict may only come from
    # a change, because several managers may apply the same value. Last, set the manager's fields to the
    # applied ones.
    wanted = without(_applied_fields(node, kind, version, applied), reset_fields(kind, subresource))
    key = ManagerKey(manager, "Apply", "", subresource)
    last = managers.entries.get(key)
    merged = merge(node, before, applied)
    managers.entries[key] = Entry(api_version, wanted, last.time if last is not None else None)
    merged = _prune(node, merged, managers, last)
    # Upstream converts the object to the versions of other managers to determine the fields that they lose.
    several_versions = any(entry.api_version != api_version for entry in managers.entries.values())
    if several_versions and (problem := convert_applied(kind, version, copy_value(merged))):
        raise PatchError(f"failed to convert new object: {problem}")
    comparison = _changes(node, kind, subresource, before, merged, literal=True)
    converted = _changes(node, kind, subresource, before, merged) if several_versions else comparison
    allowed = _claimed_by_kubectl(node, before, api_version) if manager == "kubectl" and not force else {}
    _take(managers, key, api_version, (comparison, converted), force=force, allowed=allowed)
    _settle(managers, key, wanted, now if merged != before else None)
    _sync_last_applied(merged, applied, manager)
    managers.cap()
    # Other members are as they were stored.
    touched = {*applied, "metadata", *(step[2:] for step in (last.fields if last is not None else ()))}
    if problem := convert_applied(kind, version, merged, touched):
        named = _describe(kind, version, applied)
        raise PatchError(f"failed to convert new object ({named}) to proper version: {problem}")
    _store(merged, managers)
    return merged


def _check_applied(applied: JsonObject, api_version: str) -> None:
    """Reject a configuration that contains managers, or is of another version.

    Raises:
        PatchError: it does.
    """
    sent = _metadata(applied).get("managedFields")
    if isinstance(sent, list) and all(isinstance(one, dict) for one in sent):
        raise PatchError("metadata.managedFields must be nil")
    if applied.get("apiVersion") != api_version:
        raise PatchError(
            f"Incorrect version specified in apply patch. Specified patch version: {applied.get('apiVersion', '')}, "
            f"expected: {api_version}"
        )


def _applied_fields(node: Struct, kind: Kind, version: str, applied: JsonObject) -> FieldSet:
    """Return the fields in a configuration.

    Raises:
        PatchError: it is malformed.
    """
    try:
        return field_set(node, applied)
    except RecursionError as error:
        raise PatchError("error decoding YAML: exceeded max depth") from error
    except TypedError as error:
        raise PatchError(
            f"failed to create typed patch object ({_describe(kind, version, applied)}): {error}"
        ) from error


def _settle(managers: Managers, key: ManagerKey, wanted: FieldSet, now: str | None) -> None:
    """Set the manager's fields to the applied ones, without those that have no manager.

    `now` is set if the object changed.
    """
    stripped = difference(wanted, STRIPPED)
    if not stripped:
        managers.entries.pop(key, None)
        return
    managers.entries[key].fields = stripped
    if now is not None:
        managers.entries[key].time = now


def _prune(node: Struct, merged: JsonObject, managers: Managers, last: Entry | None) -> JsonObject:
    """Remove fields that the manager applied before and that no manager owns any more."""
    if last is None:
        return merged
    # A field is removed only if this manager applied it before, and no manager owns it now. The new entry of
    # this manager is part of `managers` already. A struct with owned fields below it is kept even if nobody
    # owns the struct itself.
    claimed = union_all(entry.fields for entry in managers.entries.values())
    gone = difference(last.fields, with_named_parents(node, claimed))
    return remove(node, merged, gone) or {}


def _claimed_by_kubectl(node: Struct, live: JsonObject, api_version: str) -> FieldSet:
    """Return the fields of kubectl's client-side apply that are unchanged since. kubectl may take these over
    without a conflict.
    """
    annotations = (live.get("metadata") or {}).get("annotations") or {}
    try:
        applied = orjson.loads(annotations.get(LAST_APPLIED) or "null")
        if not isinstance(applied, dict) or applied.get("apiVersion") != api_version:
            return {}
        found = compare(node, applied, live)
        fields = field_set(node, applied)
    except (orjson.JSONDecodeError, TypedError, RecursionError, TypeError, AttributeError):
        return {}
    for differing in (found.modified, found.added, found.removed):
        fields = difference(fields, differing)
    return fields


def _take(
    managers: Managers,
    key: ManagerKey,
    api_version: str,
    found: tuple[Comparison, Comparison],
    *,
    force: bool,
    allowed: FieldSet,
) -> None:
    """Transfer the changed fields to the manager, or raise a conflict.

    ``found`` has the changes twice: as seen by managers of the same version, and as seen by managers of other
    versions, for which an empty list is absent.
    """
    same, converted = (union(one.modified, one.added) for one in found)
    conflicts: list[tuple[ManagerKey, tuple[str, ...]]] = []
    if not force:
        for other in sorted(managers.entries):
            entry = managers.entries[other]
            changed = same if entry.api_version == api_version else converted
            # Managers of other versions own their fields after a conversion. Which of these changed depends
            # on the encoded form, where an empty list is absent.
            if other != key:
                overlap = difference(intersection(entry.fields, changed), allowed)
                conflicts += [(other, path) for path in members(overlap)]
    if conflicts:
        raise _conflict(conflicts)
    managers.take_from_others(key, same, found[0].removed)


def _conflict(conflicts: list[tuple[ManagerKey, tuple[str, ...]]]) -> ApplyConflict:
    causes = []
    by_manager: dict[ManagerKey, list[str]] = {}
    for key, path in conflicts:
        text, where = f"conflict with {key.text()}", path_text(path)
        causes.append({"reason": "FieldManagerConflict", "message": text, "field": where})
        by_manager.setdefault(key, [f"conflicts with {key.text()}:"]).append(f"- {where}")
    if len(conflicts) == 1:
        only = causes[0]
        return ApplyConflict(f"Apply failed with 1 conflict: {only['message']}: {only['field']}", causes)
    lines = "\n".join(line for lines in by_manager.values() for line in lines)
    return ApplyConflict(f"Apply failed with {len(conflicts)} conflicts: {lines}", causes)


def _sync_last_applied(obj: JsonObject, applied: JsonObject, manager: str) -> None:
    """Update kubectl's own annotation when kubectl applies on the server."""
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if manager != "kubectl" or not annotations.get(LAST_APPLIED):
        return
    shown = orjson.loads(dumps(applied))
    (shown.get("metadata", {}).get("annotations") or {}).pop(LAST_APPLIED, None)
    annotations[LAST_APPLIED] = dumps(shown, option=orjson.OPT_SORT_KEYS).decode() + "\n"


def same_but_times(old: JsonObject, new: JsonObject) -> bool:
    """True if two objects differ at most in the times of their managedFields.

    Such a write does not change the stored object.
    """
    if differs(_plain(old), _plain(new)):
        return False
    left, right = _managed_fields(old) or [], _managed_fields(new) or []
    if len(left) != len(right):
        return False
    return sorted(map(_timeless, left)) == sorted(map(_timeless, right))


def _timeless(entry: JsonObject) -> bytes:
    kept = {key: value for key, value in entry.items() if key != "time"}
    return dumps(kept, option=orjson.OPT_SORT_KEYS)
