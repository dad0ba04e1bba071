"""Delete an object: preconditions, grace periods, finalizers and propagation (`registry/rest/delete.go`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from dra_shared.clock import parse_rfc3339, rfc3339
from dra_shared.jsontypes import JsonObject

from dra_apiserver.admission import Chain
from dra_apiserver.api import Api
from dra_apiserver.errors import GroupResource, conflict, not_found
from dra_apiserver.http import Request
from dra_apiserver.storage import Put, Record, Remove
from dra_apiserver.target import Target

_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """`metav1.DeleteOptions`. `grace` is in seconds."""

    grace: int | None = None
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    orphan: bool | None = None
    dry_run: bool = False

    @property
    def has_default_propagation(self) -> bool:
        """True if the options do not say what happens to dependents, so the kind's default applies."""
        return self.orphan is None and not self.propagation

    def as_object(self) -> JsonObject:
        """Return the options as an object."""
        preconditions = {"uid": self.uid, "resourceVersion": self.resource_version}
        every: JsonObject = {
            "gracePeriodSeconds": self.grace,
            "preconditions": {key: value for key, value in preconditions.items() if value},
            "orphanDependents": self.orphan,
            "propagationPolicy": self.propagation,
            "dryRun": ["All"] if self.dry_run else [],
        }
        shown = {key: value for key, value in every.items() if value not in (None, "", {}, [])}
        return {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", **shown}


async def remove(
    api: Api,
    request: Request,
    target: Target,
    options: DeleteOptions,
    chain: Chain,
) -> tuple[Record, bool]:
    """Delete an object, or mark it. Return the resulting version, and whether it was removed.

    Raises:
        StatusError: it does not exist, or a precondition fails.
    """
    ctx = api.context(target, request.user, options.dry_run)
    gone = True

    def change(current: Record | None) -> Put | Remove | None:
        nonlocal gone
        gone = True
        if current is None:
            raise not_found(target.qualified_resource, target.name)
        obj = current.object()
        check_preconditions(target, obj["metadata"], options)
        chain.mutate(None, obj, ctx, "DELETE")
        chain.validate(None, obj, ctx, "DELETE")
        outcome = _outcome(api, target, obj, options)
        gone = isinstance(outcome, Remove)
        return outcome

    record = await api.write(target, change, options.dry_run, api.runner(target))
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
    """True if an object that was only marked so far, with grace period 0 and no finalizers, has to be removed now."""
    if target.kind.deletion.check_graceful_delete is None:
        return False
    meta = record.object()["metadata"]
    return meta.get("deletionGracePeriodSeconds") == 0 and not meta.get("finalizers")


def check_preconditions(target: Target, meta: JsonObject, options: DeleteOptions) -> None:
    """Check that the object is the one that the client means.

    Raises:
        StatusError: 409.
    """
    # Upstream names the kind here, while other conflicts name the resource.
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


def delete_by_server(api: Api, target: Target, obj: JsonObject) -> Put | Remove | None:
    """Return the change by which the server itself deletes an object: it is marked while it has finalizers, else
    removed.
    """
    return _outcome(api, target, obj, DeleteOptions())


def _outcome(api: Api, target: Target, obj: JsonObject, options: DeleteOptions) -> Put | Remove | None:
    meta = obj["metadata"]
    if target.kind.deletion.terminate is not None:
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
    """Return whether this request begins a graceful deletion, and whether an earlier one continues unchanged."""
    check = target.kind.deletion.check_graceful_delete
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
    """Set the garbage collector's finalizers according to the options. Return True if the object changed."""
    old = meta.get("finalizers") or []
    orphan, foreground = _ORPHAN in old, _FOREGROUND in old
    if options.orphan is not None:
        orphan, foreground = options.orphan, False
    elif options.propagation:
        orphan, foreground = options.propagation == "Orphan", options.propagation == "Foreground"
    elif not orphan and not foreground:
        orphan = target.kind.deletion.orphans_dependents
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
    """Mark an object (such as a namespace) that is removed once the finalizers in its spec are gone."""
    kind, meta = target.kind, obj["metadata"]
    assert kind.deletion.terminate is not None
    changed = _propagate(target, meta, options)
    if not meta.get("deletionTimestamp"):
        meta["deletionTimestamp"] = api.now()
        kind.deletion.terminate(obj)
        changed = True
    if not meta.get("finalizers") and (kind.deletion.is_finalized is None or kind.deletion.is_finalized(obj)):
        return Remove(obj)
    return Put(obj) if changed else None
