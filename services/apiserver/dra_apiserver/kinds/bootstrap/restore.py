"""Objects that the server restores while it runs, as kube-apiserver's controllers do.

Every ten seconds: its own service with Endpoints and EndpointSlices of all API servers of the database, the
Lease of its identity, the default ServiceCIDR and the addresses of services (kubernetesservice,
defaultservicecidr, the repair of ipallocator). Every minute: the system's namespaces and the defaults of API
priority and fairness (systemnamespaces, flowcontrol). Other objects are only created at the start.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence

from dra_shared.jsontypes import JsonObject
from dra_shared.log import logger

from dra_apiserver.api import Api
from dra_apiserver.kinds.bootstrap.objects import make, own_service, place, service_range, system_namespaces
from dra_apiserver.kinds.bootstrap.servers import Place, Servers
from dra_apiserver.kinds.flowcontrol.bootstrap import flow_schemas, priority_levels
from dra_apiserver.storage import Put, Record, Remove, Resource

_INTERVAL = 10.0
# The number of intervals after which slower repairs are due.
_SLOW = 6
# In seconds. An unreachable database must not delay the shutdown.
_LEAVE = 1.0
_AUTO_UPDATE = "apf.kubernetes.io/autoupdate-spec"
_MANDATORY = frozenset({"exempt", "catch-all"})
_SLICES: Resource = ("discovery.k8s.io", "endpointslices")
_OWN_SLICE = re.compile(r"default/kubernetes-\d+")
_ANY = frozenset({"", "0.0.0.0", "::"})

_log = logger(__name__)


class Restorer:
    """Restores missing objects. `port` is the server's own; `addresses` repairs the addresses of services."""

    def __init__(self, api: Api, port: int, addresses: Callable[[], Awaitable[None]]) -> None:
        self._api = api
        self._port = port
        self._addresses = addresses
        self._host = advertised_address(api.config.listen)
        # Servers that share a store follow the writes of the others.
        self._shared = api.store.follows
        # A server that is alone on its database uses one Lease, even if its port changes at the next start.
        self._servers = Servers(api, self._host, port, named="" if self._shared else self._host)
        self._identified = self._shared or api.features.enabled("APIServerIdentity")

    async def start(self) -> None:
        """Add this server to the endpoints, with the other running ones."""
        await self._lead(ports=True)

    async def stop(self) -> None:
        """Remove this server from the endpoints, unless it is the last server."""
        if not self._shared:
            return
        try:
            async with asyncio.timeout(_LEAVE):
                await self._servers.leave()
                if others := self._servers.places():
                    await self._put_endpoints(others, ports=True)
        except Exception as error:
            # Ignore the error: the other servers notice the missing renewals after a while.
            _log.warning("cannot take this server off the endpoints", error=str(error))

    async def _lead(self, *, ports: bool) -> None:
        if self._identified:
            await self._servers.renew()
        places = self._servers.places() if self._shared else []
        # Servers of one database state their ports in their Leases, so ports are compared, too.
        await self._put_endpoints(places or [(self._port, self._host)], ports=ports or self._shared)

    async def _put_endpoints(self, places: Sequence[Place], *, ports: bool) -> None:
        made = list(self._endpoints(places))
        for obj in made:
            await self._put(obj, lambda current, wanted: _differs(current, wanted, ports=ports))
        await self._remove_slices({obj["metadata"]["name"] for obj in made})

    async def _remove_slices(self, kept: Collection[str]) -> None:
        """Delete the EndpointSlices of ports that no server uses any more."""
        records = self._api.store.collection(_SLICES).records
        for key in [key for key in records if _OWN_SLICE.fullmatch(key)]:
            if key.partition("/")[2] not in kept:
                await self._api.store.write(
                    _SLICES, key, lambda current: None if current is None else Remove(current.object())
                )

    async def run(self) -> None:
        """Restore until cancelled."""
        round_ = 0
        while True:
            await self._api.clock.sleep(_INTERVAL)
            round_ += 1
            try:
                await self.restore(slow=round_ % _SLOW == 0)
            except Exception as error:
                # Ignore the error, because the next round tries again.
                _log.warning("cannot restore the server's own objects", error=str(error))

    async def restore(self, *, slow: bool) -> None:
        """Run one round. `slow` includes the objects that are restored once a minute."""
        made = [own_service(self._port), service_range(self._api.now())]
        await asyncio.gather(*(make(self._api, obj) for obj in made))
        await self._addresses()
        await self._lead(ports=False)
        await self._servers.collect()
        if slow:
            await asyncio.gather(*(make(self._api, obj) for obj in system_namespaces()))
            for obj in (*priority_levels(), *flow_schemas(self._api.now())):
                await self._put(obj, _is_out_of_date)

    async def _put(self, obj: JsonObject, differs: Callable[[JsonObject, JsonObject], bool]) -> None:
        """Create the object, or replace one that differs."""
        await make(self._api, obj)
        storage, key = place(self._api, obj)
        current = self._api.store.newest(storage, key)
        if current is None or not differs(current.object(), obj):
            return

        def change(record: Record | None) -> Put | None:
            if record is None or not differs(old := record.object(), obj):
                return None
            generation = old["metadata"].get("generation")
            counted = {"generation": generation + 1} if generation else {}
            kept = {name: value for name, value in obj.items() if name not in {"metadata", "status"}}
            return Put({**old, **kept, "metadata": {**old["metadata"], **counted}})

        await self._api.store.write(storage, key, change)

    def _endpoints(self, places: Sequence[Place]) -> Iterator[JsonObject]:
        """Yield Endpoints, and an EndpointSlice for each port. Upstream's servers all use one port."""
        hosts: dict[int, list[str]] = {}
        for port, host in sorted(places):
            hosts.setdefault(port, []).append(host)
        ports = {port: [{"name": "https", "port": port, "protocol": "TCP"}] for port in hosts}
        yield {
            "kind": "Endpoints",
            "apiVersion": "v1",
            "metadata": {
                "name": "kubernetes",
                "namespace": "default",
                "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
            },
            "subsets": [
                {"addresses": [{"ip": host} for host in found], "ports": ports[port]}
                for port, found in hosts.items()
            ],
        }
        for number, (port, found) in enumerate(hosts.items()):
            yield {
                "kind": "EndpointSlice",
                "apiVersion": "discovery.k8s.io/v1",
                "metadata": {
                    "name": f"kubernetes-{port}" if number else "kubernetes",
                    "namespace": "default",
                    "generation": 1,
                    "labels": {"kubernetes.io/service-name": "kubernetes"},
                },
                "addressType": "IPv6" if ":" in self._host else "IPv4",
                "endpoints": [{"addresses": [host], "conditions": {"ready": True}} for host in found],
                "ports": ports[port],
            }


