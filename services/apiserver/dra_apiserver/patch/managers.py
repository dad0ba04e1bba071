"""managedFields: read, merge and write the entries of an object's field managers."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dra_apiserver.patch.fieldset import FieldSet, decode, difference, intersection, sort_steps, union_all

_MOST_UPDATERS = 10
_ANCIENT = "ancient-changes"
FIELDS_V1 = "FieldsV1"
STRIPPED: FieldSet = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {
        ".": {},
        "f:name": {},
        "f:namespace": {},
        "f:creationTimestamp": {},
        "f:selfLink": {},
        "f:uid": {},
        "f:clusterName": {},
        "f:generation": {},
        "f:managedFields": {},
        "f:resourceVersion": {},
    },
}


class ManagerKey(NamedTuple):
    """The identity of an entry. Appliers keep one entry for all versions, so theirs has no version."""

    manager: str
    operation: str
    api_version: str = ""
    subresource: str = ""

    def text(self) -> str:
        """Format the manager for messages of conflicts."""
        quoted = '"' + self.manager + '"'
        if self.subresource:
            quoted += f' with subresource "{self.subresource}"'
        return f"{quoted} using {self.api_version}" if self.operation == "Update" else quoted


@dataclass(slots=True)
class Entry:
    """One manager's fields, in the version of its last write.

    ``stored`` is the entry of a stored object from which it was read.
    """

    api_version: str
    fields: FieldSet
    time: str | None = None
    stored: dict[str, Any] | None = None

    def is_unchanged(self) -> bool:
        """True if the entry is equal to ``stored``."""
        stored = self.stored
        return (
            stored is not None
            and stored["fieldsV1"] is self.fields
            and stored.get("time") == self.time
            and stored.get("apiVersion") == self.api_version
        )


@dataclass(slots=True)
class Managers:
    """All managers of an object."""

    entries: dict[ManagerKey, Entry] = field(default_factory=dict)

    def cap(self) -> None:
        """Merge the oldest updaters into one entry for each version if there are more than ten."""
        # Only updaters are limited: each has an entry for each manager name and version, which clients
        # choose. Appliers must keep their entries, because pruning depends on them. The oldest updaters are
        # merged first, per version, because fields of different versions cannot be joined.
        updaters = [key for key in self.entries if key.operation == "Update"]
        if len(updaters) <= _MOST_UPDATERS:
            return
        # Go from the oldest to the newest. The first entry of a version stays as it is until a second one of that
        # version has to be merged: only then the two become the version's bucket, and there is one entry less.
        # Invariant: ``count`` is the number of updaters that are left. The bucket has the time of its newest part.
        # Its fields are joined once at the end, because joining them for each entry would repeat the work.
        updaters.sort(key=lambda key: (self.entries[key].time or "", key))
        first: dict[str, ManagerKey] = {}
        folded: dict[ManagerKey, list[FieldSet]] = {}
        count = len(updaters)
        for key in updaters:
            if count <= _MOST_UPDATERS:
                break
            entry = self.entries[key]
            bucket = ManagerKey(_ANCIENT, "Update", entry.api_version)
            earlier = first.get(entry.api_version)
            if earlier is None:
                first[entry.api_version] = key
                continue
            if bucket not in self.entries:
                self.entries[bucket] = self.entries.pop(earlier)
            kept = self.entries[bucket].fields
            folded.setdefault(bucket, [kept]).append(entry.fields)
            self.entries[bucket] = Entry(entry.api_version, kept, entry.time)
            del self.entries[key]
            count -= 1
        for bucket, trees in folded.items():
            if bucket in self.entries:
                self.entries[bucket].fields = union_all(trees)

    def take_from_others(self, key: ManagerKey, taken: FieldSet, gone: FieldSet) -> None:
        """Remove the taken fields and those that no longer exist from every manager but ``key``."""
        for other in list(self.entries):
            if other == key:
                continue
            entry = self.entries[other]
            # Entries are replaced and not changed: the field sets may be shared with the stored object. An
            # entry whose fields did not change is kept as it is, which also keeps its time.
            # A manager whose last field is removed has no entry any more.
            theirs = intersection(entry.fields, taken)
            lost = intersection(entry.fields, gone)
            if not theirs and not lost:
                continue
            left = difference(entry.fields, theirs) if theirs else entry.fields
            if lost:
                left = difference(left, lost)
            if left:
                self.entries[other] = Entry(entry.api_version, left, entry.time, entry.stored)
            else:
                del self.entries[other]


def read_managers(entries: Any, stored: bool = False) -> Managers:
    """Return the managers in ``metadata.managedFields``; none if an entry is invalid.

    ``stored``: the entries were written by `write_managers`.
    """
    # As upstream, one invalid entry makes all of them invalid, and the caller then uses the stored entries. Stored
    # entries were checked when they were written. Each keeps its original, so that an unchanged entry is written
    # back without encoding it again.
    managers = Managers()
    for raw in entries or ():
        if not stored:
            if not _is_entry(raw):
                return Managers()
            try:
                raw = {**raw, "fieldsV1": decode(raw.get("fieldsV1"))}
            except (ValueError, RecursionError):
                return Managers()
        operation, version = raw["operation"], raw.get("apiVersion") or ""
        key = ManagerKey(
            raw.get("manager") or "",
            operation,
            version if operation == "Update" else "",
            raw.get("subresource") or "",
        )
        fields = raw.get("fieldsV1")
        if isinstance(fields, dict) and fields:
            managers.entries[key] = Entry(version, fields, raw.get("time"), raw if stored else None)
    return managers


def _is_entry(raw: Any) -> bool:
    return (
        isinstance(raw, dict)
        and raw.get("operation") in ("Apply", "Update")
        and bool(raw.get("apiVersion"))
        and raw.get("fieldsType") == FIELDS_V1
    )


def write_managers(managers: Managers) -> list[dict[str, Any]]:
    """Return the entries for ``metadata.managedFields``, in upstream's order."""
    order = sorted(
        managers.entries.items(),
        key=lambda item: (
            item[0].operation,
            item[1].time or "",
            item[0].manager,
            item[1].api_version,
            item[0].subresource,
        ),
    )
    made = []
    for key, entry in order:
        if entry.is_unchanged():
            assert entry.stored is not None
            made.append(entry.stored)
            continue
        raw: dict[str, Any] = {
            "manager": key.manager,
            "operation": key.operation,
            "apiVersion": entry.api_version,
        }
        if entry.time is not None:
            raw["time"] = entry.time
        raw |= {"fieldsType": FIELDS_V1, "fieldsV1": sort_steps(entry.fields)}
        if key.subresource:
            raw["subresource"] = key.subresource
        made.append(raw)
    return made
