"""The Kubernetes version of the API server, for drivers that publish slices in another form to older servers."""

import dataclasses
import re

import httpx
import orjson
from dra_shared.client.rest import Client
from dra_shared.version import DEFAULT, V1_35, Version

from dra_driverkit.resources import DriverResources, Pool, PoolSlice

_MINOR = re.compile(r"(\d+)\.(\d+)")


async def has_split_slices(client: Client) -> bool:
    """Return True if the server wants counters in slices of their own, as Kubernetes 1.35 and later do.

    A server that does not answer counts as a new one, as it does for NVIDIA's driver.
    """
    return await _server_version(client) >= V1_35


async def _server_version(client: Client) -> Version:
    try:
        response = await client.raw("GET", "/version")
        body = orjson.loads(response.content) if response.status_code == 200 else {}
    except (httpx.HTTPError, OSError, TimeoutError, ValueError):
        return DEFAULT
    match = _MINOR.match(f"{body.get('major')}.{body.get('minor')}") if isinstance(body, dict) else None
    return Version(int(match[1]), int(match[2])) if match else DEFAULT


def join_counters(resources: DriverResources) -> DriverResources:
    """Return the resources with each counter set in the slice whose devices consume it, as Kubernetes 1.34 wants them.

    Slices whose devices share a counter set are joined.
    """
    return DriverResources({name: _join_pool(pool) for name, pool in resources.pools.items()})


def _join_pool(pool: Pool) -> Pool:
    sets = {counter_set.name: counter_set for slice_ in pool.slices for counter_set in slice_.shared_counters}
    joined: list[PoolSlice] = []
    for slice_ in pool.slices:
        if not slice_.devices:
            continue
        # Only slices that were joined before can have a counter set of this one.
        names = {use.counter_set for device in slice_.devices for use in device.consumes_counters}
        related = [other for other in joined if names & {counters.name for counters in other.shared_counters}]
        joined = [other for other in joined if other not in related]
        devices = tuple(device for part in (*related, slice_) for device in part.devices)
        names |= {counters.name for other in related for counters in other.shared_counters}
        counters = tuple(counters for name, counters in sets.items() if name in names)
        joined.append(dataclasses.replace(slice_, devices=devices, shared_counters=counters))
    return dataclasses.replace(pool, slices=tuple(joined))
