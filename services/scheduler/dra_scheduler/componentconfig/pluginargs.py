"""Validation of plugins' arguments (``pkg/scheduler/apis/config/validation/validation_pluginargs.go``)."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from dra_shared.durations import seconds
from dra_shared.features import FeatureGates
from dra_shared.names import label_key
from dra_shared.selectors import requirement_problems

from dra_scheduler.componentconfig.fielderrors import (
    duplicate_value,
    forbidden_value,
    invalid_value,
    required_value,
    unsupported_value,
)
from dra_scheduler.componentconfig.types import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodTopologySpreadArgs,
    ResourceSpec,
    TopologySpreadConstraint,
    UtilizationShapePoint,
    VolumeBindingArgs,
)

_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_OPERATORS = {
    "In": "in",
    "NotIn": "notin",
    "Exists": "exists",
    "DoesNotExist": "!",
    "Gt": "gt",
    "Lt": "lt",
}


def _default_preemption(path: str, args: DefaultPreemptionArgs, _: FeatureGates) -> list[str]:
    percentage, absolute = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    assert percentage is not None
    assert absolute is not None
    of_percentage, of_absolute = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
    errors = []
    if not 0 <= percentage <= 100:
        errors.append(invalid_value(of_percentage, percentage, "not in valid range [0, 100]"))
    if absolute < 0:
        errors.append(invalid_value(of_absolute, absolute, "not in valid range [0, inf)"))
    if percentage == absolute == 0:
        text = "cannot be zero at the same time as"
        errors.append(invalid_value(of_percentage, percentage, f"{text} minCandidateNodesAbsolute"))
        errors.append(invalid_value(of_absolute, absolute, f"{text} minCandidateNodesPercentage"))
    return errors


def _inter_pod_affinity(path: str, args: InterPodAffinityArgs, _: FeatureGates) -> list[str]:
    weight = args.hard_pod_affinity_weight
    if weight is not None and 0 <= weight <= 100:
        return []
    return [invalid_value(f"{path}.hardPodAffinityWeight", weight, "not in valid range [0, 100]")]


def _pod_topology_spread(path: str, args: PodTopologySpreadArgs, _: FeatureGates) -> list[str]:
    constraints = args.default_constraints or []
    errors = []
    if args.defaulting_type not in ("System", "List"):
        errors.append(unsupported_value(f"{path}.defaultingType", args.defaulting_type, ("System", "List")))
    elif args.defaulting_type == "System" and constraints:
        text = "when .defaultConstraints are not empty"
        errors.append(invalid_value(f"{path}.defaultingType", args.defaulting_type, text))
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(constraints):
        here = f"{path}.defaultConstraints[{index}]"
        errors += _constraint(here, constraint)
        key = (constraint.topology_key, constraint.when_unsatisfiable)
        if key in seen:
            errors.append(duplicate_value(here, f"{{{key[0]}, {key[1]}}}"))
        seen.add(key)
    return errors


def _constraint(path: str, constraint: TopologySpreadConstraint) -> list[str]:
    errors = []
    if constraint.max_skew <= 0:
        errors.append(invalid_value(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)"))
    if not constraint.topology_key:
        errors.append(required_value(f"{path}.topologyKey", "can not be empty"))
    else:
        errors += _label_name(f"{path}.topologyKey", constraint.topology_key)
    action, actions = constraint.when_unsatisfiable, ("DoNotSchedule", "ScheduleAnyway")
    if not action:
        errors.append(required_value(f"{path}.whenUnsatisfiable", "can not be empty"))
    elif action not in actions:
        errors.append(unsupported_value(f"{path}.whenUnsatisfiable", action, actions))
    if constraint.label_selector is not None:
        text = "constraint must not define a selector, as they deduced for each pod"
        errors.append(forbidden_value(f"{path}.labelSelector", text))
    return errors


def _label_name(path: str, name: str) -> list[str]:
    return [invalid_value(path, name, problem) for problem in label_key(name)]


def _shape(path: str, shape: Sequence[UtilizationShapePoint] | None) -> list[str]:
    if not shape:
        return [required_value(path, "at least one point must be specified")]
    errors = []
    for index, (before, point) in enumerate(itertools.pairwise(shape), start=1):
        if before.utilization >= point.utilization:
            text = "values must be sorted in increasing order"
            errors.append(invalid_value(f"{path}[{index}].utilization", point.utilization, text))
            break
    for index, point in enumerate(shape):
        for name, value, most in (("utilization", point.utilization, 100), ("score", point.score, 10)):
            if not 0 <= value <= most:
                errors.append(
                    invalid_value(f"{path}[{index}].{name}", value, f"not in valid range [0, {most}]")
                )
    return errors


def _balanced_allocation(path: str, args: NodeResourcesBalancedAllocationArgs, _: FeatureGates) -> list[str]:
    errors = []
    seen: set[str] = set()
    for index, resource in enumerate(args.resources or ()):
        here = f"{path}.resources[{index}]"
        if resource.name in seen:
            errors.append(duplicate_value(f"{here}.name", resource.name))
        seen.add(resource.name)
        if resource.weight != 1:
            errors.append(invalid_value(f"{here}.weight", resource.weight, "must be 1"))
    return errors


def _node_affinity(path: str, args: NodeAffinityArgs, _: FeatureGates) -> list[str]:
    affinity = args.added_affinity
    if affinity is None:
        return []
    errors: list[str] = []
    required_path = f"{path}.addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    required_terms = affinity.required_during_scheduling_ignored_during_execution
    for index, term in enumerate((required_terms and required_terms.node_selector_terms) or ()):
        errors += _term(f"{required_path}[{index}]", term)
    preferred_path = f"{path}.addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        if preferred.weight:
            errors += _term(f"{preferred_path}[{index}]", preferred.preference)
    return errors


def _term(path: str, term: NodeSelectorTerm) -> list[str]:
    errors: list[str] = []
    for index, requirement in enumerate(term.match_expressions or ()):
        errors += _expression(f"{path}.matchExpressions[{index}]", requirement)
    for index, requirement in enumerate(term.match_fields or ()):
        errors += _field(f"{path}.matchFields[{index}]", requirement)
    return errors


def _expression(path: str, requirement: NodeSelectorRequirement) -> list[str]:
    if requirement.operator not in _OPERATORS:
        return [unsupported_value(f"{path}.operator", requirement.operator, tuple(_OPERATORS))]
    operator, values = _OPERATORS[requirement.operator], requirement.values or ()
    problems = requirement_problems(requirement.key, operator, values, path)
    # Go prints an empty list as [] and not as null.
    empty = requirement.values is not None and not values
    return [p.replace("Invalid value: null", "Invalid value: []") if empty else p for p in problems]


def _field(path: str, requirement: NodeSelectorRequirement) -> list[str]:
    if requirement.operator not in ("In", "NotIn"):
        return [unsupported_value(f"{path}.operator", requirement.operator, ("In", "NotIn"))]
    if len(requirement.values or ()) != 1:
        return [invalid_value(f"{path}.values", requirement.values, "must have one element")]
    return []


def _volume_binding(path: str, args: VolumeBindingArgs, gates: FeatureGates) -> list[str]:
    errors = []
    if (args.bind_timeout_seconds or 0) < 0:
        text = "invalid BindTimeoutSeconds, should not be a negative value"
        errors.append(invalid_value(f"{path}.bindTimeoutSeconds", args.bind_timeout_seconds, text))
    if gates.enabled("StorageCapacityScoring"):
        errors += _shape(f"{path}.shape", args.shape)
    elif args.shape is not None:
        text = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
        errors.append(invalid_value(f"{path}.shape", args.shape, text))
    return errors


def check_fit(args: NodeResourcesFitArgs) -> list[str]:
    """Validate the arguments of NodeResourcesFit.

    The plugin does this itself, because upstream's validation looks the arguments up under a wrong plugin name.
    """
    errors: list[str] = []
    for index, name in enumerate(args.ignored_resources or ()):
        errors += _label_name(f"ignoredResources[{index}]", name)
    for index, group in enumerate(args.ignored_resource_groups or ()):
        here = f"ignoredResourceGroups[{index}]"
        if "/" in group:
            errors.append(invalid_value(here, group, "resource group name can't contain '/'"))
        errors += _label_name(here, group)
    strategy, path = args.scoring_strategy, "scoringStrategy"
    if strategy is None:
        return [*errors, required_value(path, "ScoringStrategy field is required")]
    if strategy.type not in _STRATEGIES:
        errors.append(unsupported_value(f"{path}.type", strategy.type, _STRATEGIES))
    errors += _weights(f"{path}.resources", strategy.resources or [])
    ratio, path = strategy.requested_to_capacity_ratio, f"{path}.requestedToCapacityRatio"
    if strategy.type == "RequestedToCapacityRatio":
        if ratio is None:
            errors.append(required_value(path, "must be specified when type is RequestedToCapacityRatio"))
        else:
            errors += _shape(f"{path}.shape", ratio.shape)
    elif ratio is not None:
        errors.append(forbidden_value(path, "must be nil when type is not RequestedToCapacityRatio"))
    return errors


def _weights(path: str, resources: Sequence[ResourceSpec]) -> list[str]:
    return [
        invalid_value(
            f"{path}[{index}].weight",
            resource.weight,
            f"resource weight of {resource.name} not in valid range (0, 100]",
        )
        for index, resource in enumerate(resources)
        if not 0 < resource.weight <= 100
    ]


def _dynamic_resources(path: str, args: DynamicResourcesArgs, gates: FeatureGates) -> list[str]:
    """Validate the arguments of DynamicResources. Unlike in the API, a field of a disabled feature is an error."""
    errors = []
    filtering, binding = args.filter_timeout, args.binding_timeout
    if filtering is not None:
        where = f"{path}.filterTimeout"
        if not gates.enabled("DRASchedulerFilterTimeout"):
            errors.append(forbidden_value(where, "DRASchedulingFilterTimeout feature gate is disabled"))
        elif filtering.nanoseconds < 0:
            errors.append(invalid_value(where, filtering, "must be zero or positive"))
    if binding is not None:
        where = f"{path}.bindingTimeout"
        needed = ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus")
        if not all(map(gates.enabled, needed)):
            errors.append(forbidden_value(where, f"{' or '.join(needed)} feature gate is disabled"))
        elif binding < seconds(1):
            errors.append(invalid_value(where, binding, "must be at least 1 second"))
    return errors


CHECKS: dict[str, Callable[[str, Any, FeatureGates], list[str]]] = {
    "DefaultPreemption": _default_preemption,
    "DynamicResources": _dynamic_resources,
    "InterPodAffinity": _inter_pod_affinity,
    "NodeAffinity": _node_affinity,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
    "PodTopologySpread": _pod_topology_spread,
    "VolumeBinding": _volume_binding,
}
