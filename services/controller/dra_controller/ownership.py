"""The objects that belong to a controller object: those that it owns, and orphans that its selector matches.

Mirrors pkg/controller/controller_ref_manager.go.
"""

from typing import Any, TypeVar

from dra_shared.api.meta import LabelSelector, Object
from dra_shared.api.resources import Resource
from dra_shared.client.errors import Invalid, NotFound
from dra_shared.client.rest import Client
from dra_shared.client.store import Store
from dra_shared.client.workqueue import Retry
from dra_shared.selectors import label_selector

from dra_controller.pods import ORPHAN_INDEX, OWNER_INDEX, controller_reference

Owned = TypeVar("Owned", bound=Object)


class Ownership:
    """Adopts and releases objects, as the controller reference managers of upstream do."""

    def __init__(self, client: Client, owners: Resource[Any], owned: Resource[Any]) -> None:
        self._client = client
        self._owners = owners
        self._owned = owned

    async def claim(
        self, owner: Object, selector: LabelSelector | None, store: Store[Owned], *, adopt: bool = True
    ) -> list[Owned]:
        """Return the objects in ``store`` that belong to ``owner``. Matching orphans are adopted, others are released.

        ``store`` needs the indexes ``OWNER_INDEX`` and ``ORPHAN_INDEX``. Without a selector nothing is
        adopted or released.
        """
        if selector is None:
            return [
                obj
                for obj in store.by_index(OWNER_INDEX, owner.metadata.uid)
                if obj.metadata.namespace == owner.metadata.namespace
            ]
        matches = label_selector(selector).matches
        mine: list[Owned] = []
        for obj in store.by_index(OWNER_INDEX, owner.metadata.uid):
            if obj.metadata.namespace != owner.metadata.namespace:
                continue
            if matches(obj.metadata.labels) or owner.metadata.deletion_timestamp is not None:
                mine.append(obj)
            else:
                await self._release(owner, obj)
        if not adopt or owner.metadata.deletion_timestamp is not None:
            return mine
        orphans = [
            obj
            for obj in store.by_index(ORPHAN_INDEX, owner.metadata.namespace)
            if obj.metadata.deletion_timestamp is None and matches(obj.metadata.labels)
        ]
        if orphans:
            await self._check_alive(owner)
            mine.extend([obj for obj in orphans if await self._adopt(owner, obj)])
        return mine

    async def _check_alive(self, owner: Object) -> None:
        meta = owner.metadata
        live = await self._client.get(self._owners, meta.name, meta.namespace)
        if live.metadata.uid != meta.uid or live.metadata.deletion_timestamp is not None:
            raise Retry(f"{self._owners.kind} {owner.key} is being deleted, not adopting anything")

    async def _adopt(self, owner: Object, obj: Object) -> bool:
        references = (*obj.metadata.owner_references, controller_reference(self._owners, owner))
        try:
            await self._patch(obj, list(references))
        except (NotFound, Invalid):
            return False
        return True

    async def _release(self, owner: Object, obj: Object) -> None:
        keep = [entry for entry in obj.metadata.owner_references if entry.uid != owner.metadata.uid]
        try:
            await self._patch(obj, keep)
        except (NotFound, Invalid):
            return

    async def _patch(self, obj: Object, references: list[Any]) -> None:
        meta = obj.metadata
        body = {
            "metadata": {
                "uid": meta.uid,
                "resourceVersion": meta.resource_version,
                "ownerReferences": references,
            }
        }
        await self._client.patch(self._owned, meta.name, body, meta.namespace)