def advertised_address(listen: str) -> str:
    """Return the address at which others reach the server: its own, or this machine's if it listens on all."""
    if listen not in _ANY:
        return listen
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def _differs(current: JsonObject, wanted: JsonObject, *, ports: bool) -> bool:
    """True if the endpoints' addresses differ. Like upstream, compare ports only when the server starts alone."""
    for field in ("subsets", "endpoints"):
        if field in wanted and [one.get("addresses") for one in current.get(field) or ()] != [
            one["addresses"] for one in wanted[field]
        ]:
            return True
    if not ports:
        return False
    fields = [name for name in ("subsets", "ports") if name in wanted]
    return any(current.get(name) != wanted[name] for name in fields)


def _is_out_of_date(current: JsonObject, wanted: JsonObject) -> bool:
    """True if a default must be updated: its spec differs, and users have not taken it over."""
    meta = current["metadata"]
    mandatory = meta["name"] in _MANDATORY
    if not mandatory and (meta.get("annotations") or {}).get(_AUTO_UPDATE) != "true":
        return False
    # The exempt part may be tuned by users.
    left_out = {"exempt"} if mandatory else set()

    def select_fields(obj: JsonObject) -> JsonObject:
        return {name: value for name, value in (obj.get("spec") or {}).items() if name not in left_out}

    return select_fields(current) != select_fields(wanted)
