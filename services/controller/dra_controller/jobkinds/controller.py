"""The base class of the controllers of custom kinds: create an object's children, and write its status and events."""

import copy
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import msgspec
from dra_shared.api.codec import convert, to_builtins
from dra_shared.api.meta import Object
from dra_shared.api.resources import Resource
from dra_shared.claims import controller_of
from dra_shared.client.errors import AlreadyExists, NotFound
from dra_shared.client.events import Recorder, reference
from dra_shared.clock import rfc3339
from dra_shared.jsontypes import JsonObject

from dra_controller.framework import Context, QueueController
from dra_controller.jobkinds.operators import Custom
from dra_controller.pods import OWNER_INDEX, controller_reference
from dra_controller.workload import index_by_owner

T = TypeVar("T", bound=Object)


@dataclass
class Draft:
    """The next status of an object, and the events to record once it is written."""

    obj: Custom
    now: str
    status: JsonObject = field(init=False)
    events: list[tuple[str, str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.status = copy.deepcopy(self.obj.status)

    def event(self, kind: str, reason: str, message: str) -> None:
        """Record an event after the write. ``kind`` is Normal or Warning."""
        self.events.append((kind, reason, message))

    def condition(self, name: str) -> JsonObject | None:
        """Return the condition of that type, or None."""
        conditions: list[JsonObject] = self.status.get("conditions", [])
        return next((one for one in conditions if one["type"] == name), None)

    def has(self, name: str) -> bool:
        """Return True if the condition of that type is True."""
        found = self.condition(name)
        return found is not None and found["status"] == "True"

    def set_condition(self, name: str, status: str, reason: str, message: str, **more: Any) -> bool:
        """Set a condition as apimachinery's meta.SetStatusCondition. Return True if it changed."""
        found = self.condition(name)
        new = {"type": name, "status": status, "reason": reason, "message": message, **more}
        if found is None:
            conditions = self.status.setdefault("conditions", [])
            conditions.append({**new, "lastTransitionTime": self.now})
            return True
        if all(found.get(key) == value for key, value in new.items()):
            return False
        if found["status"] != status:
            found["lastTransitionTime"] = self.now
        found.update(new)
        return True


def with_text_quantities(value: Any) -> Any:
    """Return an object in which quantities are texts.

    Custom resources may have numbers instead, which Go's types accept.
    """
    if isinstance(value, list):
        return [with_text_quantities(part) for part in value]
    if not isinstance(value, dict):
        return value
    return {
        key: {name: str(part) for name, part in one.items()}
        if key in ("limits", "requests") and isinstance(one, dict)
        else str(one)
        if key in ("sizeLimit", "divisor")
        else with_text_quantities(one)
        for key, one in value.items()
    }


def to_plain(obj: Object) -> JsonObject:
    """Return the object as dicts and lists, which may be changed."""
    plain: JsonObject = msgspec.json.decode(msgspec.json.encode(obj))
    return plain


class JobKindController(QueueController):
    """A controller of an ``owner`` resource whose objects have children of the ``owned`` resources."""

    operator: ClassVar[str]
    """The name of ``--with`` that wants the controller."""
    owner: ClassVar[Resource[Custom]]
    owned: ClassVar[Sequence[Resource[Any]]] = ()
    event_source: ClassVar[str]
    """The component that events name."""
    action: ClassVar[str] = "Reconciling"
    series: ClassVar[bool] = True
    """True if the operator writes events of events.k8s.io."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.owners = self.watch(self.owner)
        self.owners.add_handler(self._enqueue, lambda _, new: self._enqueue(new))
        self._stores = {}
        for resource in self.owned:
            informer = self.watch(resource)
            index_by_owner(informer)
            self._stores[resource.kind] = informer.store
            informer.add_handler(self._enqueue_owner, self._enqueue_owners, self._enqueue_owner)
        self.recorder = Recorder(context.client, self.event_source, clock=context.clock, series=self.series)

    @classmethod
    def is_wanted(cls, context: Context) -> bool:
        return cls.operator in context.operators

    def _enqueue(self, obj: Object) -> None:
        self.queue.add(obj.key)

    def _enqueue_owners(self, old: Object, new: Object) -> None:
        self._enqueue_owner(new)

    def _enqueue_owner(self, child: Object) -> None:
        owner = controller_of(child)
        if owner is not None and owner.kind == self.owner.kind:
            group = owner.api_version.rpartition("/")[0]
            if group == self.owner.group:
                self.queue.add(f"{child.metadata.namespace}/{owner.name}")

    async def reconcile(self, key: str) -> None:
        obj = self.owners.store.get(key)
        if obj is None or obj.metadata.deletion_timestamp is not None:
            return
        draft = Draft(obj, rfc3339(self._clock.now()))
        await self.sync(obj, draft)
        if draft.status != obj.status:
            changed = Custom(metadata=obj.metadata, spec=obj.spec, status=draft.status)
            try:
                await self._client.update(self.owner, changed, subresource="status")
            except NotFound:
                return
        for kind, reason, message in draft.events:
            self.report(obj, kind, reason, message)

    @abstractmethod
    async def sync(self, obj: Custom, draft: Draft) -> None:
        """Bring the children of the object to their desired state, and write its status to the draft."""

    def report(self, obj: Custom, kind: str, reason: str, message: str, action: str = "") -> None:
        """Record an event about the object."""
        self.recorder.event(reference(self.owner, obj), kind, reason, message, action or self.action)

    def children(self, resource: Resource[T], obj: Object) -> list[T]:
        """Return the children of the object, sorted by name."""
        found: Sequence[T] = self._stores[resource.kind].by_index(OWNER_INDEX, obj.metadata.uid)
        return sorted(found, key=lambda child: child.metadata.name)

    async def create(
        self, resource: Resource[T], body: JsonObject, obj: Object, *, owner: Resource[Any] | None = None
    ) -> bool:
        """Create a child of the object. Return False if an object of that name exists.

        ``owner`` is the resource of the object, if that is not the controller's.
        """
        parent = to_builtins(controller_reference(owner or self.owner, obj))
        meta = {**body["metadata"], "namespace": obj.metadata.namespace, "ownerReferences": [parent]}
        whole = convert(resource, with_text_quantities({**body, "metadata": meta}))
        try:
            await self._client.create(resource, whole)
        except AlreadyExists:
            return False
        return True

    async def delete(
        self, resource: Resource[T], children: Iterable[T], propagation: str | None = None
    ) -> None:
        """Delete those children that are not being deleted yet."""
        for child in children:
            meta = child.metadata
            if meta.deletion_timestamp is None:
                try:
                    await self._client.delete(
                        resource, meta.name, meta.namespace, uid=meta.uid, propagation=propagation
                    )
                except NotFound:
                    continue
