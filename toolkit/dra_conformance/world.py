"""The cluster around the driver: an API server with RBAC in this process, a node, and the driver's identity.

There is no scheduler. The suite allocates claims itself, so it can also make allocations that no scheduler would.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import orjson
from dra_apiserver.config import Config
from dra_apiserver.server import ApiServer
from dra_apiserver.user import ADMINISTRATOR, UserInfo, service_account_groups
from dra_kube.cluster import kubeconfig, replace
from dra_lab.certificates import Authority
from dra_node_agent.kubelet.node import declared_features
from dra_shared.client.errors import from_response
from dra_shared.client.kubeconfig import load
from dra_shared.client.rest import Client
from dra_shared.features import FeatureGates, with_defaults
from dra_shared.jsontypes import JsonObject
from dra_shared.serviceversions import lab_gates
from dra_shared.servingtls import ServingTLS
from dra_shared.version import Version

from dra_conformance.traffic import Recorder

NAMESPACE = "dralab-conformance"
OTHER_NAMESPACE = "dralab-conformance-2"
USER = f"system:serviceaccount:{NAMESPACE}:driver"
RESOURCE = "/apis/resource.k8s.io/v1"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_POLL, _LOOKS = 0.02, 500
_RBAC = "/apis/rbac.authorization.k8s.io/v1"
_NODE_NAME = "authentication.kubernetes.io/node-name"
_API = "resource.k8s.io"


def default_rules() -> list[JsonObject]:
    """Return the rules that charts usually grant to a kubelet plugin, as in dra-example-driver's clusterrole.yaml."""
    slices = ["get", "list", "watch", "create", "update", "patch", "delete"]
    return [
        {"apiGroups": [_API], "resources": ["resourceslices"], "verbs": slices},
        {"apiGroups": [_API], "resources": ["resourceclaims"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [_API], "resources": ["resourceclaims/status"], "verbs": ["update", "patch"]},
        {
            "apiGroups": [_API],
            "resources": ["resourceclaims/driver"],
            "verbs": ["associated-node:update", "associated-node:patch"],
        },
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
    ]


class World:
    """``async with`` an API server that has the node, the namespaces, and the driver's role.

    Args:
        root: the directory for its files.
        rules: the rules of the driver's role.
        tls: serve HTTPS; without it, client-go does not send tokens.
        crds: CustomResourceDefinitions that the driver needs. It may do everything with their objects.
    """

    def __init__(
        self,
        root: Path,
        node: str,
        version: Version,
        rules: Sequence[JsonObject],
        *,
        port: int = 0,
        tls: bool = True,
        crds: Sequence[JsonObject] = (),
    ) -> None:
        self.root = root
        self.node = node
        self.version = version
        self.kubeconfig = root / "kubeconfig"
        self.token = secrets.token_urlsafe(32)
        self.requests = Recorder(USER)
        self.admin: Client
        self.node_uid = ""
        self.rules = [*rules, *(_rule_for(crd) for crd in crds)]
        self._crds = crds
        self._port = port
        self._tls = tls
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self) -> Self:
        try:
            await self._start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _start(self) -> None:
        pki = self.root / "pki"
        authority = Authority.load_or_create(pki, datetime.now(UTC)) if self._tls else None
        own = authority.server("kube-apiserver").write(pki / "apiserver") if authority is not None else None
        master = secrets.token_urlsafe(32)
        groups = (*service_account_groups(NAMESPACE), "system:authenticated")
        gates = with_defaults(lab_gates(self.version), "", self.version)
        features = FeatureGates.parse(gates, self.version)
        config = Config(
            port=self._port,
            data=self.root,
            relaxed=True,
            runtime_config="api/all=true",
            features=features,
            authorization_mode="RBAC",
            anonymous_auth=False,
            tls=None if own is None else ServingTLS(*own),
            known_tokens={
                master: ADMINISTRATOR,
                self.token: UserInfo(USER, groups, extra={_NODE_NAME: (self.node,)}),
            },
        )
        server = await self._stack.enter_async_context(ApiServer(config, traffic=self.requests))
        trusted = "" if authority is None else authority.pem
        users = {"driver": {"token": self.token}}
        await asyncio.to_thread(replace, self.kubeconfig, kubeconfig(server.url, users, trusted))
        access = load(self.kubeconfig)
        self.admin = await self._stack.enter_async_context(
            Client(server.url, user_agent="dralab-conformance", token=master, ssl_context=access.ssl_context)
        )
        await self._furnish(features)

    async def _furnish(self, features: FeatureGates) -> None:
        # There is no kubelet, so the suite writes the node's declared features.
        status = {"declaredFeatures": declared_features(features)}
        node = await self.write("POST", "/api/v1/nodes", {"metadata": {"name": self.node}, "status": status})
        self.node_uid = node["metadata"]["uid"]
        admin_access = {"resource.kubernetes.io/admin-access": "true"}
        for name in (NAMESPACE, OTHER_NAMESPACE):
            metadata = {"name": name, "labels": admin_access}
            await self.write("POST", "/api/v1/namespaces", {"metadata": metadata})
        for crd in self._crds:
            await self._serve(crd)
        name = "dralab-conformance-driver"
        await self.write("POST", f"{_RBAC}/clusterroles", {"metadata": {"name": name}, "rules": self.rules})
        subject = {"kind": "ServiceAccount", "name": "driver", "namespace": NAMESPACE}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]}
        await self.write("POST", f"{_RBAC}/clusterrolebindings", binding)

    async def _serve(self, crd: JsonObject) -> None:
        """Create a CustomResourceDefinition, and wait until its objects are served."""
        await self.write("POST", _CRDS, crd)
        path = f"{_CRDS}/{crd['metadata']['name']}"
        for _ in range(_LOOKS):
            if _is_established(await self.read(path)):
                break
            await asyncio.sleep(_POLL)

    async def read(self, path: str) -> JsonObject:
        """Return an object or a list, read as the administrator.

        Raises:
            ApiError: the server rejects the request.
        """
        return await self._send("GET", path, None)

    async def write(self, method: str, path: str, body: JsonObject | None = None) -> JsonObject:
        """Create, change or delete an object as the administrator, and return the response.

        Raises:
            ApiError: the server rejects the request.
        """
        return await self._send(method, path, body)

    async def _send(self, method: str, path: str, body: JsonObject | None) -> JsonObject:
        content = None if body is None else orjson.dumps(body)
        answer = await self.admin.raw(method, path, content=content)
        if answer.status_code >= 400:
            raise from_response(answer.status_code, answer.content)
        found: JsonObject = orjson.loads(answer.content)
        return found

    async def slices(self, driver: str = "") -> list[JsonObject]:
        """Return all ResourceSlices, or those of one driver."""
        found = (await self.read(f"{RESOURCE}/resourceslices"))["items"]
        return [one for one in found if not driver or one["spec"]["driver"] == driver]


def _rule_for(crd: JsonObject) -> JsonObject:
    spec = crd["spec"]
    plural = spec["names"]["plural"]
    return {"apiGroups": [spec["group"]], "resources": [plural, f"{plural}/status"], "verbs": ["*"]}


def _is_established(crd: JsonObject) -> bool:
    conditions = crd.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
