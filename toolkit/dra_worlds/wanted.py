"""Read the pods of the manifests in a question, with the objects that they need."""

import msgspec
from dra_scheduler.plan.errors import PlanError
from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.manifests import Typed
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.wanted import of
from dra_shared.errors import UserError

from dra_worlds.reading import from_source, manifests

#: The exit code if the answer is yes, but workloads of unknown kinds were left out.
LEFT_OUT = 3

_replace = msgspec.structs.replace


def read_pods(source: str, objects: Objects, namespace: str | None = None) -> Wanted:
    """Return the pods of the manifests.

    Raises:
        UserError: they cannot be read, or there are none.
    """
    problems: list[str] = []
    found = manifests(from_source(source, problems), problems, objects, namespace)
    if problems:
        raise UserError(problems[0])
    found.objects = [_in_namespace(each, namespace) for each in found.objects]
    try:
        return of(found, objects)
    except PlanError as error:
        raise UserError(f"{error}: {source}", LEFT_OUT if error.left_out else 1) from error


def _in_namespace(each: Typed, namespace: str | None) -> Typed:
    resource, obj = each
    if namespace is None or not resource.namespaced or obj.metadata.namespace not in ("", "default"):
        return each
    return resource, _replace(obj, metadata=_replace(obj.metadata, namespace=namespace))
