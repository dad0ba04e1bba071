"""Drivers of Kubernetes 1.27 to 1.31: the gRPC service Node, v1alpha3 and v1alpha4 (k8s.io/kubelet/pkg/apis/dra).

Both versions name their package v1alpha3, so their calls have the same paths. They only differ in the answer
to NodePrepareResources: CDI names in v1alpha3, devices with requests and CDI names in v1alpha4.
"""

from dra_driverkit.proto import dra_v1_pb2, dra_v1alpha3_pb2
from google.protobuf.message import DecodeError

SERVICES = frozenset(
    {
        "v1alpha3.Node",
        "v1alpha4.Node",
        # Announced by kubeletplugin in 1.32.
        "v1alpha3.NodeService",
    }
)


def paths(service: str, method: str) -> list[str]:
    """Return the possible paths of a method, the likeliest first. A handwritten driver may use the package v1alpha4."""
    found = [f"/v1alpha3.Node/{method}"]
    return [*found, f"/v1alpha4.Node/{method}"] if service == "v1alpha4.Node" else found


def convert_answer(
    answer: dra_v1alpha3_pb2.NodePrepareResourceResponse,
) -> dra_v1_pb2.NodePrepareResourceResponse:
    """Convert the answer for a claim to today's form. CDI names without a request apply to all requests.

    Raises:
        ValueError: an entry is neither a CDI name nor a device.
    """
    made = dra_v1_pb2.NodePrepareResourceResponse(error=answer.error)
    if answer.error:
        return made
    for entry in answer.devices:
        # A device starts with the tag of a field, which is a control character. A name never does.
        if entry[:1] >= b" ":
            made.devices.append(dra_v1_pb2.Device(cdi_device_ids=[entry.decode()]))
        else:
            made.devices.append(_device(entry))
    return made


def _device(entry: bytes) -> dra_v1_pb2.Device:
    try:
        device = dra_v1alpha3_pb2.Device.FromString(entry)
    except DecodeError as error:
        raise ValueError("a device that is none of v1alpha4") from error
    return dra_v1_pb2.Device(
        request_names=device.request_names,
        pool_name=device.pool_name,
        device_name=device.device_name,
        cdi_device_ids=device.cdi_device_ids,
    )
