"""The API servers of one database, which find each other by Leases that each of them renews.

Upstream has a lease for the address in etcd (`pkg/controlplane/reconcilers/lease.go`), and one for the
identity in kube-system, which has this form (`pkg/controlplane/apiserver/server.go`).
"""

from __future__ import annotations

import base64
import hashlib
import socket
import uuid
from collections.abc import Callable
from datetime import timedelta

from dra_shared.clock import parse_rfc3339, rfc3339_micro
from dra_shared.jsontypes import JsonObject

from dra_apiserver.api import Api
from dra_apiserver.kinds.bootstrap.objects import place
from dra_apiserver.storage import Put, Record, Remove

LIFETIME = 30
"""Seconds for which a server counts as running after it renewed its lease: three rounds of the restorer."""
_KEPT = 3600
"""Seconds after which the lease of an ended server may be deleted: upstream's ``IdentityLeaseDurationSeconds``."""
_NAMESPACE = "kube-system"
_IDENTITY = "apiserver.kubernetes.io/identity"
_KIND = "kube-apiserver"
_ADDRESS = "dralab.dev/advertise-address"
_PORT = "dralab.dev/advertise-port"

Place = tuple[int, str]
"""A server's port and address."""


class Servers:
    """The servers of the database. ``address`` and ``port`` are this server's own, ``named`` its identity."""

    def __init__(self, api: Api, address: str, port: int, named: str = "") -> None:
        self._api = api
        self._address, self._port = address, port
        named = named or f"{address}:{port}"
        digest = base64.b32encode(hashlib.sha256(named.encode()).digest()).decode().lower()
        self._name = f"apiserver-{digest[:26]}"
        self._holder = f"{self._name}_{uuid.uuid4()}"
        # For each Lease by key: the last observed revision, and when it was first observed. Clocks of other
        # machines are not used.
        self._seen: dict[str, tuple[int, float]] = {}

    async def renew(self) -> None:
        """Create or renew the lease of this server."""
        lease = self._lease()
        storage, key = place(self._api, lease)

        def change(current: Record | None) -> Put:
            if current is None:
                made = {"uid": str(uuid.uuid4()), "creationTimestamp": self._api.now()}
                return Put({**lease, "metadata": {**lease["metadata"], **made}})
            old = current.object()
            return Put({**old, "metadata": {**old["metadata"], **lease["metadata"]}, "spec": lease["spec"]})

        await self._api.store.write(storage, key, change)

    async def leave(self) -> None:
        """Delete the Lease, unless another server with the same address and port has renewed it in the meantime."""
        storage, key = place(self._api, self._lease())

        def change(current: Record | None) -> Remove | None:
            if current is None or (current.object().get("spec") or {}).get("holderIdentity") != self._holder:
                return None
            return Remove(current.object())

        await self._api.store.write(storage, key, change)

    def places(self) -> list[Place]:
        """Return the sorted addresses of all running servers, of the same address family as this one's."""
        found = set()
        for _, lease, silent in self._leases():
            noted = lease["metadata"].get("annotations") or {}
            address: str = noted.get(_ADDRESS, "")
            if address and silent < LIFETIME and (":" in address) == (":" in self._address):
                # Leases of older dralab servers have no port.
                found.add((int(noted.get(_PORT, self._port)), address))
        return sorted(found)

    async def collect(self) -> None:
        """Delete the leases of ended servers (upstream's ``controller/apiserverleasegc``).

        A wrong clock does not delete the lease of a server that is observed to renew it.
        """
        storage, _ = place(self._api, self._lease())
        for record, lease, silent in self._leases():
            if silent >= LIFETIME and self._is_over(lease):
                await self._api.store.write(storage, record.key, _unless_changed(record.revision))

    def _leases(self) -> list[tuple[Record, JsonObject, float]]:
        """Return the leases of servers, each with the seconds for which no renewal was observed."""
        storage, _ = place(self._api, self._lease())
        collection = self._api.store.collection(storage)
        now = self._api.clock.monotonic()
        found, seen = [], {}
        for key in collection.range(f"{_NAMESPACE}/"):
            record = collection.records[key]
            lease = record.object()
            if (lease["metadata"].get("labels") or {}).get(_IDENTITY) != _KIND:
                continue
            revision, since = self._seen.get(key, (0, now))
            seen[key] = (record.revision, since if revision == record.revision else now)
            found.append((record, lease, now - seen[key][1]))
        self._seen = seen
        return found

    def _is_over(self, lease: JsonObject) -> bool:
        spec = lease.get("spec") or {}
        renewed, seconds = spec.get("renewTime"), spec.get("leaseDurationSeconds")
        if not renewed or not seconds:
            return True
        return parse_rfc3339(renewed) + timedelta(seconds=seconds) < self._api.clock.now()

    def _lease(self) -> JsonObject:
        labels = {_IDENTITY: _KIND, "kubernetes.io/hostname": socket.gethostname()}
        return {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {
                "name": self._name,
                "namespace": _NAMESPACE,
                "labels": labels,
                "annotations": {_ADDRESS: self._address, _PORT: str(self._port)},
            },
            "spec": {
                "holderIdentity": self._holder,
                "leaseDurationSeconds": _KEPT,
                "renewTime": rfc3339_micro(self._api.clock.now()),
            },
        }


def _unless_changed(revision: int) -> Callable[[Record | None], Remove | None]:
    def change(current: Record | None) -> Remove | None:
        if current is None or current.revision != revision:
            return None
        return Remove(current.object())

    return change
