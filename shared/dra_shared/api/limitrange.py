"""v1 LimitRange."""

from msgspec import field

from dra_shared.api.meta import Object, Struct


class LimitRangeItem(Struct):
    default: dict[str, str] = field(default_factory=dict)
    default_request: dict[str, str] = field(default_factory=dict)
    max: dict[str, str] = field(default_factory=dict)
    max_limit_request_ratio: dict[str, str] = field(default_factory=dict)
    min: dict[str, str] = field(default_factory=dict)
    type: str = ""


class LimitRangeSpec(Struct):
    limits: tuple[LimitRangeItem, ...] = ()


class LimitRange(Object):
    spec: LimitRangeSpec = field(default_factory=LimitRangeSpec)
