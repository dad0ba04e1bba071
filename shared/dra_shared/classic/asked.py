"""The devices that a claim requests, independent of the form of its parameters."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dra_shared.jsontypes import JsonObject


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: ``count`` devices that satisfy the selectors.

    ``type`` is gpu or mig if the driver publishes devices of both types. ``device_class`` is set if the request
    uses another class than its claim, and ``driver`` if it names a driver. ``config`` has the opaque parameters
    for the devices of the request.
    """

    count: int | None = None
    type: str = ""
    device_class: str = ""
    selectors: tuple[str, ...] = ()
    config: JsonObject | None = None
    driver: str = ""

    def over(self, default: "Asked") -> "Asked":
        """Return this request with missing values taken from ``default``.

        ``config`` is never taken from ``default``, because the configuration of a class stays in its
        DeviceClass. ``selectors`` are only taken if ``default`` requests MIG devices, this request names no
        type, and it has no selectors.
        """
        return replace(
            self,
            count=self.count if self.count is not None else default.count,
            type=self.type or default.type,
            device_class=self.device_class or default.device_class,
            selectors=self.selectors
            or (default.selectors if default.type == "mig" and not self.type else ()),
        )


@dataclass(frozen=True, slots=True)
class Parameters:
    """The content of a parameters object: its requests, selectors for all of them, and configs for the whole claim.

    ``configs`` are pairs of a driver and opaque parameters. ``open_ended`` means that the object has no
    requests of its own, so that the claim requests one device. ``driver`` is the driver that defines the
    parameters. It is empty if that driver is unknown, or if there are several.
    """

    requests: Sequence[Asked] = ()
    selectors: tuple[str, ...] = ()
    configs: tuple[tuple[str, JsonObject], ...] = ()
    open_ended: bool = True
    driver: str = ""


@dataclass(frozen=True, slots=True)
class ClassParts:
    """The content of a claim's ResourceClass. ``driver`` is empty if the class is not among the manifests."""

    name: str
    driver: str
    defaults: Parameters = field(default_factory=Parameters)
    selectors: tuple[str, ...] = ()
    default_claim: Parameters | None = None
