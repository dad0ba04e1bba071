"""What a request is about."""

from __future__ import annotations

from typing import NamedTuple

from dra_apiserver.errors import GroupResource
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.storage import Resource, object_key


class Target(NamedTuple):
    """What a path names: a kind in a version, perhaps a namespace, an object and a subresource.

    Every request makes one: a named tuple, since a frozen dataclass takes several times as long to make.
    """

    kind: Kind
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def named(self, name: str) -> Target:
        """The same with another object's name."""
        return Target(self.kind, self.version, self.namespace, name, self.subresource)

    @property
    def resource(self) -> Resource:
        """Where the store keeps the kind."""
        return self.kind.storage

    @property
    def key(self) -> str:
        """The object's key in the store."""
        return object_key(self.namespace, self.name)

    @property
    def qualified(self) -> GroupResource:
        """The resource as errors name it."""
        return GroupResource(self.kind.group, self.kind.plural)
