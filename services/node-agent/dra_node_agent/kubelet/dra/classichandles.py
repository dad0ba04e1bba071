"""Resource handles of classic claims, for drivers of Kubernetes 1.27 to 1.30 (pkg/kubelet/cm/dra/manager.go there).

The kubelet of that time copied a claim's handle from ``status.allocation.resourceHandles`` into each call: the text
of a driver that allocated the claim itself, or the devices that the scheduler chose.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec
from dra_driverkit.proto import dra_v1_pb2, dra_v1alpha3_pb2
from dra_shared.api.meta import Object
from dra_shared.api.resources import RESOURCE_CLAIMS, Resource
from dra_shared.claims import CLASSIC_UID_ANNOTATION
from dra_shared.client.errors import ApiError, NotFound
from dra_shared.client.rest import Client
from dra_shared.jsontypes import JsonObject

from dra_node_agent.kubelet.dra.errors import DraError


class _ClassicClaim(Object):
    status: JsonObject = msgspec.field(default_factory=dict)


_CLASSIC_CLAIMS = Resource("resource.k8s.io", "v1alpha3", "resourceclaims", "ResourceClaim", _ClassicClaim)


class HandleReader(Protocol):
    """Converts claims for a driver, and adds their handles."""

    async def convert(
        self, claims: Sequence[dra_v1_pb2.Claim], driver: str
    ) -> list[dra_v1alpha3_pb2.Claim]: ...


class NoHandles:
    """Converts claims without handles, as for drivers of 1.31."""

    async def convert(self, claims: Sequence[dra_v1_pb2.Claim], driver: str) -> list[dra_v1alpha3_pb2.Claim]:
        """Return the claims in the form of v1alpha3."""
        return [_convert(claim) for claim in claims]


class ClassicHandles:
    """Reads the handles of claims that have a classic form from the API server.

    A claim without a classic form, or one that was deleted, gets no handle.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    async def convert(self, claims: Sequence[dra_v1_pb2.Claim], driver: str) -> list[dra_v1alpha3_pb2.Claim]:
        """Return the claims in the form of v1alpha3, with the driver's handles.

        Raises:
            DraError: a claim cannot be read, or its classic form is not allocated yet.
        """
        return [await self._convert(claim, driver) for claim in claims]

    async def _convert(self, claim: dra_v1_pb2.Claim, driver: str) -> dra_v1alpha3_pb2.Claim:
        converted = _convert(claim)
        handle = await self._handle(claim, driver)
        if "structuredData" in handle:
            converted.structured_resource_handle.append(_to_structured(handle["structuredData"]))
        converted.resource_handle = handle.get("data", "")
        return converted

    async def _handle(self, claim: dra_v1_pb2.Claim, driver: str) -> Mapping[str, Any]:
        try:
            current = await self._client.get(RESOURCE_CLAIMS, claim.name, claim.namespace)
            origin = current.metadata.annotations.get(CLASSIC_UID_ANNOTATION)
            if origin is None or current.metadata.uid != claim.uid:
                return {}
            classic = await self._client.get(_CLASSIC_CLAIMS, claim.name, claim.namespace)
        except NotFound:
            return {}
        except ApiError as error:
            raise DraError(f"fetch ResourceClaim {claim.name}: {error}") from error
        if classic.metadata.uid != origin:
            return {}
        allocation = classic.status.get("allocation")
        if allocation is None:
            # The controller has not copied the allocation yet. The kubelet tries the pod again.
            raise DraError(f"ResourceClaim {claim.name}: no resource handles yet")
        default = classic.status.get("driverName", "")
        handles = allocation.get("resourceHandles") or ()
        return next((handle for handle in handles if (handle.get("driverName") or default) == driver), {})


def _convert(claim: dra_v1_pb2.Claim) -> dra_v1alpha3_pb2.Claim:
    return dra_v1alpha3_pb2.Claim(namespace=claim.namespace, uid=claim.uid, name=claim.name)


def _to_structured(data: Mapping[str, Any]) -> dra_v1alpha3_pb2.StructuredResourceHandle:
    return dra_v1alpha3_pb2.StructuredResourceHandle(
        vendor_class_parameters=_to_raw(data.get("vendorClassParameters")),
        vendor_claim_parameters=_to_raw(data.get("vendorClaimParameters")),
        node_name=data.get("nodeName", ""),
        results=[_to_result(result) for result in data.get("results") or ()],
    )


def _to_result(result: Mapping[str, Any]) -> dra_v1alpha3_pb2.DriverAllocationResult:
    named = dra_v1alpha3_pb2.NamedResourcesAllocationResult(
        name=(result.get("namedResources") or {}).get("name", "")
    )
    return dra_v1alpha3_pb2.DriverAllocationResult(
        vendor_request_parameters=_to_raw(result.get("vendorRequestParameters")),
        allocation_result_model=dra_v1alpha3_pb2.AllocationResultModel(named_resources=named),
    )


def _to_raw(parameters: object) -> dra_v1alpha3_pb2.RawExtension:
    """Return an object as Go sends it. Go always writes the message, and leaves ``raw`` out if there is no object."""
    if parameters is None:
        return dra_v1alpha3_pb2.RawExtension()
    return dra_v1alpha3_pb2.RawExtension(raw=json.dumps(parameters, separators=(",", ":")).encode())
