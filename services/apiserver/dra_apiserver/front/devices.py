"""The devices and device classes of the store, decoded for endpoints that need all of them."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from dra_shared.api.codec import decode
from dra_shared.api.resource import DeviceClass
from dra_shared.api.resources import DEVICE_CLASSES, RESOURCE_SLICES, Resource
from dra_shared.cel.workbench import candidates

from dra_apiserver.api import Api
from dra_apiserver.front.claimbench import Classes
from dra_apiserver.front.workbench import Devices

T = TypeVar("T")


def stored_devices(api: Api) -> Devices:
    """Return the devices of the stored slices. They are decoded again only if a slice has changed."""
    return _cache(api, RESOURCE_SLICES, candidates)


def stored_classes(api: Api) -> Classes:
    """Return the device classes by name. They are decoded again only if one has changed."""

    def by_name(found: Iterable[DeviceClass]) -> dict[str, DeviceClass]:
        return {one.metadata.name: one for one in found}

    return _cache(api, DEVICE_CLASSES, by_name)


def _cache(
    api: Api, resource: Resource[Any], made: Callable[[Iterable[Any]], T]
) -> Callable[[], Awaitable[T]]:
    """Return a cache of the result of ``made`` for all objects of the resource. It is recomputed after a change."""
    key = resource.group, resource.plural
    known: tuple[int, T] | None = None

    async def objects() -> T:
        nonlocal known
        revision = api.store.collection(key).revision
        if known is None or known[0] != revision:
            records: list[Any] = api.listing(*key, "")
            known = revision, made(decode(resource, data) for data in records)
        return known[1]

    return objects
