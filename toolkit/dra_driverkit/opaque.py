"""Opaque device configuration: the config that applies to a device, and strict decoding."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar, dataclass_transform, overload

import msgspec
from dra_shared.api.resource import (
    DeviceAllocationConfiguration,
    DeviceRequestAllocationResult,
    ResourceClaim,
)

from dra_driverkit.errors import PrepareError
from dra_driverkit.strictness import drop_nulls, find_unknown_fields

T = TypeVar("T", bound=msgspec.Struct)
S = TypeVar("S", bound=msgspec.Struct)
V = TypeVar("V")

_SOURCES = ("FromClass", "FromClaim")


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Config(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A config object that claims may contain: fields with types and defaults.

    ``__post_init__`` may check values. A ValueError from it is reported as an error of the claim.
    """


class Configs(Generic[T]):
    """Selects and decodes the config for a device of a claim.

    Args:
        kinds: the types of config objects by kind; empty if claims may have no config.
        default: the config of devices for which neither the class nor the claim has one. A driver with several types
            of devices has a sequence, with a config for each type.
    """

    def __init__(
        self, driver: str, api_version: str, kinds: Mapping[str, type[T]], default: T | Sequence[T]
    ) -> None:
        self._driver = driver
        self._api_version = api_version
        self._kinds = kinds
        self._defaults: Sequence[T] = (default,) if isinstance(default, msgspec.Struct) else default

    @overload
    def of(self, claim: ResourceClaim, result: DeviceRequestAllocationResult) -> T: ...

    @overload
    def of(self, claim: ResourceClaim, result: DeviceRequestAllocationResult, kind: type[S]) -> S: ...

    def of(
        self, claim: ResourceClaim, result: DeviceRequestAllocationResult, kind: type[Any] = msgspec.Struct
    ) -> Any:
        """Return the config of one allocated device of the claim.

        A config that names requests is for the devices of these requests. A config without requests is for all
        devices that take its type.

        Args:
            kind: the type of config that the device takes. Without it, devices take all types.

        Raises:
            PrepareError: any of the claim's configs is malformed, or the one that names the request has another type
                than the device takes, or no config has the type.
        """
        assert claim.status.allocation is not None
        given = configs_for(self._driver, claim.status.allocation.devices.config)
        every: list[tuple[Sequence[str], T]] = [((), default) for default in self._defaults]
        every += [(requests, self._decode(raw)) for requests, raw in given]
        try:
            chosen = choose(every, result.request, lambda config: isinstance(config, kind))
        except LookupError:
            raise PrepareError(f'no config applies to device "{result.device}"') from None
        if not isinstance(chosen, kind):
            raise PrepareError(
                f'cannot apply {type(chosen).__name__} to device "{result.device}" (request: {result.request})'
            )
        return chosen

    def _decode(self, parameters: Any) -> T:
        if not self._kinds:
            raise PrepareError("configuration not allowed")
        return decode_strict(parameters, self._api_version, self._kinds)


def choose(
    configs: Sequence[tuple[Sequence[str], V]],
    request: str,
    fits: Callable[[V], bool] = lambda config: True,
) -> V:
    """Return the config that applies to a request: the last one that names it or applies to all requests.

    Args:
        configs: each with its requests, or none if it applies to all; lowest precedence first.
        fits: returns True if a config without requests applies to the device.

    Raises:
        LookupError: no config applies.
    """
    for requests, config in reversed(configs):
        if applies_to(requests, request) if requests else fits(config):
            return config
    raise LookupError(request)


def configs_for(
    driver: str, configs: Sequence[DeviceAllocationConfiguration]
) -> list[tuple[tuple[str, ...], Any]]:
    """Return the parameters for ``driver`` with their requests, lowest precedence first.

    Those of the class come before those of the claim. Otherwise their order is kept: the later one takes
    precedence. Parameters of other drivers are skipped, because one request may be served by several
    drivers.

    Raises:
        PrepareError: an entry is of a kind that this driver does not know.
    """
    for config in configs:
        if config.source not in _SOURCES:
            raise PrepareError(f"invalid config source: {config.source}")
    found = []
    for source in _SOURCES:
        for config in configs:
            if config.source != source:
                continue
            if config.opaque is None:
                raise PrepareError("only opaque parameters are supported by this driver")
            if config.opaque.driver == driver:
                found.append((config.requests, config.opaque.parameters))
    return found


def applies_to(requests: Sequence[str], request: str) -> bool:
    """True if a config's list of requests names ``request``. A main request includes its subrequests."""
    return request in requests or request.partition("/")[0] in requests


def decode_strict(parameters: Any, api_version: str, kinds: Mapping[str, type[T]]) -> T:
    """Decode the config object in a claim's parameters.

    Args:
        api_version: the only supported version.
        kinds: the type of each kind.

    Raises:
        PrepareError: the object has another kind, an unknown field, or a field of a wrong type.
    """
    value = msgspec.json.decode(parameters) if isinstance(parameters, msgspec.Raw) else parameters
    if not isinstance(value, dict):
        raise PrepareError("couldn't get version/kind; json parse error: parameters are not a JSON object")
    shown = json.dumps(value, separators=(",", ":"))
    if not value.get("kind"):
        raise PrepareError(f"Object 'Kind' is missing in '{shown}'")
    if not value.get("apiVersion"):
        raise PrepareError(f"Object 'apiVersion' is missing in '{shown}'")
    kind, version = value["kind"], value["apiVersion"]
    if version != api_version or kind not in kinds:
        raise PrepareError(
            f'no kind "{kind}" is registered for version "{version}" in scheme "{api_version}"'
        )
    body = {key: inner for key, inner in value.items() if key not in ("apiVersion", "kind")}
    unknown = list(find_unknown_fields(body, kinds[kind]))
    if unknown:
        raise PrepareError(
            "strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in unknown)
        )
    try:
        return msgspec.convert(drop_nulls(body, kinds[kind]), kinds[kind])
    except msgspec.ValidationError as error:
        raise PrepareError(f"cannot decode {kind}: {error}") from error
