"""Allocation results in the form of the API, built from the picked devices.

Mirrors the end of upstream's ``Allocate`` in ``structured/internal/*/allocator_*.go``.
"""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from dra_shared.api.node import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from dra_shared.api.resource import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaim,
)

from dra_scheduler.allocator.errors import AllocationError
from dra_scheduler.allocator.features import Features
from dra_scheduler.allocator.picks import Pick
from dra_scheduler.allocator.requests import Attempt, Entry, Request

ShareIds = Callable[[Pick], str]
_SHARES = uuid.UUID("6c2b3f0e-9f0f-5d7c-8d4a-3d1f0a5b7c11")


def derived_share_id(pick: Pick) -> str:
    """Return a share id that is always the same for the same claim, request and device."""
    claim = pick.request.claim
    return str(
        uuid.uuid5(_SHARES, f"{claim.metadata.uid or claim.key} {pick.request.full_name} {pick.device.id}")
    )


def results(
    attempt: Attempt,
    picks: Sequence[Sequence[Pick]],
    selected: Mapping[int, int],
    node_name: str,
    features: Features,
    share_id: ShareIds,
) -> tuple[AllocationResult, ...]:
    """Return one result for each claim.

    Raises:
        AllocationError: a picked device's node selector has several terms.
    """
    chosen: list[list[tuple[Entry, Request]]] = [[] for _ in attempt.claims]
    for position, entry in enumerate(attempt.entries):
        # Upstream's default is the first alternative, also for requests that were never tried.
        chosen[entry.claim_index].append((entry, entry.alternatives[selected.get(position, 0)]))
    return tuple(
        AllocationResult(
            devices=DeviceAllocationResult(
                results=tuple(_device(pick, features, share_id) for pick in picks[index]),
                config=_configuration(claim, chosen[index], features),
            ),
            node_selector=_node_selector(claim, picks[index], node_name, features),
        )
        for index, claim in enumerate(attempt.claims)
    )


def _device(pick: Pick, features: Features, share_id: ShareIds) -> DeviceRequestAllocationResult:
    request, device = pick.request, pick.device
    return DeviceRequestAllocationResult(
        request=request.full_name,
        driver=device.id.driver,
        pool=device.id.pool,
        device=device.id.device,
        admin_access=True if request.admin_access else None,
        tolerations=request.tolerations if features.results_have_tolerations else (),
        share_id=share_id(pick) if pick.shared else None,
        consumed_capacity=dict(pick.consumed_texts),
        skip_node_operations=device.slice.spec.skip_node_operations if features.operations_are_known else (),
        binding_conditions=device.spec.binding_conditions if features.device_binding else (),
        binding_failure_conditions=device.spec.binding_failure_conditions if features.device_binding else (),
    )


def _configuration(
    claim: ResourceClaim, chosen: Sequence[tuple[Entry, Request]], features: Features
) -> tuple[DeviceAllocationConfiguration, ...]:
    """Return the configurations of each class, with the names of the requests that use it, then the claim's own."""
    merged = features.configurations_are_merged
    by_class: dict[str, list[Request]] = {}
    for _, request in chosen:
        by_class.setdefault(request.device_class.metadata.name, []).append(request)
    found = [
        DeviceAllocationConfiguration(
            source="FromClass", requests=tuple(request.full_name for request in users), opaque=config.opaque
        )
        for users in by_class.values()
        for config in users[0].device_class.spec.config
    ]
    for config in claim.spec.devices.config:
        copies = 1
        if config.requests:
            # Until 1.36, a configuration is repeated for each request that it names.
            named = sum(_is_named(one, config.requests) for one in chosen)
            copies = min(1, named) if merged else named
        copy = DeviceAllocationConfiguration(
            source="FromClaim", requests=config.requests, opaque=config.opaque
        )
        found.extend([copy] * copies)
    if merged:
        found = [_drop_names_of_all(config, chosen) for config in found]
    return tuple(found)


def _is_named(one: tuple[Entry, Request], requests: Sequence[str]) -> bool:
    entry, request = one
    return entry.spec.name in requests or (entry.prioritized and request.full_name in requests)


def _drop_names_of_all(
    config: DeviceAllocationConfiguration, chosen: Iterable[tuple[Entry, Request]]
) -> DeviceAllocationConfiguration:
    """Remove the request names from a configuration if it applies to all requests of the claim."""
    if not all(_is_named(one, config.requests) for one in chosen):
        return config
    return DeviceAllocationConfiguration(source=config.source, opaque=config.opaque)


def _node_selector(
    claim: ResourceClaim, picks: Iterable[Pick], node_name: str, features: Features
) -> NodeSelector | None:
    """Return the nodes that can reach the devices: one node, the union of all selectors, or None for every node."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for pick in picks:
        spec, device = pick.device.slice.spec, pick.device.spec
        where = device if spec.per_device_node_selection else spec
        if where.node_name is not None or (device.binds_to_node and features.knows_shares):
            only = NodeSelectorRequirement(key="metadata.name", operator="In", values=(node_name,))
            return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(only,)),))
        terms = () if where.node_selector is None else where.node_selector.node_selector_terms
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.metadata.name}: "
                f"unsupported ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_fields=tuple(fields), match_expressions=tuple(expressions))
    return NodeSelector(node_selector_terms=(term,))


def _add_new(known: list[NodeSelectorRequirement], more: Iterable[NodeSelectorRequirement]) -> None:
    for item in more:
        if not any(
            item.key == other.key
            and item.operator == other.operator
            and set(item.values) == set(other.values)
            for other in known
        ):
            known.append(item)
