"""The base of the controllers that create pods: map events to owners, create pods and delete pods.

Mirrors pkg/controller/controller_utils.go.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, ClassVar, TypeVar

import httpx
from dra_shared.api.meta import LabelSelector, Object
from dra_shared.api.pod import Pod
from dra_shared.api.resources import PODS, Resource
from dra_shared.claims import controller_of
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.events import reference
from dra_shared.client.informer import Informer
from dra_shared.selectors import label_selector
from msgspec.structs import replace

from dra_controller.expectations import Expectations
from dra_controller.framework import Context, QueueController
from dra_controller.ownership import Ownership
from dra_controller.pods import ORPHAN_INDEX, OWNER_INDEX, orphan_index, owner_index

TERMINATING = "NamespaceTerminating"
"""The cause of a refusal that needs no report: the namespace is being deleted."""

_BURST = 500

T = TypeVar("T")


class WorkloadController(QueueController):
    """A controller of pods for an ``owner`` resource whose objects have ``spec.selector``."""

    owner: Resource[Any]
    event_source: ClassVar[str | None] = None
    """The component that events name; by default the name of the controller."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.owners: Informer[Any] = self.watch(self.owner)
        self.pods = self.watch(PODS)
        self.recorder = context.recorder(self.event_source or self.name)
        self.expectations = Expectations(context.clock)
        self.pod_ownership = Ownership(context.client, self.owner, PODS)
        index_by_owner(self.pods)
        self.owners.add_handler(self.enqueue, self._owner_updated, self._owner_deleted)
        self.pods.add_handler(self._pod_added, self._pod_updated, self._pod_deleted)

    def enqueue(self, obj: Object) -> None:
        self.queue.add(obj.key)

    def selector_of(self, owner: Any) -> LabelSelector | None:
        selector: LabelSelector | None = owner.spec.selector
        return selector

    def _owner_updated(self, old: Object, new: Object) -> None:
        self.enqueue(new)

    def _owner_deleted(self, obj: Object) -> None:
        self.expectations.forget(obj.metadata.uid)
        self.enqueue(obj)

    def _pod_added(self, pod: Pod) -> None:
        self.expectations.note_seen(pod)
        self._enqueue_owner(pod)

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        self.expectations.note_seen(pod)
        before, after = controller_of(old), controller_of(pod)
        if before is not None and (after is None or after.uid != before.uid):
            self._enqueue_owner(old)
        if after is not None or before is not None or old.metadata.labels != pod.metadata.labels:
            self._enqueue_owner(pod)

    def _pod_deleted(self, pod: Pod) -> None:
        self.expectations.note_gone(pod)
        self._enqueue_owner(pod)

    def _enqueue_owner(self, pod: Pod) -> None:
        owner = controller_of(pod)
        if owner is not None:
            group = owner.api_version.rpartition("/")[0]
            if owner.kind == self.owner.kind and group == self.owner.group:
                self.queue.add(f"{pod.metadata.namespace}/{owner.name}")
            return
        if pod.metadata.deletion_timestamp is not None:
            return
        for candidate in self.owners.store.list():
            if candidate.metadata.namespace == pod.metadata.namespace and pod.metadata.labels:
                selector = self.selector_of(candidate)
                if selector is not None and label_selector(selector).matches(pod.metadata.labels):
                    self.enqueue(candidate)

    def is_settled(self, owner: Object) -> bool:
        """Return True if the informer has reported all creations and deletions that were made for ``owner``.

        Otherwise, queue its key for later.
        """
        uid = owner.metadata.uid
        if self.expectations.is_satisfied(uid):
            return True
        self.queue.add_after(owner.key, self.expectations.seconds_left(uid) + 0.001)
        return False

    def admit(self, owner: Object, pod: Pod) -> Pod:
        """Return the pod to create for the owner.

        Raises:
            ApiError: an operator rejects it.
        """
        meta = replace(pod.metadata, namespace=owner.metadata.namespace)
        return self._context.pod_admission.admit(replace(pod, metadata=meta))

    async def create_pods(self, owner: Object, pods: Sequence[Pod]) -> None:
        """Create pods, few at first and more while it works. The first failure ends it.

        Raises:
            ApiError: a pod could not be created.
        """

        async def create(pod: Pod) -> None:
            involved = reference(self.owner, owner)
            try:
                made = await self._client.create(PODS, self.admit(owner, pod), owner.metadata.namespace)
            except ApiError as error:
                if not error.has_cause(TERMINATING):
                    self.recorder.event(involved, "Warning", "FailedCreate", f"Error creating: {error}")
                raise
            except (httpx.HTTPError, OSError, TimeoutError):
                self.expectations.expect_unknown(owner.metadata.uid)
                await self._find_lost(owner)
                raise
            self.expectations.expect_creation(owner.metadata.uid, made)
            self.recorder.event(involved, "Normal", "SuccessfulCreate", f"Created pod: {made.metadata.name}")

        await start_slowly([_bind(create, pod) for pod in pods[:_BURST]])

    async def _find_lost(self, owner: Object) -> None:
        """Add pods to the expectations that were created although the response was lost."""
        try:
            pods = await self._client.list(PODS, owner.metadata.namespace)
        except (ApiError, httpx.HTTPError, OSError, TimeoutError):
            return
        for pod in pods.items:
            found = controller_of(pod)
            if found is not None and found.uid == owner.metadata.uid:
                self.expectations.expect_creation(owner.metadata.uid, pod)

    def deletion_text(self, owner: Object, pod: Pod) -> str:
        """Return the text of the event for a deleted pod."""
        return f"Deleted pod: {pod.metadata.name}"

    async def delete_pods(self, owner: Object, pods: Sequence[Pod]) -> None:
        """Delete pods, all at once. A pod that is gone already is not a failure."""

        async def delete(pod: Pod) -> None:
            involved = reference(self.owner, owner)
            self.expectations.expect_deletion(owner.metadata.uid, pod)
            try:
                await self._client.delete(
                    PODS, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid
                )
            except NotFound:
                self.expectations.note_gone(pod)
                return
            except ApiError as error:
                self.expectations.stop_expecting(pod)
                self.recorder.event(involved, "Warning", "FailedDelete", f"Error deleting: {error}")
                raise
            except (httpx.HTTPError, OSError, TimeoutError):
                self.expectations.stop_expecting(pod)
                self.expectations.expect_unknown(owner.metadata.uid)
                raise
            self.recorder.event(involved, "Normal", "SuccessfulDelete", self.deletion_text(owner, pod))

        await run_all([_bind(delete, pod) for pod in pods[:_BURST]])


def index_by_owner(informer: Informer[Any]) -> None:
    """Add the indexes by owner to the informer's store, unless another controller has added them."""
    informer.store.add_index(OWNER_INDEX, owner_index)
    informer.store.add_index(ORPHAN_INDEX, orphan_index)


async def start_slowly(calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Make the calls in batches of 1, 2, 4 and so on. A batch with a failure is the last one.

    Raises:
        Exception: the first failure.
    """
    start, size = 0, 1
    while start < len(calls):
        await run_all(calls[start : start + size])
        start, size = start + size, size * 2


async def run_all(calls: Sequence[Callable[[], Awaitable[None]]]) -> None:
    """Make all calls concurrently, and wait for all of them.

    Raises:
        Exception: the first failure.
    """
    results = await asyncio.gather(*(call() for call in calls), return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


def _bind(function: Callable[[T], Awaitable[None]], argument: T) -> Callable[[], Awaitable[None]]:
    return lambda: function(argument)
