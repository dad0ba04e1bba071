"""Permissions of node agents, drivers and plans: roles, bindings, and a policy that limits a driver to its node.

Charts of DRA drivers have such a policy too, because roles cannot distinguish the slices of different nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from dra_shared.client.errors import from_response
from dra_shared.client.rest import Client, PatchType
from dra_shared.jsontypes import JsonObject

#: A node agent, for all of its nodes.
AGENT = "dralab:agent"
#: The group of the drivers of all nodes; the role has the same name.
DRIVERS = "dralab:drivers"
_DOMAINS, _DOMAIN_NODES = "dralab:compute-domains", "dralab:compute-domain-nodes"
#: Planners, and the scheduler, which answers plans.
PLAN = "dralab:plan"
_SCHEDULER = "system:kube-scheduler"
_POLICY = "dralab-drivers"
_DRIVER = "dralab:driver:"
_NODES, _NODE_BINDING = "system:nodes", "dralab:nodes"
_RBAC, _ADMISSION, _RESOURCE, _NVIDIA = (
    "rbac.authorization.k8s.io",
    "admissionregistration.k8s.io",
    "resource.k8s.io",
    "resource.nvidia.com",
)
_MANAGER = "system:kube-controller-manager"
_TRAINER = "trainer.kubeflow.org"

_PLURALS = {
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}

_AGENT_RULES: Sequence[JsonObject] = (
    # One watch for all of an agent's nodes. With an identity of its own, each node would need its own watch.
    {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [_RESOURCE], "resources": ["resourceslices"], "verbs": ["list", "watch"]},
    {
        "apiGroups": [""],
        "resources": ["configmaps"],
        "resourceNames": ["kube-root-ca.crt"],
        "verbs": ["list", "watch"],
    },
    {"apiGroups": [_RESOURCE], "resources": ["deviceclasses"], "verbs": ["create"]},
)
_DRIVER_RULES: Sequence[JsonObject] = (
    {
        "apiGroups": [_RESOURCE],
        "resources": ["resourceslices"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
    {"apiGroups": [_RESOURCE], "resources": ["resourceclaims"], "verbs": ["get"]},
    {"apiGroups": [_RESOURCE], "resources": ["resourceclaims/status"], "verbs": ["update", "patch"]},
    {
        "apiGroups": [_RESOURCE],
        "resources": ["resourceclaims/driver"],
        "verbs": ["arbitrary-node:update", "arbitrary-node:patch"],
    },
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
)
# Permissions to create the objects of NVIDIA's chart for compute domains, and those of its controller.
_DOMAIN_RULES: Sequence[JsonObject] = (
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["create"],
    },
    {"apiGroups": [""], "resources": ["namespaces", "serviceaccounts"], "verbs": ["create"]},
    {
        "apiGroups": [_NVIDIA],
        "resources": ["computedomains", "computedomains/status", "computedomaincliques"],
        "verbs": ["get", "list", "watch", "create", "update", "patch"],
    },
    {
        "apiGroups": [_RESOURCE],
        "resources": ["resourceclaimtemplates"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
    {
        "apiGroups": ["apps"],
        "resources": ["daemonsets"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
)
# Permissions of NVIDIA's kubelet plugin for compute domains, and of its daemon, on their node.
_DOMAIN_NODE_RULES: Sequence[JsonObject] = (
    {
        "apiGroups": [_NVIDIA],
        "resources": ["computedomains", "computedomains/status", "computedomaincliques"],
        "verbs": ["get", "list", "watch", "create", "update", "patch"],
    },
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "patch"]},
)
# Permissions of the operators' own charts, for the controllers of job kinds. The controller manager also
# creates the CustomResourceDefinitions of these kinds.
_JOB_KINDS = "dralab:job-kinds"
#: The controllers whose service accounts have these permissions.
JOB_KIND_CONTROLLERS = (
    "jobset-controller",
    "leaderworkerset-controller",
    "raycluster-controller",
    "rayjob-controller",
    "mpijob-controller",
    "trainjob-controller",
)
_JOB_KIND_RULES: Sequence[JsonObject] = (
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["create"],
    },
    {
        "apiGroups": ["jobset.x-k8s.io", "leaderworkerset.x-k8s.io", "ray.io", "kubeflow.org", _TRAINER],
        "resources": ["*"],
        "verbs": ["*"],
    },
    {
        "apiGroups": ["", "apps", "batch", _RBAC],
        "resources": [
            *("pods", "services", "configmaps", "secrets", "serviceaccounts", "persistentvolumeclaims"),
            *("statefulsets", "controllerrevisions", "jobs", "jobs/status", "roles", "rolebindings"),
        ],
        "verbs": ["get", "create", "update", "patch", "delete"],
    },
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
)
#: The permission to write slices that belong to no node; named after upstream's verbs of ``resourceclaims/driver``.
SHARED_VERB = "arbitrary-node:"
_SLICES, _CLAIMS = "resourceslices", "resourceclaims"
# Upstream's drivers need a token that is bound to a node. Here the node is part of the user's name.
_NODE_VARIABLE = (
    f"request.userInfo.username.startsWith('{_DRIVER}') ? "
    f"request.userInfo.username.substring({len(_DRIVER)}) : ''"
)
_OBJECT_NODE = "(request.operation == 'DELETE' ? oldObject : object).spec.?nodeName.orValue('')"
_MAY_SHARE = (
    f"authorizer.group('{_RESOURCE}').resource('{_SLICES}').subresource('driver')"
    ".name((request.operation == 'DELETE' ? oldObject : object).spec.driver)"
    f".check('{SHARED_VERB}' + request.operation.lowerAscii()).allowed()"
)
_CLAIM_OF_THIS_NODE = (
    f"request.resource.resource != '{_CLAIMS}' || !has(object.status) || !has(object.status.allocation) || "
    "!has(object.status.allocation.nodeSelector) || "
    "object.status.allocation.nodeSelector.nodeSelectorTerms.exists(term, !has(term.matchFields) || "
    "term.matchFields.exists(field, field.key == 'metadata.name' && variables.node in field.values))"
)
# Since 1.36 the API server itself demands the permission for resourceclaims/binding.
_ALLOCATION_KEPT = (
    f"request.resource.resource != '{_CLAIMS}' || "
    "object.?status.?allocation == oldObject.?status.?allocation && "
    "object.?status.?reservedFor == oldObject.?status.?reservedFor"
)


def _plan_rules() -> list[JsonObject]:
    """Return the rules for the kinds of a planner's world. Upstream's scheduler may not list all of them."""
    from dra_scheduler.plan.objects import RESOURCES

    plurals: dict[str, list[str]] = {}
    for resource in RESOURCES:
        plurals.setdefault(resource.group, []).append(resource.plural)
    return [
        {"apiGroups": [group], "resources": sorted(names), "verbs": ["get", "list"]}
        for group, names in sorted(plurals.items())
    ]


def driver_user(node: str) -> str:
    """Return the user of the node's drivers."""
    return f"{_DRIVER}{node}"


