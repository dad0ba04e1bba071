"""What a request is about."""

from __future__ import annotations

from dataclasses import dataclass

from dra_apiserver.errors import GroupResource
from dra_apiserver.kinds.kind import Kind
from dra_apiserver.storage import Resource, object_key


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names: a kind in a version, perhaps a namespace, an object and a subresource."""

    kind: Kind
    version: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

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
