"""The translation: create current objects for classic ones, and copy their status back."""

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
from dra_shared.api.core import Namespace
from dra_shared.api.meta import Object
from dra_shared.api.resource import ResourceClaim
from dra_shared.api.resources import (
    CONFIG_MAPS,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dra_shared.claims import IMMEDIATE_ANNOTATION
from dra_shared.classic.convert import convert_object
from dra_shared.classic.notes import Notes
from dra_shared.classic.status import old_status
from dra_shared.classic.world import World
from dra_shared.client.errors import AlreadyExists, NotFound
from dra_shared.client.events import reference
from dra_shared.client.informer import InformerFactory
from dra_shared.client.workqueue import WorkQueue, run_workers
from dra_shared.clock import parse_rfc3339

from dra_controller.classicdra.backing import TEMPLATE, Backing
from dra_controller.classicdra.contexts import Contexts, write_status
from dra_controller.classicdra.objects import (
    CLAIMS,
    CLASSES,
    CONTEXTS,
    PARAMETERS,
    TEMPLATES,
    VENDOR_CLASSES,
    ClassicObject,
    Finder,
    as_json,
)
from dra_controller.framework import Context

_GRACE = timedelta(seconds=5)
_POD = "Pod"


class Translator:
    """Reconciles keys such as ``resourceclaims.resource.k8s.io default/gpu``: a classic kind, and an object's key."""

    def __init__(self, context: Context, queue: WorkQueue[str]) -> None:
        self._client, self._clock, self.queue = context.client, context.clock, queue
        self._recorder = context.recorder("classic-dra")
        informers = InformerFactory(context.client, context.clock, relist_seconds=context.relist_seconds)
        self._informers = informers
        self._finder = Finder(informers)
        self._claims = informers.informer(RESOURCE_CLAIMS)
        self._namespaces = informers.informer(NAMESPACES)
        self._contexts = Contexts(context.client, informers, self._finder)
        self._kinds: dict[str, Resource[ClassicObject]] = {}
        self._backings: dict[str, Backing] = {}
        classes = Backing(context.client, DEVICE_CLASSES, informers.informer(DEVICE_CLASSES).store)
        claims = Backing(context.client, RESOURCE_CLAIMS, self._claims.store)
        templates = Backing(
            context.client, RESOURCE_CLAIM_TEMPLATES, informers.informer(RESOURCE_CLAIM_TEMPLATES).store
        )
        for kind, backing in (
            (CLASSES, classes),
            (CLAIMS, claims),
            (TEMPLATES, templates),
            *((kind, classes) for kind in VENDOR_CLASSES),
        ):
            self._kinds[kind.group_resource] = kind
            self._backings[kind.group_resource] = backing
        self._follow()

    def _follow(self) -> None:
        for kind in self._kinds.values():
            self._on_change(kind, self._adder(kind.group_resource))
        named: tuple[Resource[Any], ...] = (*PARAMETERS, CLASSES, CONFIG_MAPS)
        for other in named:
            self._on_change(other, lambda obj: self._queue_all())
        self._on_change(RESOURCE_CLAIMS, self._claim_changed)
        self._on_change(CLAIMS, self._add_pods_of)
        for class_ in (CLASSES, *VENDOR_CLASSES):
            self._on_change(DEVICE_CLASSES, self._adder(class_.group_resource))
        self._on_change(RESOURCE_CLAIM_TEMPLATES, self._adder(TEMPLATES.group_resource))
        self._on_change(PODS, self._adder(_POD))
        self._on_change(CONTEXTS, self._adder(_POD))
        self._on_change(NAMESPACES, self._namespace_changed)
        self._on_change(NODES, lambda obj: self._nodes_changed())
        self._on_change(RESOURCE_SLICES, lambda obj: self._nodes_changed())

    def _on_change(self, resource: Resource[Any], call: Callable[[Any], None]) -> None:
        self._informers.informer(resource).add_handler(call, lambda _, new: call(new), call)

    def _adder(self, prefix: str) -> Callable[[Object], None]:
        return lambda obj: self.queue.add(f"{prefix} {obj.key}")

    def _claim_changed(self, claim: ResourceClaim) -> None:
        self.queue.add(f"{CLAIMS.group_resource} {claim.key}")
        self._add_pods_of(claim)

    def _add_pods_of(self, claim: Object) -> None:
        """Queue the pods of a claim, because a pod may be known before its claim."""
        for pod in self._contexts.pods_of(claim.key):
            self.queue.add(f"{_POD} {pod}")

    def _nodes_changed(self) -> None:
        """Queue the pods without a node, because nodes, devices or the driver of a class changed."""
        for shown in self._informers.informer(CONTEXTS).store.list():
            if not shown.spec.get("selectedNode"):
                self.queue.add(f"{_POD} {shown.key}")

    def _queue_all(self) -> None:
        """Queue all objects that may refer to parameters or a class that changed."""
        for prefix, kind in self._kinds.items():
            for obj in self._informers.informer(kind).store.list():
                self.queue.add(f"{prefix} {obj.key}")
        self._nodes_changed()

    async def run(self) -> None:
        """Translate until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._informers.run())
            await self._informers.wait_for_sync()
            for prefix, backing in self._backings.items():
                for key in backing.keys():  # noqa: SIM118 - it is no mapping
                    self.queue.add(f"{prefix} {key}")
            await run_workers(self.queue, self.reconcile, workers=1, name="classic-dra-controller")

    async def reconcile(self, key: str) -> None:
        """Bring the current object of a classic one up to date, then update the classic object's status."""
        prefix, _, name = key.partition(" ")
        if prefix == _POD:
            await self._contexts.sync(name)
            return
        kind, backing = self._kinds[prefix], self._backings[prefix]
        origin = self._informers.informer(kind).store.get(name)
        if origin is not None and TEMPLATE in origin.metadata.annotations:
            await self._sync_shown(origin)
            return
        if origin is None or origin.metadata.deletion_timestamp is not None:
            await self._clean_up(prefix, name)
            return
        if kind.namespaced and await self._is_going(origin.metadata.namespace):
            await self._remove(kind, origin)
            return
        await self._translate(key, kind, backing, origin)
        if kind is CLAIMS and (today := backing.get(name)) is not None:
            await self._bring_back(origin, today)

    async def _translate(
        self, key: str, kind: Resource[ClassicObject], backing: Backing, origin: ClassicObject
    ) -> None:
        world = World(self._finder.find, self._finder.find_generated)
        made = convert_object(as_json(kind, origin), world, Notes(""))
        if world.missing and self._is_new(origin) and backing.get(origin.key) is None:
            # Retry later: manifests often list the parameters after the objects that refer to them.
            self.queue.add_after(key, _GRACE.total_seconds())
            return
        fresh = backing.get(origin.key) is None
        for wanted in made:
            if kind is TEMPLATES:
                meta = wanted["spec"].setdefault("metadata", {})
                meta["annotations"] = {**meta.get("annotations", {}), TEMPLATE: origin.metadata.name}
                _mark_immediate(origin.spec.get("spec", {}), meta)
            elif kind is CLAIMS:
                _mark_immediate(origin.spec, wanted["metadata"])
            if not await backing.ensure(origin, wanted) and wanted["kind"] != "DeviceClass":
                text = f"a {wanted['kind']} of resource.k8s.io/v1 has this name"
                self._recorder.event(reference(kind, origin), "Warning", "NotTranslated", text)
        if world.missing and fresh:
            text = f"{', '.join(sorted(world.missing))} not found, using the defaults"
            self._recorder.event(reference(kind, origin), "Warning", "ParametersNotFound", text)

    def _is_new(self, obj: Object) -> bool:
        created = obj.metadata.creation_timestamp
        return created is not None and self._clock.now() - parse_rfc3339(created) < _GRACE

    async def _clean_up(self, prefix: str, name: str) -> None:
        """Remove the current object of a classic one that is gone.

        A claim that was generated from a template gets a new classic claim.
        """
        today = self._backings[prefix].get(name)
        if today is not None:
            others = (other for other in self._kinds if other != prefix)
            if not any(self._is_origin(other, name, today) for other in others) and await self._is_gone(
                prefix, name
            ):
                await self._backings[prefix].remove(today)
            return
        claim = self._claims.store.get(name) if prefix == CLAIMS.group_resource else None
        if claim is not None and TEMPLATE in claim.metadata.annotations:
            await self._show(claim)

    async def _is_gone(self, prefix: str, key: str) -> bool:
        """Return True if the API server does not have the classic object either, or is deleting it.

        An informer may be behind.
        """
        namespace, _, name = key.rpartition("/")
        try:
            live = await self._client.get(self._kinds[prefix], name, namespace or None)
        except NotFound:
            return True
        return live.metadata.deletion_timestamp is not None

    def _is_origin(self, prefix: str, name: str, today: Object) -> bool:
        """Return True if ``today`` belongs to an object of this other kind.

        Only classes are created from several kinds.
        """
        if self._backings[prefix] is not self._backings[CLASSES.group_resource]:
            return False
        return self._informers.informer(self._kinds[prefix]).store.get(name) is not None

    async def _show(self, claim: ResourceClaim) -> None:
        """Create the classic form of a current claim that was generated for a pod from a classic template."""
        meta = claim.metadata
        template = self._informers.informer(TEMPLATES).store.get(
            f"{meta.namespace}/{meta.annotations[TEMPLATE]}"
        )
        if template is None or meta.deletion_timestamp is not None:
            return
        body = {
            "metadata": {
                "name": meta.name,
                "namespace": meta.namespace,
                "annotations": meta.annotations,
                "ownerReferences": msgspec.to_builtins(meta.owner_references),
            },
            "spec": template.spec.get("spec", {}),
        }
        try:
            await self._client.create(CLAIMS, msgspec.convert(body, ClassicObject), meta.namespace)
        except AlreadyExists:
            return

    async def _sync_shown(self, shown: ClassicObject) -> None:
        """Copy the status of a claim from a template to its classic form. Without the claim delete the classic form."""
        claim = self._claims.store.get(shown.key)
        if claim is not None and TEMPLATE in claim.metadata.annotations:
            await self._bring_back(shown, claim)
            return
        await self._remove(CLAIMS, shown)

    async def _remove(self, kind: Resource[Any], obj: Object) -> None:
        meta = obj.metadata
        with contextlib.suppress(NotFound):
            await self._client.delete(kind, meta.name, meta.namespace or None, uid=meta.uid)

    async def _is_going(self, namespace: str) -> bool:
        """Return True if a namespace is being deleted or is gone.

        The namespace controller only deletes current objects, so classic ones are deleted here.
        """
        known = self._namespaces.store.get(namespace)
        if known is None:
            try:
                known = await self._client.get(NAMESPACES, namespace)
            except NotFound:
                return True
        return known.metadata.deletion_timestamp is not None

    def _namespace_changed(self, namespace: Namespace) -> None:
        for kind in (CLAIMS, TEMPLATES):
            for obj in self._informers.informer(kind).store.list():
                if obj.metadata.namespace == namespace.metadata.name:
                    self.queue.add(f"{kind.group_resource} {obj.key}")

    async def _bring_back(self, origin: ClassicObject, today: ResourceClaim) -> None:
        class_ = self._informers.informer(CLASSES).store.get(origin.spec.get("resourceClassName", ""))
        spec = (class_.spec or msgspec.to_builtins(class_)) if class_ is not None else {}
        driver = spec.get("driverName") or origin.spec.get("resourceClassName", "")
        wanted = old_status(msgspec.to_builtins(today.status), driver, bool(spec.get("structuredParameters")))
        if wanted == origin.status:
            return
        gone = {name: None for name in origin.status if name not in wanted}
        await write_status(self._client, CLAIMS, origin, {**wanted, **gone})


def _mark_immediate(spec: dict[str, Any], meta: dict[str, Any]) -> None:
    """Ask the scheduler to allocate a claim at once if its classic form has the allocation mode Immediate."""
    if spec.get("allocationMode") == "Immediate":
        meta["annotations"] = {**meta.get("annotations", {}), IMMEDIATE_ANNOTATION: "Immediate"}
