"""The steps of every write (`registry/generic/registry/store.go`, and the handlers' part of the steps).

``create`` stores a new object. ``update`` changes a stored one, or creates it if the request may do so. An
`UpdatedObjectInfo` computes the new object: from a body for PUT, a patch for PATCH, a number for a Scale. The
steps are the same for all of them. Their order is upstream's, which clients see in errors: the request is
decoded, defaulted and converted. Its version is checked. Managers are tracked before strategy and admission
change the object, because their changes are not the manager's. The user's right to grant permissions is
checked before the object is admitted.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from dra_shared.jsontext import dumps
from dra_shared.jsontypes import JsonObject

from dra_apiserver.common.quota import resource_quota
from dra_apiserver.errors import StatusError, already_exists, forbidden_error, generated_name_taken, not_found
from dra_apiserver.patch import reset_fields
from dra_apiserver.rest.counted import find_counted
from dra_apiserver.rest.create import before_create
from dra_apiserver.rest.meta import (
    check_name,
    drop_duplicate_owners,
    fill_system_fields,
    is_generated,
    match_namespace,
)
from dra_apiserver.rest.namespacelifecycle import check_namespace
from dra_apiserver.rest.update import before_update, check_version
from dra_apiserver.rest.write import Write
from dra_apiserver.schema import default
from dra_apiserver.storage import Put, Record, Remove
from dra_apiserver.target import Target

_GENERATE_ATTEMPTS = 8


class UpdatedObjectInfo(Protocol):
    """Computes the object that a request wants to store (`registry/rest`)."""

    def new(self) -> JsonObject | None:
        """Return the object to create if none exists, in the request's version; None if it must not be created.

        Raises:
            StatusError: the request is rejected.
        """

    def update(self, current: Record, old: JsonObject) -> JsonObject:
        """Return the object that replaces `old`, in the storage version. It may have parts of `old`.

        Raises:
            StatusError: the request is rejected.
        """


class _Miscounted(Exception):
    """A new object must be decided again, because data on which the decision was based has changed."""


async def create(write: Write, read: Callable[[], JsonObject]) -> Record:
    """Store the object that `read` decodes from the request, in the request's version.

    Raises:
        StatusError: it is rejected.
    """
    while True:
        if write.run is None:
            stored, generated = _read_new(write, read)
        else:
            stored, generated = await write.run(partial(_read_new, write, read))
        try:
            return await _store_first_free(write, stored, generated)
        except _Miscounted:
            continue


async def _store_first_free(write: Write, stored: JsonObject, generated: bool) -> Record:
    """Store a new object. If its generated name exists, try others."""
    for attempt in range(_GENERATE_ATTEMPTS):
        target = write.target.with_name(stored["metadata"]["name"])
        try:
            return await _store_new(write, target, stored)
        except StatusError as error:
            if not generated or error.reason != "AlreadyExists":
                raise
            if attempt == _GENERATE_ATTEMPTS - 1:
                raise generated_name_taken(target.qualified_resource, target.name) from None
            stored["metadata"]["name"] = ""
            fill_system_fields(stored, write.ctx.now)
    raise AssertionError("unreachable")


def _read_new(write: Write, read: Callable[[], JsonObject]) -> tuple[JsonObject, bool]:
    """Return the object to store, and whether its name is generated."""
    obj = read()
    meta = obj["metadata"]
    match_namespace(write.target, meta)
    target = write.target.with_name(meta.get("name") or "")
    generated = not target.name and bool(meta.get("generateName"))
    stored = _prepare_new(write, target, obj)
    # Admission may have changed the name.
    made = stored["metadata"]
    persistence = target.kind.persistence
    if persistence is not None:
        stored = persistence.encode(stored)
    return stored, generated and is_generated(made)


def _prepare_new(write: Write, target: Target, obj: JsonObject) -> JsonObject:
    """Return the object to store for a new object in the request's version. The target has its name."""
    ctx = write.ctx
    default(target.kind, target.version, obj, ctx.now)
    drop_duplicate_owners(obj["metadata"], write.request)
    check_namespace(write.api, target)
    confirm_grant(write, target, obj)
    fill_system_fields(obj, ctx.now)
    if write.tracked:
        write.track(None, obj)
    return before_create(write.request, target, write.to_storage(obj), ctx, write.chain(target))


