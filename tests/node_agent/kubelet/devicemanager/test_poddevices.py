"""The pod that holds a device."""

from dra_driverkit.proto import deviceplugin_v1beta1_pb2 as pb
from dra_node_agent.kubelet.devicemanager.poddevices import Allocation, PodDevices


def test_health_is_reported_for_the_pod_that_holds_the_device_of_that_resource() -> None:
    """Kubernetes 1.36 uses the first pod that it finds (kubernetes/kubernetes#140323)."""
    devices = PodDevices()
    for pod, resource in (("one", "example.com/a"), ("two", "example.com/b")):
        devices.insert(pod, "c", resource, Allocation({0: ["d0"]}, pb.ContainerAllocateResponse()))
    assert devices.find_pod("example.com/a", "d0") == "one"
    assert devices.find_pod("example.com/b", "d0") == "two"
    assert devices.find_pod("example.com/c", "d0") is None
