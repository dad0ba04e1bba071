"""The API servers of one database, as each of them knows the others: by Leases, which every one renews.

Upstream has a lease of an address in etcd (`pkg/controlplane/reconcilers/lease.go`), and one of an identity in
kube-system, which has this form (`pkg/controlplane/apiserver/server.go`).
"""

from __future__ import annotations

import base64
import hashlib
import socket
import uuid
from typing import Any

from dra_shared.clock import rfc3339_micro

from dra_apiserver.api import Api
from dra_apiserver.kinds.bootstrap.objects import place
from dra_apiserver.storage import Put, Record, Remove

Object = dict[str, Any]

LIFETIME = 30
"""Seconds for which a server counts after it has renewed its lease: three rounds of the restorer."""
_IDENTITY = "apiserver.kubernetes.io/identity"
_KIND = "kube-apiserver"
_ADDRESS = "dralab.dev/advertise-address"


class Servers:
    """Who else serves the database; ``address`` is this server's own."""

    def __init__(self, api: Api, address: str) -> None:
        self._api = api
        self._address = address
        digest = base64.b32encode(hashlib.sha256(address.encode()).digest()).decode().lower()
        self._name = f"apiserver-{digest[:26]}"
        self._holder = f"{self._name}_{uuid.uuid4()}"
        # By key: the revision that was seen last, and when it was new. Clocks of other machines are not asked.
        self._seen: dict[str, tuple[int, float]] = {}

    async def renew(self) -> None:
        """Renew the lease of this server, or make it."""
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
        """Take the lease back, unless another server at the same address has renewed it since."""
        storage, key = place(self._api, self._lease())

        def change(current: Record | None) -> Remove | None:
            if current is None or (current.object().get("spec") or {}).get("holderIdentity") != self._holder:
                return None
            return Remove(current.object())

        await self._api.store.write(storage, key, change)

    def addresses(self) -> list[str]:
        """The addresses of all servers that are there, of the family that this one's is of; in order."""
        storage, _ = place(self._api, self._lease())
        now = self._api.clock.monotonic()
        found = set()
        for key, record in list(self._api.store.collection(storage).records.items()):
            if not key.startswith("kube-system/apiserver-"):
                continue
            revision, since = self._seen.get(key, (0, now))
            if revision != record.revision:
                self._seen[key] = (record.revision, since := now)
            meta = record.object()["metadata"]
            address: str = (meta.get("annotations") or {}).get(_ADDRESS, "")
            ours = (meta.get("labels") or {}).get(_IDENTITY) == _KIND and address
            if ours and now - since < LIFETIME and (":" in address) == (":" in self._address):
                found.add(address)
        return sorted(found)

    def _lease(self) -> Object:
        labels = {_IDENTITY: _KIND, "kubernetes.io/hostname": socket.gethostname()}
        return {
            "kind": "Lease",
            "apiVersion": "coordination.k8s.io/v1",
            "metadata": {
                "name": self._name,
                "namespace": "kube-system",
                "labels": labels,
                "annotations": {_ADDRESS: self._address},
            },
            "spec": {
                "holderIdentity": self._holder,
                "leaseDurationSeconds": LIFETIME,
                "renewTime": rfc3339_micro(self._api.clock.now()),
            },
        }
