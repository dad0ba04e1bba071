"""delete and deletecollection: preconditions, grace periods, finalizers and propagation."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson
from dra_shared.clock import parse_rfc3339, rfc3339
from dra_shared.numerals import integer

from dra_apiserver import admission
from dra_apiserver.api import Api
from dra_apiserver.errors import (
    FieldError,
    GroupResource,
    StatusError,
    bad_request,
    conflict,
    forbidden,
    invalid,
    invalid_object,
    not_found,
    not_supported,
)
from dra_apiserver.handlers.options import check_dry_run, list_options
from dra_apiserver.handlers.read import select
from dra_apiserver.http import Request
from dra_apiserver.present import Presenter, encode
from dra_apiserver.schema import DecodeError
from dra_apiserver.schema.decode import PROTOBUF, YAML, media_type, parse_body
from dra_apiserver.schema.jsontext import syntax_error
from dra_apiserver.schema.reader import Reader, TypeMismatch
from dra_apiserver.schema.types import Struct, definition
from dra_apiserver.schema.values import json_type
from dra_apiserver.storage import Put, Record, Remove
from dra_apiserver.target import Target
from dra_apiserver.watch import Selection

if TYPE_CHECKING:
    from dra_apiserver.kinds.admissionregistration.dynamic.registered import Admission

JsonObject = dict[str, Any]

_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"
_DELETE_TOGETHER = 32


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """`metav1.DeleteOptions`; `grace` is in seconds."""

    grace: int | None = None
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    orphan: bool | None = None
    dry_run: bool = False

    @property
    def unpropagated(self) -> bool:
        """Whether they leave it to the kind what becomes of dependents."""
        return self.orphan is None and not self.propagation

    def said(self) -> JsonObject:
        """The options as an object."""
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        said: JsonObject = {
            "gracePeriodSeconds": self.grace,
            "preconditions": {key: value for key, value in preconditions.items() if value},
            "orphanDependents": self.orphan,
            "propagationPolicy": self.propagation,
            "dryRun": ["All"] if self.dry_run else [],
        }
        shown = {key: value for key, value in said.items() if value not in (None, "", {}, [])}
        return {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **shown}


async def delete_options(request: Request) -> DeleteOptions:
    """The options in the body, or without a body in the query.

    Raises:
        StatusError: 400 or 422.
    """
    body = await request.body()
    values: JsonObject
    if body:
        values = _parse(body, request.header(b"content-type"))
    else:
        query = request.query
        values = {key: query[key] for key in ("propagationPolicy",) if key in query}
        if "gracePeriodSeconds" in query:
            try:
                values["gracePeriodSeconds"] = integer(query["gracePeriodSeconds"])
            except ValueError:
                text = f'strconv.ParseInt: parsing "{query["gracePeriodSeconds"]}": invalid syntax'
                raise bad_request(text) from None
        if "orphanDependents" in query:
            values["orphanDependents"] = request.flag("orphanDependents")
        values["dryRun"] = [value for name, value in request.parameters if name == "dryRun"]
    preconditions = values.get("preconditions") or {}
    propagation, orphan = values.get("propagationPolicy"), values.get("orphanDependents")
    errors: list[FieldError] = []
    if propagation is not None and orphan is not None:
        text = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", propagation, text))
    policies = ("Foreground", "Background", "Orphan", "nil")
    if propagation is not None and propagation not in policies[:3]:
        errors.append(not_supported("propagationPolicy", propagation, policies))
    dry_run = values.get("dryRun") or []
    errors += check_dry_run(dry_run)
    if errors:
        raise invalid_object("meta.k8s.io", "DeleteOptions", "", errors)
    return DeleteOptions(
        grace=values.get("gracePeriodSeconds"),
        uid=preconditions.get("uid") or "",
        resource_version=preconditions.get("resourceVersion") or "",
        propagation=propagation or "",
        orphan=orphan,
        dry_run=bool(dry_run),
    )


_UNREADABLE = "couldn't get version/kind; json parse error"
_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)


def _parse(body: bytes, content_type: str) -> JsonObject:
    try:
        form = media_type(content_type)
    except DecodeError as error:
        raise StatusError(error.code, error.reason, str(error)) from None
    try:
        if form == YAML:
            from dra_apiserver.schema.yamlbody import document

            values = document(body).value
        elif form == PROTOBUF:
            values = parse_body(body, PROTOBUF, "DeleteOptions", "Ignore")
        else:
            values = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise bad_request(f"{_UNREADABLE}: {syntax_error(body)}") from None
    except ValueError as error:
        text = f"yaml: {error}" if form == YAML else str(error)
        raise bad_request(f"couldn't get version/kind; {text}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        problem = f"json: cannot unmarshal {json_type(values)} into Go value of type {_TYPE_META}"
        raise bad_request(f"{_UNREADABLE}: {problem}")
    kind = values.get("kind") or "DeleteOptions"
    if kind != "DeleteOptions":
        version = values.get("apiVersion") or "v1"
        scheme = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
        text = f'no kind "{kind}" is registered for version "{version}" in scheme "{scheme}"'
        raise bad_request(text)
    try:
        Reader().read(_options_type(), values)
    except TypeMismatch as error:
        raise bad_request(str(error)) from None
    return values


def _options_type() -> Struct:
    found = definition("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
    assert isinstance(found, Struct)
    return found


async def delete(api: Api, request: Request, target: Target) -> None:
    """Delete one object, or mark it to be deleted."""
    presenter = api.presenter(target, request)
    options = await delete_options(request)
    if target.name in target.kind.undeletable:
        raise forbidden(target.qualified, target.name, target.kind.undeletable[target.name])
    _warn_of_orphans(request, target, options)
    registered = api.admission(request, target, options.said)
    record, gone = await remove(api, request, target, options, registered)
    await _answer(api, request, target, presenter, record, gone)


def _warn_of_orphans(request: Request, target: Target, options: DeleteOptions) -> None:
    if target.kind.orphans_warning and options.unpropagated:
        request.warn([target.kind.orphans_warning])


async def _answer(
    api: Api, request: Request, target: Target, presenter: Presenter, record: Record, gone: bool
) -> None:
    if not gone or target.kind.return_deleted_object:
        await request.respond(200, await api.one(presenter, record), presenter.accepted.media_type)
        return
    details = {
        "name": target.name,
        **({"group": target.kind.group} if target.kind.group else {}),
        "kind": target.kind.plural,
        "uid": record.object()["metadata"]["uid"],
    }
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
    await request.respond(200, encode(status, presenter.accepted), presenter.accepted.media_type)


async def remove(
    api: Api,
    request: Request,
    target: Target,
    options: DeleteOptions,
    registered: Admission | None,
) -> tuple[Record, bool]:
    """Delete an object, or mark it; the version that results, and whether it is gone.

    Raises:
        StatusError: it isn't there, or a precondition fails.
    """
    ctx = api.context(target, request.user, options.dry_run)
    gone = True

    def change(current: Record | None) -> Put | Remove | None:
        nonlocal gone
        gone = True
        if current is None:
            raise not_found(target.qualified, target.name)
        obj = current.object()
        check_preconditions(target, obj["metadata"], options)
        admission.mutate(None, obj, ctx, "DELETE", registered)
        admission.validate(None, obj, ctx, "DELETE", registered)
        outcome = _outcome(api, target, obj, options)
        gone = isinstance(outcome, Remove)
        return outcome

    record = await api.write(target, change, options.dry_run, long=api.takes_long(target))
    assert record is not None
    if gone or not _is_over(target, record):
        return record, gone
    if options.dry_run:
        return record, True
    marked = record

    def finish(current: Record | None) -> Remove | None:
        if current is None or current.revision != marked.revision:
            return None
        return Remove(current.object())

    removed = await api.store.write(target.resource, target.key, finish)
    if removed is None or removed.revision == marked.revision:
        return marked, removed is None
    return removed, True


def _is_over(target: Target, record: Record) -> bool:
    """Whether an object that ends gracefully was only marked, as upstream does first, and nothing keeps it."""
    if target.kind.check_graceful_delete is None:
        return False
    meta = record.object()["metadata"]
    return meta.get("deletionGracePeriodSeconds") == 0 and not meta.get("finalizers")


def check_preconditions(target: Target, meta: JsonObject, options: DeleteOptions) -> None:
    """The object must be the one that the client means.

    Raises:
        StatusError: 409.
    """
    # Upstream names the kind here where other conflicts name the resource.
    subject = GroupResource(target.kind.group, target.kind.kind)
    if options.uid and options.uid != meta["uid"]:
        text = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise conflict(subject, target.name, text)
    if options.resource_version and options.resource_version != meta["resourceVersion"]:
        text = (
            f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
            f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified"
        )
        raise conflict(subject, target.name, text)


def _outcome(api: Api, target: Target, obj: JsonObject, options: DeleteOptions) -> Put | Remove | None:
    meta = obj["metadata"]
    if target.kind.terminate is not None:
        return _terminate(api, target, obj, options)
    graceful, pending = _begin_grace(api, target, obj, options)
    if pending:
        return None
    changed = _propagate(target, meta, options)
    if meta.get("finalizers"):
        if not graceful:
            before = (meta.get("deletionTimestamp"), meta.get("deletionGracePeriodSeconds"))
            _mark(api, meta)
            if not changed and before == (meta["deletionTimestamp"], 0):
                return None
        return Put(obj)
    if graceful:
        return Put(obj)
    return Remove(obj)


def _begin_grace(api: Api, target: Target, obj: JsonObject, options: DeleteOptions) -> tuple[bool, bool]:
    """Whether deletion is graceful now, and whether a graceful one is under way that this request can't hasten."""
    check = target.kind.check_graceful_delete
    if check is None:
        return False, False
    meta = obj["metadata"]
    grace = options.grace if options.grace is None or options.grace >= 0 else 1
    now = api.clock.now()
    if meta.get("deletionTimestamp"):
        period = meta.get("deletionGracePeriodSeconds") or 0
        if not period:
            return False, False
        if grace is None or grace >= period:
            return False, True
        due = parse_rfc3339(meta["deletionTimestamp"]) + timedelta(seconds=grace - period)
        if due < now:
            due = now
            grace = 1 if grace else 0
        meta["deletionTimestamp"] = rfc3339(due)
        meta["deletionGracePeriodSeconds"] = grace
        return True, False
    period = check(obj, grace)
    meta["deletionTimestamp"] = rfc3339(now + timedelta(seconds=period))
    meta["deletionGracePeriodSeconds"] = period
    if meta.get("generation", 0) > 0:
        meta["generation"] += 1
    return True, False


