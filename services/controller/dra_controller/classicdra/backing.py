"""Create, replace and delete the current (resource.k8s.io/v1) objects that represent classic ones."""

import hashlib
from typing import Any, TypeVar

import msgspec
import orjson
from dra_shared.api.meta import Object
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import Resource
from dra_shared.claims import CLASSIC_UID_ANNOTATION
from dra_shared.client.errors import AlreadyExists, NotFound
from dra_shared.client.rest import Client
from dra_shared.client.store import Store
from dra_shared.client.workqueue import Retry
from dra_shared.log import logger

T = TypeVar("T", bound=Object)

TEMPLATE = "classic.resource.k8s.io/template"
"""The annotation of claims that come from a classic template: the name of the template."""
_SPEC = "classic.resource.k8s.io/spec"

_log = logger(__name__)


class Backing:
    """The current objects of one resource that represent classic objects."""

    def __init__(self, client: Client, resource: Resource[T], store: Store[T]) -> None:
        self._client = client
        self._resource = resource
        self._store = store

    def get(self, key: str) -> Any:
        """Return the current object for a classic one; None if it does not exist or belongs to another controller."""
        found = self._store.get(key)
        return found if found is not None and CLASSIC_UID_ANNOTATION in found.metadata.annotations else None

    def keys(self) -> list[str]:
        """Return the keys of all current objects that exist for classic ones."""
        return [obj.key for obj in self._store.list() if CLASSIC_UID_ANNOTATION in obj.metadata.annotations]

    async def ensure(self, origin: Object, wanted: dict[str, Any]) -> bool:
        """Make sure that ``wanted`` exists for a classic object. Return False if its name is taken by another object.

        Raises:
            Retry: another object has the name, and is being deleted.
        """
        digest = hashlib.sha256(orjson.dumps(wanted["spec"], option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
        meta = wanted["metadata"]
        annotations = {
            **meta.get("annotations", {}),
            CLASSIC_UID_ANNOTATION: origin.metadata.uid,
            _SPEC: digest,
        }
        made = {**wanted, "metadata": {**meta, "annotations": annotations}}
        existing = self._store.get(origin.key)
        if existing is None:
            await self._create(origin, made)
            return True
        own = existing.metadata.annotations
        if CLASSIC_UID_ANNOTATION not in own:
            return False
        if own[CLASSIC_UID_ANNOTATION] == origin.metadata.uid and own.get(_SPEC) == digest:
            return True
        if _in_use(existing):
            return own[CLASSIC_UID_ANNOTATION] == origin.metadata.uid
        await self.remove(existing)
        raise Retry(f"{self._resource.kind} {existing.key} is being replaced")

    async def _create(self, origin: Object, made: dict[str, Any]) -> None:
        obj = msgspec.convert(made, self._resource.type)
        try:
            await self._client.create(self._resource, obj, origin.metadata.namespace or None)
        except AlreadyExists as error:
            raise Retry(f"{self._resource.kind} {origin.key} was created in the meantime") from error
        _log.info("created the current object for a classic one", kind=self._resource.kind, object=origin.key)

    async def remove(self, existing: Object) -> None:
        """Delete a current object whose classic object is gone, or that belongs to another classic object."""
        meta = existing.metadata
        try:
            await self._client.delete(self._resource, meta.name, meta.namespace or None, uid=meta.uid)
        except NotFound:
            return
        _log.info(
            "deleted the current object of a classic one", kind=self._resource.kind, object=existing.key
        )


def _in_use(obj: Object) -> bool:
    """Return True if an object cannot be replaced: a claim that has devices."""
    return isinstance(obj, ResourceClaim) and obj.status.allocation is not None
