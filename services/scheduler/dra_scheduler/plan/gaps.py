"""What a world lacks, and what that makes uncertain."""

from collections.abc import Iterator, Mapping

from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim, ResourceSlice
from dra_shared.api.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dra_shared.version import Version

from dra_scheduler.plan.neededgates import Found, needs, newer
from dra_scheduler.plan.objects import Objects

_MOST_NAMES = 3


def gaps(objects: Objects) -> list[str]:
    """One line for each thing that is missing."""
    return [*_kinds(objects), *_allocations(objects), *_references(objects), *_pools(objects)]


def gate_gaps(found: Found, chosen: Mapping[str, bool], version: Version) -> list[str]:
    """Name the gates that count as on only because objects need them, and those that ``version`` does not have."""
    lines = []
    if named := needs(found, chosen, version)[1]:
        shown = ", ".join(f"{need.gate} ({need.holder})" for need in named)
        lines.append(
            f"feature gates that are off by default in {version} count as on, because objects need them: {shown}; "
            "if one is off in the cluster, set it to false with --feature-gates"
        )
    if unknown := newer(found, version):
        shown = ", ".join(f"{need.gate} ({need.holder})" for need in unknown)
        lines.append(
            f"objects have fields that {version} ignores, of the feature gates {shown}; "
            "if the control plane is newer than the nodes, choose its --kubernetes-version"
        )
    return lines


def _kinds(objects: Objects) -> Iterator[str]:
    if not objects.of(NODES):
        yield "there are no nodes: nothing fits anywhere"
    asks = any(pod.spec.resource_claims for pod in objects.of(PODS).values())
    asks = asks or bool(objects.of(RESOURCE_CLAIMS))
    if not objects.of(RESOURCE_SLICES) and asks:
        yield "there are no ResourceSlices: which devices there are is unknown, and claims get none"
    if not objects.of(DEVICE_CLASSES) and (asks or objects.of(RESOURCE_SLICES)):
        yield "there are no DeviceClasses: requests for devices of a class cannot be judged"


def _allocations(objects: Objects) -> Iterator[str]:
    slices: dict[tuple[str, str], list[ResourceSlice]] = {}
    for piece in objects.of(RESOURCE_SLICES).values():
        slices.setdefault((piece.spec.driver, piece.spec.pool.name), []).append(piece)
    names = {pool: {d.name for piece in found for d in piece.spec.devices} for pool, found in slices.items()}
    pools, devices = [], []
    for claim in objects.of(RESOURCE_CLAIMS).values():
        for driver, pool, device in _results(claim):
            if (driver, pool) not in names:
                pools.append(f"{claim.key} ({driver}/{pool})")
            elif device not in names[driver, pool]:
                devices.append(f"{claim.key} ({driver}/{pool}/{device})")
    if pools:
        yield _line("allocated from a pool that is unknown", pools, "what it has left is uncertain")
    if devices:
        yield _line("allocated a device that its pool does not have", devices, "what it uses is uncertain")


def _results(claim: ResourceClaim) -> Iterator[tuple[str, str, str]]:
    if claim.status.allocation is not None:
        for result in claim.status.allocation.devices.results:
            yield result.driver, result.pool, result.device


def _references(objects: Objects) -> Iterator[str]:
    claims, templates = objects.of(RESOURCE_CLAIMS), objects.of(RESOURCE_CLAIM_TEMPLATES)
    no_claim, no_template, no_node = [], [], []
    nodes = objects.of(NODES)
    for pod in objects.of(PODS).values():
        space = pod.metadata.namespace
        if pod.spec.node_name and pod.spec.node_name not in nodes and not _done(pod):
            no_node.append(f"{pod.key} ({pod.spec.node_name})")
        for entry in pod.spec.resource_claims:
            name = entry.resource_claim_name
            template = entry.resource_claim_template_name
            if name is not None and f"{space}/{name}" not in claims:
                no_claim.append(f"{pod.key} ({name})")
            unmade = not pod.spec.node_name and not pod.status.resource_claim_statuses
            if template is not None and unmade and f"{space}/{template}" not in templates:
                no_template.append(f"{pod.key} ({template})")
    if no_claim:
        yield _line("pods whose claim is missing", no_claim, "what they use is unknown")
    if no_template:
        yield _line("pods whose claim template is missing", no_template, "they cannot be placed")
    if no_node:
        yield _line("pods on a node that is missing", no_node, "they count nowhere")


def _pools(objects: Objects) -> Iterator[str]:
    counted: dict[tuple[str, str, int], int] = {}
    wanted: dict[tuple[str, str, int], int] = {}
    newest: dict[tuple[str, str], int] = {}
    for piece in objects.of(RESOURCE_SLICES).values():
        pool = piece.spec.pool
        key = (piece.spec.driver, pool.name, pool.generation)
        counted[key] = counted.get(key, 0) + 1
        wanted[key] = pool.resource_slice_count
        newest[key[:2]] = max(newest.get(key[:2], 0), pool.generation)
    incomplete = [
        f"{driver}/{name} ({counted[driver, name, generation]} of {wanted[driver, name, generation]} slices)"
        for (driver, name), generation in newest.items()
        if counted[driver, name, generation] < wanted[driver, name, generation]
    ]
    if incomplete:
        yield _line("incomplete pools", incomplete, "nothing is allocated from them")


def _done(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _line(what: str, names: list[str], effect: str) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{what}: {shown}{more}; {effect}"
