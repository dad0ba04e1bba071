"""resource.k8s.io/v1beta2 DeviceTaintRule (the same schema serves v1alpha3)."""

from msgspec import field

from dra_shared.api.meta import Condition, Object, Struct
from dra_shared.api.resource import DeviceSelector, DeviceTaint


class DeviceTaintSelector(Struct):
    device: str | None = None
    driver: str | None = None
    pool: str | None = None
    device_class_name: str | None = None
    """Like ``selectors``, a field that only Kubernetes 1.34 serves."""
    selectors: tuple[DeviceSelector, ...] = ()


class DeviceTaintRuleSpec(Struct):
    device_selector: DeviceTaintSelector | None = None
    taint: DeviceTaint = field(default_factory=DeviceTaint)


class DeviceTaintRuleStatus(Struct):
    conditions: tuple[Condition, ...] = ()


class DeviceTaintRule(Object):
    spec: DeviceTaintRuleSpec = field(default_factory=DeviceTaintRuleSpec)
    status: DeviceTaintRuleStatus = field(default_factory=DeviceTaintRuleStatus)
