"""Matching of claims with volumes, and of volumes with nodes.

Mirrors upstream's ``component-helpers/storage/volume``.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from dra_shared.api.core import PersistentVolumeClaim
from dra_shared.api.meta import ObjectMeta
from dra_shared.api.node import Node
from dra_shared.api.storage import CSIStorageCapacity, PersistentVolume, TopologySelectorTerm
from dra_shared.nodeselector import matches
from dra_shared.selectors import NOTHING, LabelSelector, SelectorError, label_selector

from dra_scheduler.framework.resources import amount
from dra_scheduler.plugins.volumes.podvolumes import class_of

_BOUND = "pv.kubernetes.io/bind-completed"
_FILESYSTEM = "Filesystem"


def size_of(claim: PersistentVolumeClaim) -> int:
    """Return the requested size in bytes."""
    return amount("storage", claim.spec.resources.requests.get("storage", "0"))


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """True if the claim has its volume and binding is complete."""
    return bool(claim.spec.volume_name) and _BOUND in claim.metadata.annotations


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """True if the volume is bound to the claim or reserved for it."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and (reference.name, reference.namespace) == (claim.metadata.name, claim.metadata.namespace)
        and reference.uid in ("", claim.metadata.uid)
    )


def is_reachable(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    """True if a node with these labels can use the volume."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return matches(affinity.required, Node(metadata=ObjectMeta(labels=dict(labels))))


def find_volume(
    claim: PersistentVolumeClaim,
    volumes: Iterable[PersistentVolume],
    labels: Mapping[str, str],
    taken: Collection[str],
) -> PersistentVolume | None:
    """Return the volume reserved for the claim, or the smallest one that suits the claim and the node's labels."""
    wanted, best, least = size_of(claim), None, 0
    selector = _selector(claim)
    for volume in volumes:
        if volume.metadata.name in taken:
            continue
        reserved = is_reserved_for(volume, claim)
        if volume.spec.claim_ref is not None and not reserved:
            continue
        size = amount("storage", volume.spec.capacity.get("storage", "0"))
        if size < wanted or not _compatible(claim, volume) or volume.metadata.deletion_timestamp is not None:
            continue
        reachable = is_reachable(volume, labels)
        if reserved:
            return volume if reachable else None
        if (
            reachable
            and volume.status.phase == "Available"
            and (selector is None or selector.matches(volume.metadata.labels))
            and class_of(volume) == class_of(claim)
            and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
            and (best is None or size < least)
        ):
            best, least = volume, size
    return best


def topology_matches(terms: Sequence[TopologySelectorTerm], labels: Mapping[str, str]) -> bool:
    """True if a class with these ``allowedTopologies`` can provision volumes for a node with these labels."""
    if not terms:
        return True
    return any(
        term.match_label_expressions
        and all(labels.get(wanted.key) in wanted.values for wanted in term.match_label_expressions)
        for term in terms
    )


def limit_of(capacity: CSIStorageCapacity) -> int | None:
    """Return the maximum size of a volume, or None if it is not known."""
    limit = capacity.maximum_volume_size or capacity.capacity
    return None if limit is None else amount("storage", limit)


def is_large_enough(capacity: CSIStorageCapacity, size: int) -> bool:
    """True if a volume of this size fits into the capacity."""
    limit = limit_of(capacity)
    return limit is not None and limit >= size


def has_access(capacity: CSIStorageCapacity, labels: Mapping[str, str]) -> bool:
    """True if a node with these labels can use volumes of this capacity's topology."""
    if capacity.node_topology is None:
        return False
    try:
        return label_selector(capacity.node_topology).matches(labels)
    except SelectorError:
        return False


def _compatible(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    modes = claim.spec.volume_mode or _FILESYSTEM, volume.spec.volume_mode or _FILESYSTEM
    attributes = claim.spec.volume_attributes_class_name or "", volume.spec.volume_attributes_class_name or ""
    return modes[0] == modes[1] and attributes[0] == attributes[1]


def _selector(claim: PersistentVolumeClaim) -> LabelSelector | None:
    if claim.spec.selector is None:
        return None
    try:
        return label_selector(claim.spec.selector)
    except SelectorError:
        return NOTHING
