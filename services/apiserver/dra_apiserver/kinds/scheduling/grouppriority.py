"""The Priority plugin for pod groups (``admitPodGroup`` of upstream's `plugin/pkg/admission/priority`).

A group has the number of its priority class, like its pods, so that the two agree.
"""

from __future__ import annotations

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37

from dra_apiserver.common.classes import name_of
from dra_apiserver.errors import GroupResource, forbidden_error
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds.pods.priority import default_class
from dra_apiserver.kinds.scheduling.declared import PREEMPTION


def priority(obj: JsonObject | None, old: JsonObject | None, ctx: Context, operation: str) -> None:
    """Set a new group's priority from its priority class, or from the default class.

    Raises:
        StatusError: 403, the class does not exist, or the group has another number.
    """
    gate = "GenericWorkload" if ctx.features.version >= V1_37 else PREEMPTION
    if operation != "CREATE" or obj is None or ctx.subresource or not ctx.features.enabled(gate):
        return
    spec = obj.setdefault("spec", {})
    resource = GroupResource(ctx.kind.group, ctx.kind.plural)
    name = spec.get("priorityClassName") or ""
    if name:
        found = ctx.lookup("scheduling.k8s.io", "priorityclasses", "", name)
        if found is None:
            raise forbidden_error(resource, name_of(obj), f"no PriorityClass with name {name} was found")
    else:
        found = default_class(ctx)
        if found is not None:
            spec["priorityClassName"] = name_of(found)
    value = found.get("value", 0) if found is not None else 0
    if spec.get("priority") not in {None, value}:
        text = (
            f"the integer value of priority ({spec['priority']}) must not be provided in pod group spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise forbidden_error(resource, name_of(obj), text)
    spec["priority"] = value
