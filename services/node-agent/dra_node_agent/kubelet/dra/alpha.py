"""Drivers of Kubernetes 1.27 to 1.31: the gRPC service Node, v1alpha3 and v1alpha4 (k8s.io/kubelet/pkg/apis/dra).

Both versions call their package v1alpha3, so their calls have the same paths. They differ in the answer to
NodePrepareResources alone: CDI names in v1alpha3, devices with requests and CDI names in v1alpha4.
"""

from collections.abc import Sequence

from dra_driverkit.proto import dra_v1_pb2, dra_v1alpha3_pb2
from google.protobuf.message import DecodeError

SERVICES = frozenset(
    {
        "v1alpha3.Node",
        "v1alpha4.Node",
        # What kubeletplugin announced in 1.32.
        "v1alpha3.NodeService",
    }
)


def paths(service: str, method: str) -> list[str]:
    """Where a method is, the likeliest first: a driver written by hand may call its package v1alpha4."""
    found = [f"/v1alpha3.Node/{method}"]
    return [*found, f"/v1alpha4.Node/{method}"] if service == "v1alpha4.Node" else found


def claims_of(claims: Sequence[dra_v1_pb2.Claim]) -> list[dra_v1alpha3_pb2.Claim]:
    """Claims as these versions name them."""
    return [
        dra_v1alpha3_pb2.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name) for claim in claims
    ]


def prepared(
    answer: dra_v1alpha3_pb2.NodePrepareResourceResponse,
) -> dra_v1_pb2.NodePrepareResourceResponse:
    """What was prepared for a claim, in today's form; CDI names without a request are for all requests.

    Raises:
        ValueError: the answer has something that is neither a CDI name nor a device.
    """
    made = dra_v1_pb2.NodePrepareResourceResponse(error=answer.error)
    if answer.error:
        return made
    for entry in answer.devices:
        # A device begins with the tag of one of its fields, a control character; a name never does.
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
