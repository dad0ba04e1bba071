"""What a claim asks for, whatever form its parameters had."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dra_shared.classic.fields import Object


@dataclass(frozen=True, slots=True)
class Asked:
    """One request: ``count`` devices that fulfil the selectors.

    ``type`` is gpu or mig where the driver has both; ``device_class`` names a class other than the claim's.
    ``driver`` is that of a request which names its own. ``config`` are opaque parameters for its devices.
    """

    count: int | None = None
    type: str = ""
    device_class: str = ""
    selectors: tuple[str, ...] = ()
    config: Object | None = None
    driver: str = ""

    def over(self, default: "Asked") -> "Asked":
        """This, and what ``default`` says where this says nothing; its selectors and config are the class's."""
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
    """What an object with parameters says: its requests, selectors for them all, and configs for a whole claim.

    ``configs`` are pairs of a driver and opaque parameters. ``open_ended`` says that the object has no requests
    of its own, so that the claim asks for one device. ``driver`` is the driver whose parameters these are; empty if
    it is not known, or if there are several.
    """

    requests: Sequence[Asked] = ()
    selectors: tuple[str, ...] = ()
    configs: tuple[tuple[str, Object], ...] = ()
    open_ended: bool = True
    driver: str = ""


@dataclass(frozen=True, slots=True)
class ClassParts:
    """The class that a claim names. ``driver`` is empty if the class is not among the manifests."""

    name: str
    driver: str
    defaults: Parameters = field(default_factory=Parameters)
    selectors: tuple[str, ...] = ()
    default_claim: Parameters | None = None
