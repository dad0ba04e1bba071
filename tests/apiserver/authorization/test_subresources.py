"""Test that each kind, subresource and method needs its own permission, which no other permission implies."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from dra_apiserver.config import Config
from dra_apiserver.handlers.routes import resolve
from dra_apiserver.kindkit.kind import Kind
from dra_apiserver.kinds import catalog
from dra_apiserver.storage.catalog import IN_MEMORY
from dra_shared.features import FeatureGates

from tests.apiserver.authorization.test_rbac import give, message, rule, under, user
from tests.support.sampling import sample

# Equal to upstream's discovery: tests/apiserver/discovery compares the two.
KINDS = list(catalog.registry("api/all=true", FeatureGates()))
_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# Subresources that upstream's discovery lacks: some that a kind does not have, and one that no kind has.
_EVERYWHERE = ("status", "scale", "proxy", "nonsense")
# The body or the response of these requests is the object itself.
_OF_THE_OBJECT = frozenset({"status", "finalize", "approval", "ephemeralcontainers", "resize"})


class Case(NamedTuple):
    """A request for a subresource."""

    kind: Kind
    version: str
    subresource: str
    method: str

    @property
    def path(self) -> str:
        prefix = f"/apis/{self.kind.group}" if self.kind.group else "/api"
        place = "/namespaces/default" if self.kind.namespaced else ""
        return f"{prefix}/{self.version}{place}/{self.kind.plural}/x/{self.subresource}"

    @property
    def is_served(self) -> bool:
        found = self.kind.subresources_in(self.version).get(self.subresource)
        return found is not None and _VERBS[self.method] in found.verbs


def _cases() -> Iterator[Case]:
    for kind in KINDS:
        for version in kind.versions[:1]:
            # In paths below a namespace, other names are resources, so there is no unserved subresource to try.
            more = () if kind.plural == "namespaces" else _EVERYWHERE
            for name in dict.fromkeys((*kind.subresources_in(version), *more)):
                yield from (Case(kind, version, name, method) for method in _VERBS)


CASES = list(_cases())
# The number of requests that a normal run sends, of about two thousand. `make thorough` sends all of them.
_ASKED = 400


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(
        port=0, data=tmp_path, database=IN_MEMORY, authorization_mode="RBAC", runtime_config="api/all=true"
    )


async def _ask(client: httpx.AsyncClient, case: Case, headers: httpx.Headers) -> httpx.Response:
    body = b"{}" if case.method in {"POST", "PUT", "PATCH"} else None
    media = "application/merge-patch+json" if case.method == "PATCH" else "application/json"
    return await client.request(
        case.method, case.path, content=body, headers=[*headers.raw, (b"content-type", media.encode())]
    )


async def test_owner_of_an_object_has_no_rights_to_its_subresources(
    client: httpx.AsyncClient,
) -> None:
    by_group: dict[str, list[str]] = {}
    for kind in KINDS:
        by_group.setdefault(kind.group, []).append(kind.plural)
    rules = [rule("*", ",".join(plurals), group) for group, plurals in by_group.items()]
    await give(client, user("owner"), *rules)
    for case in sample(CASES, _ASKED):
        answer = await _ask(client, case, under("owner"))
        assert answer.status_code == 403, case
        refused = f'cannot {_VERBS[case.method]} resource "{case.kind.plural}/{case.subresource}" '
        assert f'User "owner" {refused}' + f'in API group "{case.kind.group}"' in message(answer), case


async def test_an_unserved_subresource_is_rejected_for_each_method(client: httpx.AsyncClient) -> None:
    for case in sample([case for case in CASES if not case.is_served], _ASKED):
        answer = await _ask(client, case, httpx.Headers())
        known = case.subresource in case.kind.subresources_in(case.version)
        assert answer.status_code == (405 if known else 404), case
        assert answer.json()["reason"] == ("MethodNotAllowed" if known else "NotFound")


async def test_subresources_of_another_kind_do_not_return_the_object_itself(
    client: httpx.AsyncClient,
) -> None:
    pods, services = "/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/services"
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    for path, body in (
        (pods, pod),
        (services, {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 80}]}}),
        ("/api/v1/nodes", {"metadata": {"name": "x"}}),
    ):
        assert (await client.post(path, json=body)).status_code == 201
    for case in CASES:
        if (case.kind.group, case.kind.plural) not in {("", "pods"), ("", "services"), ("", "nodes")}:
            continue
        if case.subresource in _OF_THE_OBJECT or case.subresource in {"binding", "eviction"}:
            continue
        answer = await _ask(client, case, httpx.Headers())
        is_object = answer.headers.get("content-type") == "application/json" and answer.json().get(
            "kind"
        ) in {
            "Pod",
            "Service",
            "Node",
        }
        assert not is_object, case
    for path in (f"{pods}/x", f"{services}/x", "/api/v1/nodes/x"):
        found = await client.get(path)
        assert found.status_code == 200
        assert "deletionTimestamp" not in found.json()["metadata"]


def test_every_subresource_listed_by_discovery_is_served() -> None:
    registry = catalog.registry("api/all=true", FeatureGates())
    for case in CASES:
        if case.is_served:
            resolve(registry, catalog.ROUTES, case.method, f"{case.path}/", watching=False)


async def test_subresources_cannot_be_watched(client: httpx.AsyncClient) -> None:
    pods = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    assert (await client.post(pods, json=pod)).status_code == 201
    assert (await client.get(f"{pods}/x/status")).status_code == 200
    path = "/api/v1/watch/namespaces/default/pods/x/status"
    assert (await client.get(path)).status_code == 404
    assert 'cannot watch resource "pods/status"' in message(await client.get(path, headers=under("bob")))


async def test_the_path_prefix_api_v1_proxy_is_authorized_as_the_verb_proxy(
    client: httpx.AsyncClient,
) -> None:
    answer = await client.get("/api/v1/proxy/namespaces/default/pods/x/y", headers=under("bob"))
    assert 'cannot proxy resource "pods" in API group "" in the namespace "default"' in message(answer)
