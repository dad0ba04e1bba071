"""The target of a request."""

from __future__ import annotations

from typing import NamedTuple

from dra_apiserver.errors import GroupResource
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.storage import Resource, object_key


class Target(NamedTuple):
    """The target in a path: a kind in a version, and optionally a namespace, an object and a subresource.

    Every request creates one. It is a named tuple, because a frozen dataclass takes several times as long to
    create.
    """

    kind: Kind
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def with_name(self, name: str) -> Target:
        """Return the same target with another object's name."""
        return Target(self.kind, self.version, self.namespace, name, self.subresource)

    @property
    def resource(self) -> Resource:
        """The resource under which the store has the kind."""
        return self.kind.storage

    @property
    def key(self) -> str:
        """The object's key in the store."""
        return object_key(self.namespace, self.name)

    @property
    def qualified_resource(self) -> GroupResource:
        """The resource for error messages."""
        return GroupResource(self.kind.group, self.kind.plural)
