"""The pods of manifests that a question names, with all that they bring along."""

import msgspec
from dra_scheduler.plan.fit import Wanted
from dra_scheduler.plan.manifests import Manifests, Typed
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.wanted import of

from dra_cli.errors import CommandError
from dra_cli.plan.reading import from_source, manifests

_replace = msgspec.structs.replace


def wanted(source: str, objects: Objects, namespace: str | None = None) -> Wanted:
    """Return the pods of the manifests.

    Raises:
        CommandError: they cannot be read, or there are none.
    """
    problems: list[str] = []
    found = manifests(from_source(source, problems), problems)
    if problems:
        raise CommandError(problems[0])
    found.objects = [_placed(each, namespace) for each in found.objects]
    made = of(found, objects)
    if not made.pods:
        raise CommandError(without_pods(found, f" in {source}"))
    return made


def without_pods(found: Manifests, where: str = "") -> str:
    """Return the message for manifests without a pod that counts."""
    left = f"; not known, and not counted: {', '.join(found.left_out)}" if found.left_out else ""
    return f"no pods, and nothing that makes pods{where}{left}"


def _placed(each: Typed, namespace: str | None) -> Typed:
    resource, obj = each
    if namespace is None or not resource.namespaced or obj.metadata.namespace not in ("", "default"):
        return each
    return resource, _replace(obj, metadata=_replace(obj.metadata, namespace=namespace))
