"""Authorization of changes to a claim's status: upstream's unit tests of pkg/registry/resource/utils.go."""

from typing import Any

import pytest
from dra_apiserver.kindkit.strategy import Context
from dra_apiserver.kinds import catalog
from dra_apiserver.kinds.resource.statusauthorization import check_binding, check_drivers
from dra_apiserver.user import UserInfo
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_36

from tests.support.cases import each_case
from tests.support.reference import load_vectors

KIND = catalog.registry("api/all=true", kubernetes=V1_36).get("resource.k8s.io", "resourceclaims")
NODE_NAME = "authentication.kubernetes.io/node-name"


def cases(test: str) -> list[Any]:
    found = [case for case in load_vectors("misc_units.json.gz") if case["test"] == test]
    return [pytest.param(case["table"], id=case["name"]) for case in found]


def as_json(value: Any) -> Any:
    """Return a dump of Go fields as the API encodes them."""
    if isinstance(value, dict):
        return {_field(key): as_json(item) for key, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list) else value


def _field(name: str) -> str:
    known = {"IPs": "ips", "UID": "uid", "APIGroup": "apiGroup", "ShareID": "shareID"}
    return known.get(name, name[:1].lower() + name[1:])


class Asked:
    """A context whose authorizer follows the rules and records its requests."""

    def __init__(self, rules: JsonObject, user: JsonObject, verb: str = "update") -> None:
        self.asked: list[tuple[str, str]] = []
        assert KIND is not None
        extra = {key: tuple(values) for key, values in (user.get("Extra") or {}).items()}

        def authorize(verb: str, resource: str, namespace: str, name: str) -> str | None:
            self.asked.append((verb, name))
            return None if f"{verb}/{resource}/{name}" in rules else "denied"

        self.context = Context(
            kind=KIND,
            version="v1",
            namespace="default",
            now="",
            features=FeatureGates(V1_36),
            lookup=lambda *_: None,
            user=UserInfo(user.get("Name", "somebody"), (), extra),
            authorize=authorize,
            verb=verb,
        )


@pytest.mark.parametrize("table", cases("TestAuthorizedForBinding"))
def test_changes_of_allocation_and_reservations_are_authorized_as_upstream(table: JsonObject) -> None:
    context = Asked(table["authz"]["rules"], {}).context
    new, old = as_json(table["newStatus"]), as_json(table["oldStatus"])
    assert len(check_binding(new, old, context, "status")) == table["expectErrs"]


@each_case("table", cases("TestAuthorizedForDeviceStatus"))
def test_changes_of_device_status_are_authorized_as_upstream(table: JsonObject) -> None:
    context = Asked(table["authz"]["rules"], table["user"], table["verb"]).context
    new, old = as_json(table["newStatus"]), as_json(table["oldStatus"])
    assert len(check_drivers(new, old, context, "status")) == table["expectErrs"]


@each_case("table", cases("TestGetModifiedDrivers"))
def test_only_changed_drivers_are_authorized(table: JsonObject) -> None:
    asked = Asked({}, {})
    check_drivers(as_json(table["newStatus"]), as_json(table["oldStatus"]), asked.context, "status")
    assert {name for _, name in asked.asked} == set(table["expected"])


def asks_for_node(allocation: JsonObject | None, user: JsonObject) -> bool:
    asked = Asked({}, user)
    devices = [{"driver": "d", "pool": "p", "device": "x"}]
    check_drivers({"allocation": allocation, "devices": devices}, {}, asked.context, "status")
    return ("associated-node:update", "d") in asked.asked


@each_case("table", cases("TestNodeNameFromAllocation"))
def test_an_allocation_is_attributed_to_the_same_node_as_upstream(table: JsonObject) -> None:
    allocation = as_json(table.get("allocation"))
    for node in ("worker-1", "node-1", "node-2", "node-a"):
        user = {"Name": "system:serviceaccount:ns:name", "Extra": {NODE_NAME: [node]}}
        assert asks_for_node(allocation, user) == (node == table["expected"])


@each_case("table", cases("TestSAAssociatedWithAllocatedNode"))
def test_service_accounts_on_the_node_are_recognized_as_upstream(table: JsonObject) -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": [table["allocatedNodeName"]]}]
    allocation = {"nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}}
    assert asks_for_node(allocation, table["userInfo"]) == table["expected"]