async def _store_new(write: Write, target: Target, obj: JsonObject) -> Record:
    """Store an object under a name that must be free.

    Raises:
        StatusError: 409, it is not.
        _Miscounted: another server has added to the counted objects.
    """
    asked = False

    def change(current: Record | None) -> Put:
        nonlocal asked
        if current is None:
            if asked:
                raise _Miscounted
            asked = True
            if write.run is not None:
                # Others may have written in the meantime.
                _confirm(write.with_name(target.name), None, obj)
            return Put(obj, find_counted(write, target, "CREATE", obj) if write.api.store.follows else ())
        error = already_exists(target.qualified_resource, target.name)
        if current.object()["metadata"].get("deletionTimestamp"):
            error = StatusError(
                409, "AlreadyExists", f"object is being deleted: {error.message}", error.status["details"]
            )
        raise error

    record = await write.api.store.write(target.resource, target.key, change, write.ctx.dry_run)
    assert record is not None
    return record


def _confirm(write: Write, current: Record | None, obj: JsonObject) -> None:
    """Check other objects again that may have changed while the object was processed.

    Raises:
        StatusError: 403, the namespace is being deleted or a quota would be exceeded.
    """
    if current is None:
        check_namespace(write.api, write.target)
    old = None if current is None else current.object()
    resource_quota(obj, old, write.ctx, "UPDATE" if current else "CREATE")


async def update(write: Write, info: UpdatedObjectInfo) -> tuple[Record, bool]:
    """Store the updated object. Return the resulting version, and whether it was created.

    Raises:
        StatusError: it is rejected.
    """
    created = False

    def change(current: Record | None) -> Put | Remove | None:
        nonlocal created
        created = current is None
        return _create_by_update(write, info) if current is None else _replace(write, info, current)

    record = await write.api.write(
        write.target, change, write.ctx.dry_run, write.run, partial(_confirm, write)
    )
    assert record is not None
    return record, created


def _create_by_update(write: Write, info: UpdatedObjectInfo) -> Put:
    obj = info.new()
    if obj is None:
        raise not_found(write.target.qualified_resource, write.target.name)
    stored = _prepare_new(write, write.target, obj)
    check_name(write.target, stored["metadata"])
    _confirm_create(write)
    return Put(stored, find_counted(write, write.target, "CREATE", stored) if write.api.store.follows else ())


def _replace(write: Write, info: UpdatedObjectInfo, current: Record) -> Put | Remove | None:
    target, old = write.target, current.object()
    wanted = info.update(current, old)
    check_version(target, wanted["metadata"], old["metadata"])
    if write.tracked:
        # Track managers before the strategy runs: the client manages the fields that it changed, even if the
        # strategy reverts them.
        write.track_stored(old, wanted)
    confirm_grant(write, target, wanted, old)
    outcome = before_update(write.request, target, wanted, old, write.ctx, write.chain(target))
    if write.api.store.follows and isinstance(outcome, Put):
        outcome.counted = find_counted(write, target, "UPDATE", outcome.obj, old)
    return outcome


def default_updated(write: Write, obj: JsonObject, old: JsonObject) -> JsonObject:
    """Return an updated object in the storage version, with defaults, and with the old spec if a status is
    written.
    """
    target, same = write.target, write.is_stored_form()
    if same and ("f:spec",) in reset_fields(target.kind, target.subresource):
        if "spec" in old:
            obj["spec"] = old["spec"]
        else:
            obj.pop("spec", None)
    if same:
        _share_equal(obj, old)
    default(target.kind, target.version, obj, write.ctx.now, old if same else {})
    drop_duplicate_owners(obj["metadata"], write.request)
    return write.to_storage(obj)


def _share_equal(obj: JsonObject, old: JsonObject) -> None:
    """Replace members that equal the stored ones by these, which later steps recognize as complete and valid.

    A step that has to change such a member replaces it. Metadata is changed in place by every write.
    """
    for key, value in obj.items():
        stored = old.get(key)
        if key == "metadata" or type(value) is not dict or value is stored:
            continue
        # Python considers `true`, `1` and `1.0` equal.
        if value == stored and dumps(value) == dumps(stored):
            obj[key] = stored


def confirm_grant(write: Write, target: Target, obj: JsonObject, old: JsonObject | None = None) -> None:
    """Reject a role or a binding that grants more than the request's user has.

    Raises:
        StatusError: 403, or 404, like ``check_escalation``.
    """
    authorizer = write.api.authorizer
    check = target.kind.writes.check_escalation
    if authorizer is not None and check is not None:
        # For a new object, the path only contains the name if the request is a PUT or PATCH.
        named = "" if write.request.method == "POST" else target.name
        check(authorizer, write.request.user, target.kind.plural, target.namespace, named, obj, old)


def _confirm_create(write: Write) -> None:
    """Check the permission to create an object for an update that creates it.

    Raises:
        StatusError: 403, it is missing.
    """
    target: Target = write.target
    reason = write.ctx.authorize("create", target.kind.plural, target.namespace, target.name)
    if reason is not None:
        raise forbidden_error(target.qualified_resource, target.name, reason)
