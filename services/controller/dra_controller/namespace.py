"""Deletes the content of a terminating namespace, and then removes the finalizer of the namespace.

Mirrors pkg/controller/namespace/deletion/namespaced_resources_deleter.go.
"""

from collections import Counter
from collections.abc import Sequence

import httpx
import msgspec
from dra_shared.api.core import Namespace, NamespaceCondition
from dra_shared.api.resources import NAMESPACES
from dra_shared.client.errors import ApiError, Conflict, NotFound, from_response
from dra_shared.client.workqueue import Retry
from dra_shared.clock import rfc3339
from dra_shared.log import logger
from msgspec.structs import replace

from dra_controller.discovery import Kind, discover
from dra_controller.framework import Context, QueueController

_FINALIZER = "kubernetes"
_PODS = ("", "pods")

_log = logger(__name__)


# In upstream's order (`status_condition_utils.go`): the type, the reason if there is a problem, and reason
# and message if there is none.
_CONDITIONS = (
    (
        "NamespaceDeletionDiscoveryFailure",
        ("DiscoveryFailed", "ResourcesDiscovered", "All resources successfully discovered"),
    ),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        ("GroupVersionParsingFailed", "ParsedGroupVersions", "All legacy kube types successfully parsed"),
    ),
    (
        "NamespaceDeletionContentFailure",
        (
            "ContentDeletionFailed",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
    ),
    (
        "NamespaceContentRemaining",
        ("SomeResourcesRemain", "ContentRemoved", "All content successfully removed"),
    ),
    (
        "NamespaceFinalizersRemaining",
        ("SomeFinalizersRemain", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    ),
)


def _remaining_messages(remaining: Counter[str], finalizers: Counter[str]) -> dict[str, str]:
    """Return the messages of the conditions that report what is left in the namespace."""
    found = {}
    if remaining:
        counts = ", ".join(
            f"{name} has {number} resource instances" for name, number in sorted(remaining.items())
        )
        found["NamespaceContentRemaining"] = f"Some resources are remaining: {counts}"
    if finalizers:
        waits = ", ".join(
            f"{name} in {number} resource instances" for name, number in sorted(finalizers.items())
        )
        found["NamespaceFinalizersRemaining"] = (
            f"Some content in the namespace has finalizers remaining: {waits}"
        )
    return found


class NamespaceController(QueueController):
    """The namespace-controller of kube-controller-manager."""

    name = "namespace-controller"
    queue_name = "namespace"
    # Retry quickly, because a namespace mostly waits for pods, which take seconds to end.
    base_delay = 0.02
    longest_delay = 5.0

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        namespaces = self.watch(NAMESPACES)
        self._namespaces = namespaces.store
        namespaces.add_handler(self._enqueue_terminating, lambda _, new: self._enqueue_terminating(new))

    def _enqueue_terminating(self, namespace: Namespace) -> None:
        if namespace.metadata.deletion_timestamp is not None:
            self.queue.add(namespace.key)

    async def reconcile(self, key: str) -> None:
        known = self._namespaces.get(key)
        if known is None or known.metadata.deletion_timestamp is None:
            return
        try:
            namespace = await self._client.get(NAMESPACES, key)
        except NotFound:
            return
        if namespace.metadata.uid != known.metadata.uid or namespace.metadata.deletion_timestamp is None:
            return
        if namespace.status.phase != "Terminating":
            status = replace(namespace.status, phase="Terminating")
            namespace = await self._client.update(
                NAMESPACES, replace(namespace, status=status), subresource="status"
            )
        if _FINALIZER not in namespace.spec.finalizers:
            return
        problems: dict[str, str] = {}
        remaining: Counter[str] = Counter()
        finalizers: Counter[str] = Counter()
        try:
            kinds = [
                entry.resource
                for entry in await discover(self._client)
                if entry.preferred and entry.resource.namespaced and entry.verbs >= {"delete", "list"}
            ]
        except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
            problems["NamespaceDeletionDiscoveryFailure"] = f"Discovery failed for some groups: {error}"
            kinds = []
        pods = [kind for kind in kinds if (kind.group, kind.plural) == _PODS]
        # Delete pods first, because the objects that they use must exist while they run.
        others = [kind for kind in kinds if kind not in pods]
        for group in (pods, others):
            errors = await self._empty(key, group, remaining, finalizers)
            if errors:
                joined = ", ".join(errors)
                problems["NamespaceDeletionContentFailure"] = (
                    f"Failed to delete all resource types, {len(errors)} remaining: {joined}"
                )
            if remaining or errors:
                break
        # As upstream: the conditions count what remains only once the pods are gone.
        counts = (Counter[str](), Counter[str]()) if group is pods else (remaining, finalizers)
        namespace = await self._write_conditions(namespace, problems, *counts)
        if problems or remaining:
            raise Retry(f"namespace {key} is not empty: {dict(remaining) or problems}")
        await self._finalize(namespace)

    async def _empty(
        self, namespace: str, kinds: Sequence[Kind], remaining: Counter[str], finalizers: Counter[str]
    ) -> list[str]:
        """Delete the objects of ``kinds``.

        Add the remaining objects to ``remaining``, and the finalizers that they wait for to ``finalizers``.
        """
        errors = []
        for kind in kinds:
            try:
                if not (await self._client.list(kind, namespace, limit=1)).items:
                    continue
                await self._delete_all(kind, namespace)
                for obj in (await self._client.list(kind, namespace)).items:
                    remaining[kind.group_resource if kind.group else f"{kind.plural}."] += 1
                    finalizers.update(obj.metadata.finalizers)
            except NotFound:
                continue
            except ApiError as error:
                errors.append(str(error))
        return errors

    async def _delete_all(self, kind: Kind, namespace: str) -> None:
        body = b'{"apiVersion":"v1","kind":"DeleteOptions","propagationPolicy":"Background"}'
        response = await self._client.raw("DELETE", kind.path(namespace), content=body)
        if response.status_code == 405:
            for obj in (await self._client.list(kind, namespace)).items:
                await self._client.delete(kind, obj.metadata.name, namespace, propagation="Background")
        elif response.status_code >= 400:
            raise from_response(response.status_code, response.content)

    async def _write_conditions(
        self,
        namespace: Namespace,
        problems: dict[str, str],
        remaining: Counter[str],
        finalizers: Counter[str],
    ) -> Namespace:
        remains = {**problems, **_remaining_messages(remaining, finalizers)}
        wanted = [self._condition(kind, remains, texts) for kind, texts in _CONDITIONS]
        old = {condition.type: condition for condition in namespace.status.conditions}
        new = tuple(_keep_time(condition, old.get(condition.type)) for condition in wanted)
        if new == namespace.status.conditions:
            return namespace
        status = replace(namespace.status, conditions=new)
        try:
            return await self._client.update(
                NAMESPACES, replace(namespace, status=status), subresource="status"
            )
        except Conflict as error:
            raise Retry(f"namespace {namespace.metadata.name} changed: {error}") from error

    def _condition(
        self, kind: str, problems: dict[str, str], words: tuple[str, str, str]
    ) -> NamespaceCondition:
        message = problems.get(kind)
        bad, good, text = words
        return NamespaceCondition(
            type=kind,
            status="True" if message is not None else "False",
            reason=bad if message is not None else good,
            message=message if message is not None else text,
            last_transition_time=rfc3339(self._clock.now()),
        )

    async def _finalize(self, namespace: Namespace) -> None:
        left = tuple(name for name in namespace.spec.finalizers if name != _FINALIZER)
        body = msgspec.json.encode(
            replace(
                namespace,
                api_version="v1",
                kind="Namespace",
                spec=replace(namespace.spec, finalizers=left),
            )
        )
        path = NAMESPACES.path(None, namespace.metadata.name, "finalize")
        response = await self._client.raw("PUT", path, content=body)
        if response.status_code >= 400 and response.status_code != 404:
            raise from_response(response.status_code, response.content)
        _log.info("removed the finalizer of an empty namespace", namespace=namespace.metadata.name)


def _keep_time(new: NamespaceCondition, old: NamespaceCondition | None) -> NamespaceCondition:
    """Return ``new``, with the transition time of ``old`` if the status is the same."""
    if old is None or old.status != new.status:
        return new
    return replace(new, last_transition_time=old.last_transition_time)
