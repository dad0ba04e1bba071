"""Objects that a pod needs but that do not exist: claims, templates, classes, drivers."""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from dra_shared.api.pod import Pod
from dra_shared.api.resource import ResourceClaim
from dra_shared.claims import ClaimReferenceError, claim_keys, claim_name, is_reserved_for_pod

from dra_scheduler.dra.manager import DRAManager
from dra_scheduler.explain.report import Change
from dra_scheduler.explain.selectors import named_drivers
from dra_scheduler.queue.entry import Place
from dra_scheduler.queue.scheduling import MAX_WAIT


def find_missing(
    manager: DRAManager,
    pod: Pod,
    claims: Iterable[ResourceClaim],
    has_template: Callable[[str], bool] | None = None,
) -> Change | None:
    """Return the change that must happen first: a claim or class must be created, or a scheduling gate removed.

    ``has_template`` says whether a ResourceClaimTemplate exists; a live scheduler does not know.
    """
    for entry in pod.spec.resource_claims:
        try:
            name, _ = claim_name(pod, entry)
        except ClaimReferenceError:
            template = f"{pod.metadata.namespace}/{entry.resource_claim_template_name}"
            text = f"until claim {entry.name} is made from ResourceClaimTemplate {template}"
            if has_template is not None and not has_template(template):
                text += ", which does not exist"
            return Change(node="", kind="template", text=text)
        if name is not None and manager.claims.get(pod.metadata.namespace, name) is None:
            text = f"until ResourceClaim {pod.metadata.namespace}/{name} exists"
            return Change(node="", kind="claim", text=text)
    for name in itertools.chain.from_iterable(_classes(claims)):
        if manager.classes.get(name) is None:
            return Change(node="", kind="class", text=f"until device class {name} exists")
    if pod.spec.scheduling_gates:
        names = ", ".join(gate.name for gate in pod.spec.scheduling_gates)
        return Change(node="", kind="schedulingGate", text=f"until scheduling gates {names} are taken away")
    return None


def missing_driver(manager: DRAManager, claims: Iterable[ResourceClaim]) -> Change | None:
    """Return the change that a driver publishes devices, if no alternative of a request has a driver that does."""
    drivers = {piece.spec.driver for piece in manager.slices.list()}
    for alternatives in _classes(claims):
        named = [named_drivers(manager.classes.get(name)) for name in alternatives]
        if all(each and not each & drivers for each in named):
            wanted = " or ".join(sorted(frozenset.union(*named)))
            classes = " or ".join(alternatives)
            text = f"until driver {wanted}, which device class {classes} is for, publishes devices"
            return Change(node="", kind="driver", text=text)
    return None


def find_repeated_claim(manager: DRAManager, pod: Pod) -> Change | None:
    """Return a claim that several entries of the pod name.

    PreBind reserves the claim once for each entry, and the second reservation fails.
    """
    for key, entries in Counter(claim_keys(pod)).items():
        claim = manager.claims.get(*key.split("/"))
        if entries > 1 and claim is not None and not is_reserved_for_pod(pod, claim, pod_groups=True):
            text = (
                f"until it is created with ResourceClaim {key} in one entry of spec.resourceClaims alone: "
                "a claim is reserved for a pod only once"
            )
            return Change(node="", kind="claim", text=text)
    return None


def retry(place: Place) -> Change | None:
    """Return when a pod that fits a node will be tried again, in words. None if it is tried next."""
    if place is Place.BACKOFF:
        text = "until its back-off ends: a node can take it now"
    elif place is Place.WAITING:
        text = f"until something changes that may help it, or {MAX_WAIT:g} s: a node can take it now"
    else:
        return None
    return Change(node="", kind="retry", text=text)


def _classes(claims: Iterable[ResourceClaim]) -> Iterator[tuple[str, ...]]:
    """Yield the classes of each request: one, or those of its alternatives."""
    for claim in claims:
        for request in claim.spec.devices.requests:
            parts = request.first_available if request.exactly is None else (request.exactly,)
            yield tuple(dict.fromkeys(part.device_class_name for part in parts))
