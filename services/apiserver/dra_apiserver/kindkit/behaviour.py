"""Parts of a kind's record that say how writes and deletes of its objects work, with upstream's defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from dra_shared.jsontypes import JsonObject
from dra_shared.names import NameRule, dns_subdomain_name

from dra_apiserver.authorization import Authorizer
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.user import UserInfo

FieldPath = tuple[str, ...]
"""A path to a field in the form of managed fields, such as ``("f:metadata", "f:labels")``."""
Default = Callable[[JsonObject, str, str], None]
"""Sets a kind's defaults in an object in place, given its version and the time of the request ("": none)."""
Convert = Callable[[JsonObject], None]
"""Changes an object in place from one version's form to another's."""


class Persistence(Protocol):
    """Converts objects between the form in which they are stored and the one in which requests see them.

    For kinds whose conversion calls a webhook, and for those whose stored objects may have several versions.
    """

    waits: bool
    """True if a conversion may call a webhook, so that it must run in a thread of `Offload`."""

    def decode(self, data: bytes) -> JsonObject:
        """Return a stored object as requests see it.

        Raises:
            StatusError: 500, the webhook failed.
        """

    def encode(self, obj: JsonObject) -> JsonObject:
        """Return an object as it is stored.

        Raises:
            StatusError: 500, the webhook failed.
        """

    async def fetch(self, stored: Iterable[bytes], fresh: bool = False) -> None:
        """Convert stored objects in advance, so that `decode` need not wait. `fresh` ignores cached conversions.

        Raises:
            StatusError: 500, the webhook failed.
        """


Warn = Callable[[JsonObject, JsonObject | None], Iterable[str]]
"""Returns the warnings of a valid object, given the object that it replaces (None for a new one)."""
Admit = Callable[[JsonObject | None, JsonObject | None, Context, str], None]
"""An admission plugin: the object, the old one, the request and the operation. Raises StatusError to refuse."""
Plugin = tuple[str, Admit]
"""An admission plugin with its name, by which it can be turned off."""
CheckEscalation = Callable[[Authorizer, UserInfo, str, str, str, JsonObject, JsonObject | None], None]
"""Given the authorizer, the user, the resource, the namespace, the path's name, the new object and the old one."""


@dataclass(frozen=True, slots=True)
class Admission:
    """The admission plugins of a kind, in the order in which they run."""

    mutating: Sequence[Plugin] = ()
    validating: Sequence[Plugin] = ()
    quota: Sequence[Plugin] = ()
    """They run last, after policies and webhooks, because they count what is going to be stored."""


@dataclass(frozen=True, slots=True)
class Validation:
    """The rules for validating metadata, and whether validating an object may take long."""

    name_rule: NameRule = dns_subdomain_name
    core_metadata: bool = True
    """True if finalizers must be qualified, as in the core group's validation."""
    has_expressions: bool = False
    """True if objects have expressions that are compiled, which takes long for their size."""
    rules_take_long: Callable[[str], bool] | None = None
    """Given a version, true if checking even a small object may take long; None: it does not."""


@dataclass(frozen=True, slots=True)
class Writes:
    """The rules for creating and updating objects (fields and methods of upstream's strategies)."""

    counts_generation: bool = False
    keeps_status_on_create: bool = False
    allow_create_on_update: bool = False
    allow_unconditional_update: bool = True
    conditional_versions: frozenset[str] = frozenset()
    """Versions whose updates must name a resourceVersion, although those of other versions need not."""
    exclusive: bool = False
    """True if objects get values that no other object of the kind may have, such as addresses."""
    reset_fields: Mapping[str, Sequence[FieldPath]] = field(default_factory=dict)
    """By subresource, the fields that a write through it does not change (GetResetFields)."""
    check_escalation: CheckEscalation | None = None
    """Refuses, by raising StatusError, a write that would give away more than the user has."""


@dataclass(frozen=True, slots=True)
class Deletion:
    """The rules for deleting objects."""

    return_deleted_object: bool = False
    orphans_dependents: bool = False
    """True if dependents are orphaned by default (DefaultGarbageCollectionPolicy)."""
    orphans_warning: str = ""
    """The warning for a delete without a propagation policy."""
    check_graceful_delete: Callable[[JsonObject, int | None], int] | None = None
    """Returns the grace period in seconds, given the requested one; None if objects are deleted at once."""
    terminate: Callable[[JsonObject], None] | None = None
    """Marks an object whose deletion begins; None if nothing is to be marked."""
    is_finalized: Callable[[JsonObject], bool] | None = None
    """True if the kind's own finalizers are gone; None if it has none."""
    undeletable: Mapping[str, str] = field(default_factory=dict)
    """By name, why an object may not be deleted."""


def _nothing(_: JsonObject) -> None:
    """Leave the object unchanged."""


@dataclass(frozen=True, slots=True)
class Rewind:
    """The rules for putting objects back to an earlier state (`rest/rewind.py`). No counterpart upstream."""

    stays: Callable[[str], bool] = lambda _: False
    """Given its key, true if the object keeps its present state."""
    passing: Callable[[JsonObject], None] = _nothing
    """Removes from an object the fields that change with time alone: they do not count as a difference."""
    ended: Callable[[JsonObject, JsonObject], bool] = lambda _now, _then: False
    """Given the present and the earlier object, true if its work is over and has to begin again."""
    begin: Callable[[JsonObject], bool] = lambda _: False
    """Makes an object one that has not begun. Returns true if there was something to reset."""