def _propagate(target: Target, meta: JsonObject, options: DeleteOptions) -> bool:
    """Set the garbage collector's finalizers as the options want; whether that changed anything."""
    old = meta.get("finalizers") or []
    orphan, foreground = _ORPHAN in old, _FOREGROUND in old
    if options.orphan is not None:
        orphan, foreground = options.orphan, False
    elif options.propagation:
        orphan, foreground = options.propagation == "Orphan", options.propagation == "Foreground"
    elif not orphan and not foreground:
        orphan = target.kind.orphans_dependents
    new = [name for name in old if name not in {_ORPHAN, _FOREGROUND}]
    if orphan:
        new.append(_ORPHAN)
    if foreground:
        new.append(_FOREGROUND)
    if set(new) == set(old):
        return False
    if new:
        meta["finalizers"] = new
    else:
        meta.pop("finalizers", None)
    return True


def _mark(api: Api, meta: JsonObject) -> None:
    now = api.clock.now()
    found = meta.get("deletionTimestamp")
    if not found and meta.get("generation", 0) > 0:
        meta["generation"] += 1
    if not found or parse_rfc3339(found) > now:
        meta["deletionTimestamp"] = rfc3339(now)
    meta["deletionGracePeriodSeconds"] = 0


def _terminate(api: Api, target: Target, obj: JsonObject, options: DeleteOptions) -> Put | Remove | None:
    """Mark an object that only ends once its own finalizers are gone."""
    kind, meta = target.kind, obj["metadata"]
    assert kind.terminate is not None
    changed = _propagate(target, meta, options)
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = api.now()
        kind.terminate(obj)
        changed = True
    if not meta.get("finalizers") and (kind.is_finalized is None or kind.is_finalized(obj)):
        return Remove(obj)
    return Put(obj) if changed else None


