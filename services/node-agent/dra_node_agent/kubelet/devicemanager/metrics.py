"""The device manager's metrics, under the kubelet's names (pkg/kubelet/metrics)."""

from prometheus_client import Counter, Histogram

REGISTRATIONS = Counter(
    "kubelet_device_plugin_registration_total",
    "Cumulative number of device plugin registrations. Broken down by resource name.",
    ("resource_name",),
)
ALLOCATIONS = Histogram(
    "kubelet_device_plugin_alloc_duration_seconds",
    "Duration in seconds to serve a device plugin Allocation request. Broken down by resource name.",
    ("resource_name",),
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
