"""The prepared claims of a container (pkg/kubelet/cm/dra/manager.go, GetResources)."""

from collections.abc import Sequence

from dra_shared.api.container import Container
from dra_shared.api.pod import Pod
from dra_shared.claims import ClaimReferenceError, claim_name

from dra_node_agent.kubelet.dra.checkpoint import CheckpointDevice
from dra_node_agent.kubelet.dra.claiminfo import ClaimInfo, ClaimInfoCache
from dra_node_agent.kubelet.dra.errors import DraError, unknown_claim


class ContainerClaims:
    """The claims that containers name, with the devices prepared for them.

    Args:
        extended_resources: whether claims for extended resources are supported (DRAExtendedResource).
    """

    def __init__(self, claims: ClaimInfoCache, *, extended_resources: bool) -> None:
        self._claims = claims
        self._extended_resources = extended_resources

    def cdi_device_ids(self, pod: Pod, container: Container) -> list[str]:
        """Return the CDI ids to inject into the container, for the claims and requests that it names.

        Raises:
            DraError: a claim is not prepared.
        """
        wanted: dict[str, list[str]] = {}
        for entry in pod.spec.resource_claims:
            requests = [used.request for used in container.resources.claims if used.name == entry.name]
            if not requests:
                continue
            try:
                name, _ = claim_name(pod, entry)
            except ClaimReferenceError as error:
                raise DraError(str(error)) from error
            if name is not None:
                wanted.setdefault(name, []).extend(requests)
        extended = pod.status.extended_resource_claim_status
        if self._extended_resources and extended is not None:
            requested = {name for name, value in container.resources.requests.items() if value != "0"}
            for mapping in extended.request_mappings:
                if mapping.container_name == container.name and mapping.resource_name in requested:
                    wanted.setdefault(extended.resource_claim_name, []).append(mapping.request_name)
        ids: list[str] = []
        for name, requests in wanted.items():
            info = self._claims.get(pod.metadata.namespace, name)
            if info is None:
                raise unknown_claim(name, pod.metadata.namespace)
            for request in requests:
                ids.extend(info.cdi_device_ids(request))
        return ids

    def injected_devices(self, cdi_device_ids: Sequence[str]) -> list[tuple[str, CheckpointDevice]]:
        """Return the prepared devices, with their drivers, all of whose CDI ids are among these."""
        return [
            (driver, device)
            for info in self._claims
            for driver, devices in info.devices.items()
            for device in devices
            if device.cdi_device_ids and set(device.cdi_device_ids) <= set(cdi_device_ids)
        ]

    def claims(self, pod: Pod, container: Container) -> list[ClaimInfo]:
        """Return the claims that the container uses, for PodResources.

        Raises:
            DraError: a claim is not known.
        """
        infos: list[ClaimInfo] = []
        used = {claim.name for claim in container.resources.claims}
        for entry in pod.spec.resource_claims:
            try:
                name, _ = claim_name(pod, entry)
            except ClaimReferenceError as error:
                raise DraError(str(error)) from error
            if name is None or entry.name not in used:
                continue
            info = self._claims.get(pod.metadata.namespace, name)
            if info is None:
                raise DraError(f"unable to get information for ResourceClaim {name}")
            infos.append(info)
        extended = pod.status.extended_resource_claim_status
        if self._extended_resources and extended is not None:
            mapped = {mapping.container_name for mapping in extended.request_mappings}
            if container.name in mapped:
                name = extended.resource_claim_name
                info = self._claims.get(pod.metadata.namespace, name)
                if info is None:
                    raise DraError(
                        f"unable to get claim info for claim {name} in namespace {pod.metadata.namespace}"
                    )
                infos.append(info)
        return infos