async def delete_collection(api: Api, request: Request, target: Target) -> None:
    """Delete the selected objects one by one; the answer lists them."""
    presenter = api.presenter(target, request)
    listing = list_options(request, target.kind, watch=False, version=target.version)
    options = await delete_options(request)
    _warn_of_orphans(request, target, options)
    selection = Selection(target.kind, target.namespace, listing.labels, listing.fields)
    records, metadata = await select(api, target, replace(listing, limit=0), selection)
    done: list[Record] = []

    async def one(record: Record) -> None:
        namespace, _, name = record.key.rpartition("/")
        item = Target(target.kind, target.version, namespace, name)
        try:
            # A request for many names none of them.
            registered = api.admission(request, item, options.said, named=False)
            await remove(api, request, item, options, registered)
        except StatusError as error:
            if error.code != 404:
                raise
        else:
            # Upstream shows them as they were listed.
            done.append(record)

    for start in range(0, len(records), _DELETE_TOGETHER):
        await asyncio.gather(*(one(record) for record in records[start : start + _DELETE_TOGETHER]))
    done.sort(key=lambda record: record.key)
    metadata["resourceVersion"] = str(api.store.revision)
    body = await api.apart.run(partial(presenter.listing, done, metadata))
    await request.respond(200, body, presenter.accepted.media_type)
