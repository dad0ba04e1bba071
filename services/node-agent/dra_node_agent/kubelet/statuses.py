"""Sends pod statuses to the API server, and the last delete of a finished pod (pkg/kubelet/status)."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Any

import httpx
import msgspec
from dra_shared.api.pod import Pod, PodStatus
from dra_shared.api.resources import PODS
from dra_shared.client.errors import ApiError, Conflict, NotFound
from dra_shared.client.rest import Client, PatchType
from dra_shared.clock import Clock
from dra_shared.log import logger
from dra_shared.numerals import integer, is_digits

from dra_node_agent.kubelet.podconditions import OWNED

_FIRST_RETRY, _LONGEST_RETRY = 0.2, 10.0

# If a container ends repeatedly while the server is unavailable, only the newest ends are reported.
_MOST_KEPT = 8

_ADDRESSES = frozenset(("podIPs", "hostIPs"))

_log = logger(__name__)


def status_patch(uid: str, old: PodStatus, new: PodStatus) -> dict[str, Any] | None:
    """Return the strategic merge patch from ``old`` to ``new``, or None if they are equal.

    It only contains differences, so that fields of other writers (conditions, claim statuses) are kept.
    """
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    changes: dict[str, Any] = {}
    for name in before.keys() | after.keys():
        if before.get(name) == after.get(name):
            continue
        if name == "conditions":
            wanted = after.get(name, ())
            known = {condition["type"]: condition for condition in before.get(name, ())}
            changed = [
                _with_nulls(known.get(condition["type"], {}), condition)
                for condition in wanted
                if known.get(condition["type"]) != condition
            ]
            gone = known.keys() - {condition["type"] for condition in wanted}
            changed += [{"$patch": "delete", "type": kind} for kind in OWNED if kind in gone]
            if changed:
                changes["$setElementOrder/conditions"] = [{"type": c["type"]} for c in wanted]
                changes[name] = changed
        elif name in _ADDRESSES:
            changes |= _addresses(name, before.get(name, ()), after.get(name, ()))
        else:
            changes[name] = after.get(name)
    if not changes:
        return None
    return {"metadata": {"uid": uid}, "status": changes}


def _addresses(name: str, old: Iterable[dict[str, Any]], new: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the patch of a list that is merged by address. Entries that are not deleted by name would remain."""
    kept = [one["ip"] for one in new]
    gone = [{"$patch": "delete", "ip": one["ip"]} for one in old if one["ip"] not in kept]
    wanted = [{"ip": ip} for ip in kept]
    return {f"$setElementOrder/{name}": wanted, name: wanted + gone}


def _with_nulls(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {**{name: None for name in old if name not in new}, **new}


def _is_newer(version: str, than: str) -> bool:
    return not (is_digits(version) and is_digits(than)) or integer(version) >= integer(than)


class StatusReporter:
    """Sends one pod's newest status. Older unsent ones are skipped, except those to be kept.

    ``reported`` is the status that the server has, as far as is known.
    """

    def __init__(self, client: Client, clock: Clock, pod: Pod) -> None:
        self._client = client
        self._clock = clock
        self._namespace, self._name, self._uid = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
        self.reported, self._version = pod.status, pod.metadata.resource_version
        self._wanted: PodStatus | None = None
        self._kept: deque[PodStatus] = deque(maxlen=_MOST_KEPT)
        self._delete = False
        self._gone = False
        self._sender: asyncio.Task[None] | None = None

    @property
    def newest(self) -> PodStatus:
        """The status that will be sent, or was sent last."""
        return self._wanted or self.reported

    def observe(self, pod: Pod) -> None:
        """Record the server's version of the pod, from a watch."""
        if self._wanted is None and _is_newer(pod.metadata.resource_version, self._version):
            self.reported, self._version = pod.status, pod.metadata.resource_version

    def mark_gone(self) -> None:
        """Stop reporting, because the pod's object was deleted."""
        self._gone = True

    def report(self, status: PodStatus, *, kept: bool = False) -> None:
        """Send ``status`` in the background.

        A status that is ``kept`` is sent even if a newer one follows before it was sent.
        """
        if kept:
            self._kept.append(status)
        self._wanted = status
        self._start()

    def delete(self) -> None:
        """Delete the pod's object after its last status, because all of its resources are released."""
        self._delete = True
        self._start()

    async def flush(self) -> None:
        """Wait until nothing is left to send."""
        while self._sender is not None and not self._sender.done():
            await asyncio.wait((self._sender,))

    def close(self) -> None:
        """Stop sending."""
        if self._sender is not None:
            self._sender.cancel()

    def _start(self) -> None:
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def _send(self) -> None:
        delay = _FIRST_RETRY
        while not self._gone and (self._wanted is not None or self._delete):
            try:
                if self._kept:
                    await self._send_status(self._kept[0])
                    self._kept.popleft()
                elif self._wanted is not None:
                    await self._send_status(self._wanted)
                else:
                    await self._client.delete(
                        PODS, self._name, self._namespace, uid=self._uid, grace_period=0
                    )
                    self._delete = False
                delay = _FIRST_RETRY
            except (NotFound, Conflict) as error:
                # The pod was deleted and perhaps recreated, so no status has to be sent for it any more.
                _log.debug("pod is gone", pod=f"{self._namespace}/{self._name}", error=str(error))
                self._gone = isinstance(error, NotFound) or "UID" in str(error)
                if not self._gone:
                    await self._clock.sleep(delay)
            except (ApiError, httpx.HTTPError, OSError, TimeoutError) as error:
                _log.info(
                    "pod status not reported, trying again",
                    pod=f"{self._namespace}/{self._name}",
                    error=str(error),
                )
                await self._clock.sleep(delay)
                delay = min(delay * 2, _LONGEST_RETRY)

    async def _send_status(self, status: PodStatus) -> None:
        patch = status_patch(self._uid, self.reported, status)
        if patch is not None:
            pod = await self._client.patch(
                PODS,
                self._name,
                patch,
                self._namespace,
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )
            self.reported, self._version = pod.status, pod.metadata.resource_version
        if self._wanted is status:
            self._wanted = None