def is_driver(user: str) -> bool:
    """True if the user is that of a node's drivers."""
    return user.startswith(_DRIVER)


def objects() -> list[JsonObject]:
    """Return the roles and bindings of agents, drivers and plans. A driver has access only to its node's objects."""
    return [
        _role(AGENT, _AGENT_RULES),
        _binding(AGENT, AGENT, _subject("User", AGENT)),
        _role(DRIVERS, _DRIVER_RULES),
        _binding(DRIVERS, DRIVERS, _subject("Group", DRIVERS)),
        _role(_DOMAINS, _DOMAIN_RULES),
        _binding(_DOMAINS, _DOMAINS, _subject("User", AGENT)),
        _role(_DOMAIN_NODES, _DOMAIN_NODE_RULES),
        _binding(_DOMAIN_NODES, _DOMAIN_NODES, _subject("Group", DRIVERS)),
        _role(_JOB_KINDS, _JOB_KIND_RULES),
        _binding(_JOB_KINDS, _JOB_KINDS, _subject("User", _MANAGER), *map(_account, JOB_KIND_CONTROLLERS)),
        _role(PLAN, _plan_rules()),
        _binding(PLAN, PLAN, _subject("User", _SCHEDULER)),
        _policy(),
        {
            "apiVersion": f"{_ADMISSION}/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": _POLICY},
            "spec": {"policyName": _POLICY, "validationActions": ["Deny"]},
        },
    ]


