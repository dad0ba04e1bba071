"""Permissions: the driver's requests to the API server, and the role that allows them (docs/authorization.md)."""

from dra_apiserver.traffic import Visit
from dra_shared.version import V1_36

from dra_conformance.check import Area, Breach, NotOffered, NotShown, Stage
from dra_conformance.session import Session
from dra_conformance.traffic import field_selector, is_about, is_write

AREA = Area("permissions", Stage.END)

_GOOD_PRACTICES = "https://kubernetes.io/docs/concepts/security/rbac-good-practices/"
_SELECTORS = (
    "staging/src/k8s.io/dynamic-resource-allocation/resourceslice/resourceslicecontroller.go (field selector)"
)


@AREA.check(
    "granted",
    "the driver's role allows all its requests",
    promise="No request of the driver is forbidden by RBAC, with the role given by --role, or the usual one of charts.",
    source=_GOOD_PRACTICES,
    cost="The driver works on its author's cluster, and not on one with RBAC.",
)
async def _check_granted(session: Session) -> None:
    if refused := _answered_with(session, 403):
        visit = refused[0]
        raise Breach(f"{len(refused)} requests were forbidden, such as {visit.method} {visit.path}")


@AREA.check(
    "status-of-its-node",
    "the driver's role grants status for claims of its node",
    promise="Since 1.36 a role that grants the status of claims also grants resourceclaims/driver with the verbs"
    " associated-node:update and associated-node:patch, or arbitrary-node: for drivers that run elsewhere.",
    source="https://github.com/kubernetes/enhancements/tree/master/keps/sig-node/4817-resource-claim-device-status"
    " (granular status authorization)",
    cost="Status that the driver writes is refused from the upgrade to 1.36 on.",
    since=V1_36,
    gate="DRAResourceClaimGranularStatusAuthorization",
)
async def _check_status_of_its_node(session: Session) -> None:
    writing = {"update", "patch"} & _verbs(session, "resourceclaims/status")
    if not writing:
        raise NotOffered("its role grants no status of claims")
    granted = _verbs(session, "resourceclaims/driver")
    missing = [verb for verb in sorted(writing) if not _sufficient_verbs(verb) & granted]
    if missing:
        raise Breach(
            f"resourceclaims/status: {', '.join(sorted(writing))}; resourceclaims/driver: {sorted(granted)}"
        )


def _sufficient_verbs(verb: str) -> set[str]:
    return {f"associated-node:{verb}", f"arbitrary-node:{verb}", "*"}


def _verbs(session: Session, resource: str) -> set[str]:
    """Return the verbs that the driver's role grants for a resource of resource.k8s.io."""
    return {
        verb
        for rule in session.world.rules
        if {"resource.k8s.io", "*"} & set(rule.get("apiGroups") or ())
        and {resource, "*", f"*/{resource.partition('/')[2]}"} & set(rule.get("resources") or ())
        for verb in rule.get("verbs") or ()
    }


@AREA.check(
    "authenticated",
    "the driver's requests are authenticated",
    promise="Each request has the credentials of the kubeconfig.",
    source="https://kubernetes.io/docs/reference/access-authn-authz/authentication/",
    cost="The driver works only where anonymous requests are allowed.",
)
async def _check_authenticated(session: Session) -> None:
    if not session.world.requests.answered:
        raise NotShown("the driver has asked the API server nothing")
    if refused := _answered_with(session, 401):
        raise Breach(f"{len(refused)} requests were refused with 401, such as {refused[0].path}")


@AREA.check(
    "no-secrets",
    "the driver reads no secrets",
    promise="A driver of a node reads neither Secrets nor ConfigMaps of the whole cluster.",
    source=_GOOD_PRACTICES,
    cost="Anyone who breaks into one node reads every secret.",
)
async def _check_no_secrets(session: Session) -> None:
    for visit in session.world.requests.answered:
        if is_about(visit, "secrets") or (is_about(visit, "configmaps") and "/namespaces/" not in visit.path):
            raise Breach(f"{visit.method} {visit.path}")


@AREA.check(
    "slices-of-its-node",
    "the driver watches the slices of its own node only",
    promise="Lists and watches of ResourceSlices have a field selector with the node or the driver.",
    source=_SELECTORS,
    cost="With a thousand nodes each change of a slice is sent a thousand times.",
    recommended=True,
)
async def _check_slices_of_its_node(session: Session) -> None:
    for visit in session.world.requests.answered:
        collection = visit.path.endswith("/resourceslices") and visit.method == "GET"
        if collection and not {"spec.nodeName", "spec.driver"} & _selected_fields(visit):
            raise Breach(f"GET {visit.path}?{visit.query}")


@AREA.check(
    "no-claims-of-all",
    "the driver does not list all claims",
    promise="A driver of a node reads the claims that it is asked to prepare, one by one.",
    source="staging/src/k8s.io/dynamic-resource-allocation/kubeletplugin/draplugin.go (claims are read by name)",
    cost="With a thousand nodes each change of a claim is sent a thousand times.",
    recommended=True,
)
async def _check_no_claims_of_all(session: Session) -> None:
    for visit in session.world.requests.answered:
        if visit.path.endswith("/resourceclaims") and visit.method == "GET" and not _selected_fields(visit):
            raise Breach(f"GET {visit.path}")


@AREA.check(
    "no-deletecollection",
    "the driver deletes one object at a time",
    promise="The driver deletes slices by name, and nothing else.",
    source=_GOOD_PRACTICES,
    cost="A selector that is empty by mistake deletes the devices of every node.",
)
async def _check_no_deletecollection(session: Session) -> None:
    for visit in session.world.requests.answered:
        if visit.verb == "deletecollection":
            raise Breach(f"DELETE {visit.path}?{visit.query}")


@AREA.check(
    "own-objects",
    "the driver changes nothing but slices and status",
    promise="The driver writes ResourceSlices and the status of claims, and no other objects of the cluster.",
    source="KEP-4381 (responsibilities of the DRA driver)",
    cost="Its role has to be so wide that a compromised node can change the cluster.",
    recommended=True,
)
async def _check_own_objects(session: Session) -> None:
    for visit in session.world.requests.answered:
        fine = (
            is_about(visit, "resourceslices") or visit.path.endswith("/status") or is_about(visit, "events")
        )
        own = "/leases" in visit.path or "selfsubject" in visit.path
        if is_write(visit) and not fine and not own:
            raise Breach(f"{visit.method} {visit.path}")


@AREA.check(
    "user-agent",
    "the driver's requests name the program",
    promise="The user agent names the driver or its library, with a version.",
    source="https://kubernetes.io/docs/reference/using-api/api-concepts/",
    cost="Nobody can see which program floods the API server.",
    recommended=True,
)
async def _check_user_agent(session: Session) -> None:
    for visit in session.world.requests.answered:
        if not visit.agent or visit.agent.lower().startswith(
            ("python-requests", "python-httpx", "aiohttp", "curl")
        ):
            raise Breach(f"user agent {visit.agent!r}")


def _answered_with(session: Session, code: int) -> list[Visit]:
    return [visit for visit in session.world.requests.answered if visit.code == code]


def _selected_fields(visit: Visit) -> set[str]:
    return {part.partition("=")[0].rstrip("!") for part in field_selector(visit).split(",") if part}
