"""The behaviour of a kind before its objects are stored.

A `Strategy` prepares and validates an object of one kind, or of one of its subresources, in its storage
version. Handlers call it in upstream's order (`registry/rest`): `prepare_for_create`, `validate_create`, then
`warnings_on_create`; for a change `prepare_for_update`, `validate_update`, `warnings_on_update`.

The strategy of most kinds is, or derives from, `dra_apiserver.common.generic.GenericStrategy`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject

from dra_apiserver.errors import FieldError
from dra_apiserver.user import ADMINISTRATOR, UserInfo

if TYPE_CHECKING:
    # A Kind has strategies, and a strategy uses the Kind. So each module can import the other's type only for
    # type checks.
    from dra_apiserver.kindkit.kind import Kind

Lookup = Callable[[str, str, str, str], JsonObject | None]
"""Returns the newest object by (group, plural, namespace or "", name), or None. It must not be changed."""
Listing = Callable[[str, str, str], list[bytes]]
"""Returns the newest objects of (group, plural) in a namespace, in their stored form."""
Authorize = Callable[[str, str, str, str], str | None]
"""Returns why the user may not do (verb, resource with subresource, namespace or "", name or ""); None if it may."""


def allow(verb: str, resource: str, namespace: str, name: str) -> str | None:
    """Allow everything: return None."""
    return None


def _nothing(group: str, plural: str, namespace: str) -> list[bytes]:
    return []


class Context(NamedTuple):
    """A request for strategies. `now` is RFC 3339 in seconds, UTC.

    Every write creates one. It is a named tuple, because a frozen dataclass takes several times as long to
    create or to change.

    `metadata_good`: the general rules for metadata have already been checked without errors. `choose` selects,
    usually at random, the address or port that the server allocates.
    """

    kind: Kind
    version: str
    namespace: str
    now: str
    features: FeatureGates
    lookup: Lookup
    subresource: str = ""
    user: UserInfo = ADMINISTRATOR
    dry_run: bool = False
    authorize: Authorize = allow
    verb: str = "update"
    listing: Listing = _nothing
    metadata_good: bool = False
    disabled_plugins: frozenset[str] = frozenset()
    choose: Callable[[range], int] = secrets.choice


class Strategy(Protocol):
    """The behaviour of a kind or subresource.

    Objects are in the storage version; `prepare_*` change `obj` in place.
    """

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None: ...

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]: ...

    def warnings_on_create(self, obj: JsonObject, ctx: Context) -> list[str]: ...

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None: ...

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]: ...

    def warnings_on_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[str]: ...