async def grant(client: Client, *, nodes: bool) -> None:
    """Create the permissions of drivers, and of ``nodes`` if no Node authorizer is active: no default role is
    bound to them.
    """
    for obj in objects():
        await _apply(client, obj)
    if nodes:
        await _apply(client, _binding(_NODE_BINDING, "system:node", _subject("Group", _NODES)))
    else:
        # Delete the binding of an earlier start: it would give every node the permissions of all nodes.
        await client.raw("DELETE", f"/apis/{_RBAC}/v1/clusterrolebindings/{_NODE_BINDING}")


def _policy() -> JsonObject:
    """Return the policy for drivers, modelled on that of dra-example-driver's chart."""

    def rule(group: str, versions: Sequence[str], resource: str, *operations: str) -> JsonObject:
        return {
            "apiGroups": [group],
            "apiVersions": list(versions),
            "operations": list(operations),
            "resources": [resource],
        }

    versions = ("v1beta1", "v1beta2", "v1")
    return {
        "apiVersion": f"{_ADMISSION}/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": _POLICY},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    rule(_RESOURCE, versions, _SLICES, "CREATE", "UPDATE", "DELETE"),
                    rule(_RESOURCE, versions, f"{_CLAIMS}/status", "UPDATE"),
                    rule("", ["v1"], "nodes", "UPDATE"),
                    rule("", ["v1"], "pods", "UPDATE"),
                ]
            },
            "matchConditions": [{"name": "driver", "expression": f"'{DRIVERS}' in request.userInfo.groups"}],
            "variables": [
                {"name": "node", "expression": _NODE_VARIABLE},
                {"name": "objectNode", "expression": _OBJECT_NODE},
            ],
            "validations": list(_validations()),
        },
    }


def _validations() -> Iterator[JsonObject]:
    def may_not(expression: str, *what: str) -> JsonObject:
        message = " + ".join(["'the drivers of node '", "variables.node", "' may not '", *what])
        return {"expression": expression, "messageExpression": message}

    yield {
        "expression": "variables.node != ''",
        "message": f"no node association found for user, its name must be {_DRIVER}NODE",
    }
    yield may_not(
        f"request.resource.resource != '{_SLICES}' || variables.objectNode == '' || "
        "variables.objectNode == variables.node",
        "'write the slices of node '",
        "variables.objectNode",
    )
    yield may_not(
        f"request.resource.resource != '{_SLICES}' || variables.objectNode != '' || {_MAY_SHARE}",
        "'write slices that belong to no node without the permission '",
        f"'{SHARED_VERB}' + request.operation.lowerAscii()",
        "' on resourceslices/driver '",
        "(request.operation == 'DELETE' ? oldObject : object).spec.driver",
    )
    yield may_not(_CLAIM_OF_THIS_NODE, "'report on a claim that is allocated on another node'")
    yield may_not(_ALLOCATION_KEPT, "'change the allocation or the reservations of a claim'")
    yield may_not(
        "request.resource.resource != 'nodes' || object.metadata.name == variables.node",
        "'write another node'",
    )
    yield may_not(
        "request.resource.resource != 'pods' || variables.objectNode == variables.node",
        "'write the pods of another node'",
    )


def _role(name: str, rules: Sequence[JsonObject]) -> JsonObject:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": list(rules),
    }


def _binding(name: str, role: str, *subjects: Mapping[str, str]) -> JsonObject:
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [dict(subject) for subject in subjects],
    }


def _subject(kind: str, name: str) -> dict[str, str]:
    return {"apiGroup": _RBAC, "kind": kind, "name": name}


def _account(controller: str) -> dict[str, str]:
    """Return the service account of a controller."""
    return {"kind": "ServiceAccount", "namespace": "kube-system", "name": controller}


async def _apply(client: Client, obj: JsonObject) -> None:
    """Apply the object at every start, as upstream reconciles its default roles."""
    import orjson

    group = obj["apiVersion"].partition("/")[0]
    path = f"/apis/{group}/v1/{_PLURALS[obj['kind']]}/{quote(obj['metadata']['name'])}"
    answer = await client.raw(
        "PATCH",
        path,
        params={"fieldManager": "dralab", "force": "true"},
        content=orjson.dumps(obj),
        content_type=PatchType.APPLY,
    )
    if answer.status_code >= 400:
        raise from_response(answer.status_code, answer.content)
