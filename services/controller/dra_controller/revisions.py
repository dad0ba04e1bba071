"""ControllerRevisions: the numbered history of a template, for DaemonSets and StatefulSets.

Mirrors pkg/controller/history/controller_history.go.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from dra_shared.api.apps import ControllerRevision
from dra_shared.api.meta import Object, ObjectMeta
from dra_shared.api.pod import PodTemplateSpec
from dra_shared.api.resources import CONTROLLER_REVISIONS, Resource
from dra_shared.client.errors import AlreadyExists, NotFound
from dra_shared.client.rest import Client
from dra_shared.client.store import Store
from dra_shared.client.workqueue import Retry
from msgspec.structs import replace

from dra_controller.pods import OWNER_INDEX, controller_reference

HASH = "controller-revision-hash"
"""The label of pods with their revision: the hash for a DaemonSet, the name for a StatefulSet."""

Digest = Callable[[PodTemplateSpec, Any, int | None], str]
"""Returns the hash of a template. Arguments: the template, the data of the revision, and the number of collisions."""


class History:
    """The revisions of the objects of one resource. Their hash is in ``label``.

    ``store`` needs the index ``OWNER_INDEX``.
    """

    def __init__(
        self,
        client: Client,
        owners: Resource[Any],
        store: Store[ControllerRevision],
        *,
        label: str,
        digest: Digest,
    ) -> None:
        self._client = client
        self._owners = owners
        self._store = store
        self._label = label
        self._digest = digest

    def of(self, owner: Object) -> list[ControllerRevision]:
        """Return the revisions of the owner, oldest first."""
        revisions = self._store.by_index(OWNER_INDEX, owner.metadata.uid)
        return sorted(revisions, key=lambda revision: (revision.revision, revision.metadata.name))

    def template(self, revision: ControllerRevision) -> PodTemplateSpec:
        """Return the pod template that the revision records."""
        data = {key: value for key, value in revision.data["spec"]["template"].items() if key != "$patch"}
        return msgspec.convert(data, PodTemplateSpec)

    async def current(
        self, owner: Object, template: PodTemplateSpec, collisions: int | None
    ) -> ControllerRevision:
        """Return the revision of the present template as the newest one. It is created or renumbered if necessary."""
        # Convert tuples to lists, so that the data equals the data that the API server returns.
        plain = msgspec.json.decode(msgspec.json.encode(template))
        data = {"spec": {"template": {**plain, "$patch": "replace"}}}
        known = self.of(owner)
        newest = max((revision.revision for revision in known), default=0)
        for revision in reversed(known):
            if revision.data != data:
                continue
            if revision.revision == newest:
                return revision
            return await self._client.update(CONTROLLER_REVISIONS, replace(revision, revision=newest + 1))
        digest = self._digest(template, data, collisions)
        wanted = ControllerRevision(
            metadata=ObjectMeta(
                name=f"{owner.metadata.name}-{digest}",
                namespace=owner.metadata.namespace,
                labels={**template.metadata.labels, self._label: digest},
                annotations=owner.metadata.annotations,
                owner_references=(controller_reference(self._owners, owner),),
            ),
            data=data,
            revision=newest + 1,
        )
        try:
            return await self._client.create(CONTROLLER_REVISIONS, wanted)
        except AlreadyExists as error:
            live = await self._client.get(
                CONTROLLER_REVISIONS, wanted.metadata.name, owner.metadata.namespace
            )
            if live.data == data:
                return live
            raise Retry(f"hash collision: {error}") from error

    async def truncate(self, owner: Object, used: Sequence[str], limit: int | None) -> None:
        """Delete the oldest revisions that no pod has, except ``limit`` of them (10 if None)."""
        unused = [revision for revision in self.of(owner) if revision.metadata.name not in used]
        keep = 10 if limit is None else limit
        for revision in unused[: max(0, len(unused) - keep)]:
            try:
                await self._client.delete(
                    CONTROLLER_REVISIONS, revision.metadata.name, revision.metadata.namespace
                )
            except NotFound:
                continue
