"""What a kind does to its objects before they are stored.

A `Strategy` prepares and validates an object of one kind, or of one of its subresources, in its stored version.
Handlers call, in upstream's order (`registry/rest`): `prepare_for_create`, `validate_create`, then
`warnings_on_create`; for a change `prepare_for_update`, `validate_update`, `warnings_on_update`.

A kind without behaviour of its own has `dra_apiserver.common.generic.GenericStrategy`.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from dra_shared.features import FeatureGates

from dra_apiserver.errors import FieldError
from dra_apiserver.user import ADMINISTRATOR, UserInfo

if TYPE_CHECKING:
    # A kind has strategies, and a strategy is told of the kind: one of both can only name the other's type.
    from dra_apiserver.kindkit.kind import Kind

JsonObject = dict[str, Any]
Lookup = Callable[[str, str, str, str], JsonObject | None]
"""The newest object by (group, plural, namespace or "", name); None where there is none. Not to be changed."""
Listing = Callable[[str, str, str], list[bytes]]
"""The newest objects of (group, plural) in a namespace, as they are stored."""
Authorize = Callable[[str, str, str, str], str | None]
"""Why the user may not do (verb, resource with subresource, namespace or "", name or ""); None where it may."""


def allow(verb: str, resource: str, namespace: str, name: str) -> str | None:
    """The answer where anyone may do anything."""
    return None


def _nothing(group: str, plural: str, namespace: str) -> list[bytes]:
    return []


class Context(NamedTuple):
    """A request, as a strategy sees it. `now` is RFC 3339 in seconds, UTC.

    Every write makes one: a named tuple, since a frozen dataclass takes several times as long to make or to change.

    `metadata_good` says of a change that what every kind's metadata must be is checked, and that nothing is wrong.
    `choose` picks the number of an address or port that the server allocates.
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
    """The behaviour of a kind or subresource. Objects are in the stored version; `prepare_*` change `obj` in place."""

    def prepare_for_create(self, obj: JsonObject, ctx: Context) -> None: ...

    def validate_create(self, obj: JsonObject, ctx: Context) -> list[FieldError]: ...

    def warnings_on_create(self, obj: JsonObject, ctx: Context) -> list[str]: ...

    def prepare_for_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> None: ...

    def validate_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[FieldError]: ...

    def warnings_on_update(self, obj: JsonObject, old: JsonObject, ctx: Context) -> list[str]: ...
