"""Convert PodGroups, Workloads and pods of Kubernetes 1.35 (v1alpha1) and 1.36 (v1alpha2) to 1.37 (v1beta1).

1.35 has groups of pods within Workloads only. 1.36 has PodGroup objects and names the disruption mode. 1.37
has the mode as an object and refers to the Workload directly (``k8s.io/api/scheduling/v1beta1/types.go``).
"""

import copy
from typing import Any

from dra_shared.classic.fields import Fields, entries, mapping, take_metadata
from dra_shared.classic.notes import Notes
from dra_shared.classic.pods import pod_spec
from dra_shared.classic.world import World
from dra_shared.jsontypes import JsonObject

GROUP = "scheduling.k8s.io"
BETA = f"{GROUP}/v1beta1"
_OLDER = (f"{GROUP}/v1alpha1", f"{GROUP}/v1alpha2")
_DISRUPTION_MODES = {"Pod": "single", "PodGroup": "all"}


def is_older(obj: JsonObject) -> bool:
    """True for a PodGroup or Workload of an API version before v1beta1."""
    return obj.get("apiVersion") in _OLDER and obj.get("kind") in ("PodGroup", "Workload")


def pod_group(obj: JsonObject, notes: Notes) -> JsonObject:
    """Convert a PodGroup or Workload to v1beta1."""
    fields = Fields(obj, notes)
    meta, spec = take_metadata(fields), fields.inner("spec")
    notes.note_moved("apiVersion", BETA)
    if fields.take("status"):
        fields.note_implied("status", "the cluster writes this")
    changed = _workload(spec) if obj["kind"] == "Workload" else _group(spec)
    fields.rest(f"a {obj['kind']} has no such field")
    return {"apiVersion": BETA, "kind": obj["kind"], "metadata": meta, "spec": changed}


def _group(spec: Fields) -> JsonObject:
    """Convert the spec of a PodGroup."""
    changed: JsonObject = {}
    reference = spec.inner("podGroupTemplateRef")
    if reference.content:
        workload = reference.inner("workload")
        names = {
            "workloadName": workload.text("workloadName"),
            "templateName": workload.text("podGroupTemplateName"),
        }
        changed["workloadRef"] = names
        spec.note_moved("podGroupTemplateRef", "spec.workloadRef")
        workload.rest("a reference has no such field")
        reference.rest("a reference has no such field")
    return changed | _common(spec)


def _workload(spec: Fields) -> JsonObject:
    """Convert the spec of a Workload, whose templates are called podGroups in v1alpha1."""
    changed = {"controllerRef": spec.take("controllerRef")} if "controllerRef" in spec.content else {}
    templates = [_common(each) for each in spec.each("podGroupTemplates")]
    for each in spec.each("podGroups"):
        template = {"name": each.take("name"), "schedulingPolicy": each.take("policy")}
        each.note_moved("policy", f"spec.podGroupTemplates[{len(templates)}].schedulingPolicy")
        each.rest("a template has no such field")
        templates.append(template)
    spec.rest("a Workload has no such field")
    return {**changed, "podGroupTemplates": templates}


def _common(fields: Fields) -> JsonObject:
    """Return all fields that were not taken yet, with the disruption mode in its current form."""
    content = {name: value for name, value in fields.content.items() if name not in fields.taken}
    mode = content.get("disruptionMode")
    if isinstance(mode, str):
        member = _DISRUPTION_MODES.get(mode)
        if member is None:
            del content["disruptionMode"]
            fields.note_lost("disruptionMode", f"{mode!r} is not one of {', '.join(_DISRUPTION_MODES)}")
        else:
            content["disruptionMode"] = {member: {}}
            fields.note_moved("disruptionMode", f"{fields.path('disruptionMode')}.{member}")
    return copy.deepcopy(content)


def has_workload(obj: JsonObject) -> bool:
    """True if a pod, or a template of one, names a group within a Workload, as in 1.35."""
    found = pod_spec(obj)
    return found is not None and isinstance(found[1].get("workloadRef"), dict)


def with_group(obj: JsonObject, world: World, notes: Notes) -> list[JsonObject]:
    """Convert ``workloadRef`` to ``schedulingGroup``. Return the PodGroup that it names, and the object."""
    changed = copy.deepcopy(obj)
    path, spec = pod_spec(changed) or ("", {})
    reference = Fields(spec.pop("workloadRef"), notes, f"{path}.workloadRef")
    name, template = reference.text("name"), reference.text("podGroup")
    key = reference.text("podGroupReplicaKey")
    reference.rest("a reference has no such field")
    namespace = mapping(obj.get("metadata")).get("namespace") or ""
    policy = _policy(world.find(GROUP, "Workload", namespace, name), template)
    if policy is None:
        reference.note_lost(
            "", f"Workload {name} with group {template} is missing, so its policy is not known"
        )
        return [changed]
    group = "-".join(filter(None, (name, template, key)))
    spec["schedulingGroup"] = {"podGroupName": group}
    reference.note_moved("", f"{path}.schedulingGroup, and PodGroup {group}")
    meta = {"name": group, **({"namespace": namespace} if namespace else {})}
    reference_today = {"workloadName": name, "templateName": template}
    made = {"workloadRef": reference_today, "schedulingPolicy": copy.deepcopy(policy)}
    return [{"apiVersion": BETA, "kind": "PodGroup", "metadata": meta, "spec": made}, changed]


def _policy(workload: JsonObject | None, template: str) -> Any:
    """Return the policy of a group of a Workload of v1alpha1; None if there is none."""
    for group in entries(mapping(mapping(workload).get("spec")).get("podGroups")):
        if isinstance(group, dict) and group.get("name") == template:
            return group.get("policy")
    return None
