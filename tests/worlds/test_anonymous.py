"""``dralab export --anonymize``: the output contains nothing private, and the planner's answers do not change."""

import itertools
import json
import typing
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from dra_cli.commandline import run
from dra_scheduler.config import SchedulerConfig
from dra_scheduler.plan.change import places
from dra_scheduler.plan.objects import RESOURCES
from dra_scheduler.plan.simulation import Simulation
from dra_shared.api.codec import convert
from dra_shared.api.resources import Resource
from dra_shared.features import FeatureGates
from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_37
from dra_worlds.anonymous import anonymize
from dra_worlds.anonymous.expressions import rewrite
from dra_worlds.reading import read
from dralab.testing import Cluster

from tests.support.cases import each_case

_MARK = "acme-secret"
# Fields that stay, according to the documentation: drivers, and the names of attributes and capacities.
_STAY = {
    "CSIDriver.metadata.name", "attacher", "capacityKey", "distinctAttribute", "driver", "matchAttribute",
    "partitionTypeAttribute", "provisioner", "CSINodeDriver.name",
}  # fmt: skip
_STAYING_KEYS = {"attributes", "consumedCapacity", "Device.capacity", "CapacityRequirements.requests"}
# The value of an attribute stays if its name says that it is a model.
_PUBLIC = "public"


class _Filler:
    """Builds objects with a unique text in each field."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def _text(self) -> str:
        return f"{_MARK}-{next(self._numbers)}"

    def value(self, type_: Any, owner: str, name: str, depth: int) -> Any:
        """Return a value of a type. Nested types end at some depth, as they may be recursive."""
        if isinstance(type_, type) and issubclass(type_, msgspec.Struct):
            return self.struct(type_, depth + 1)
        origin = typing.get_origin(type_)
        arguments = [one for one in typing.get_args(type_) if one not in (type(None), Ellipsis)]
        if origin is dict:
            stays = bool({name, f"{owner}.{name}"} & _STAYING_KEYS)
            key = _PUBLIC if stays else f"{self._text()}/{self._text()}"
            return {key: self.value(arguments[1], owner, f"{name}{{}}", depth)}
        if origin in (tuple, list):
            return [self.value(arguments[0], owner, name, depth)]
        if arguments:
            return self.value(str if str in arguments else arguments[0], owner, name, depth)
        if type_ is Any:
            return {self._text(): {self._text(): [self._text()]}}
        if type_ is not str:
            return type_(1)
        if {name, f"{owner}.{name}"} & _STAY:
            return _PUBLIC
        if name == "expression":
            return f"device.attributes['{_PUBLIC}'].rack == '{self._text()}' // {self._text()}"
        return self._text()

    def struct(self, type_: type[msgspec.Struct], depth: int = 0) -> JsonObject:
        if depth > 12:
            return {}
        return {
            field.encode_name: self.value(field.type, type_.__name__, field.encode_name, depth)
            for field in msgspec.structs.fields(type_)
        }


def _fill_object(resource: Resource[Any]) -> JsonObject:
    obj = _Filler().struct(resource.type)
    if resource.kind == "CSIDriver":
        obj["metadata"]["name"] = _PUBLIC
    return {**obj, "apiVersion": resource.api_version, "kind": resource.kind}


@each_case("resource", RESOURCES, ids=lambda resource: resource.kind)
def test_no_string_field_of_any_type_is_in_the_anonymized_output(resource: Resource[Any]) -> None:
    obj = _fill_object(resource)
    assert _MARK in json.dumps(obj)
    # Unknown fields, such as those of a newer version, are left out as well.
    obj["metadata"]["managedFields"] = obj["newField"] = obj["spec"] = {**obj.get("spec", {}), _MARK: _MARK}
    [made] = anonymize([(resource, convert(resource, obj))])
    assert _MARK not in json.dumps(made)
    assert made["kind"] == resource.kind


def _meta(name: str, namespace: str = "", **more: Any) -> JsonObject:
    meta: JsonObject = {
        "name": name,
        "uid": f"uid-{name}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **more,
    }
    return meta | ({"namespace": namespace} if namespace else {})


def _node(number: int) -> JsonObject:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10", "acme.com/license": "2"}
    labels = {
        "kubernetes.io/hostname": f"acme-{number}",
        "topology.kubernetes.io/zone": f"acme-dc{number % 2}",
        "acme.com/tier": f"tier-{number // 2}",
        "acme.com/cores": str(number * 1000000),
    }
    taints = [{"key": "acme.com/reserved", "value": "apollo", "effect": "NoSchedule"}] if number == 3 else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _meta(f"acme-{number}", labels=labels),
        "spec": {"taints": taints, "providerID": "acme://secret"},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "addresses": [{"type": "InternalIP", "address": "10.1.2.3"}],
            "nodeInfo": {"kubeletVersion": "v1.37.0-acme.3", "machineID": "acme", "operatingSystem": "linux"},
            "images": [{"names": ["registry.acme.com/big:latest"], "sizeBytes": 900000000}]
            if number == 2
            else [],
        },
    }


def _slice(number: int) -> JsonObject:
    def device(index: int) -> JsonObject:
        return {
            "name": f"acme-gpu-{index}",
            "attributes": {
                "model": {"string": ["H100", "A100"][number % 2]},
                "rack": {"string": f"acme-row{number}-rack{index}"},
                "uuid": {"string": f"GPU-acme-{number}-{index}"},
                "driverVersion": {"version": "1.2.3"},
            },
            "capacity": {"memory": {"value": "80Gi"}},
            "taints": [{"key": "acme.com/hot", "effect": "NoSchedule"}] if index == 1 and number == 0 else [],
        }

    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": _meta(f"slice-{number}"),
        "spec": {
            "driver": "gpu.acme.com",
            "nodeName": f"acme-{number}",
            "pool": {"name": f"acme-{number}", "generation": 1, "resourceSliceCount": 1},
            "devices": [device(index) for index in range(6)],
        },
    }


# What each pod wants, and how many of the four nodes have it.
_SELECTORS = {
    "row": "device.attributes['gpu.acme.com'].rack.startsWith('acme-row1')  // the row of apollo",
    "upper": "device.attributes['gpu.acme.com'].rack.upperAscii().contains('ROW2')",
    "pattern": "device.attributes[\"gpu.acme.com\"].rack.matches('(?i)ROW[13]-rack0$')",
    "exact": "device.attributes['gpu.acme.com'].rack == r'acme-row0-rack0'",
    "listed": "device.attributes['gpu.acme.com'].rack in ['acme-row3-rack1', 'acme-nowhere']",
    "model": "device.attributes['gpu.acme.com'].model.contains('H1')",
    "other": "'model' in device.attributes['gpu.acme.com'] && device.attributes['gpu.acme.com'].model != 'A100'",
    "large": "device.capacity['gpu.acme.com'].memory.compareTo(quantity('40Gi')) > 0",
    "version": "device.attributes['gpu.acme.com'].driverVersion.isGreaterThan(semver('1.0.0'))",
    "nothing": "device.attributes['gpu.acme.com'].rack.endsWith('rack7')",
}
_TOLERATION = {"key": "acme.com/reserved", "operator": "Equal", "value": "apollo", "effect": "NoSchedule"}


_IMPLICIT = "deviceclass.resource.kubernetes.io/gpu.acme.com"


def _claim(name: str, selector: str) -> JsonObject:
    exactly = {
        "deviceClassName": "gpu.acme.com",
        "allocationMode": "ExactCount",
        "count": 1,
        "selectors": [{"cel": {"expression": selector}}],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": _meta(name, "apollo"),
        "spec": {"devices": {"requests": [{"name": "apollo-r", "exactly": exactly}]}},
    }


def _pod(name: str, app: str = "apollo", **spec: Any) -> JsonObject:
    container = {"name": "apollo", "image": "registry.acme.com/big", "env": [{"name": "X", "value": "hush"}]}
    container["resources"] = spec.pop("resources", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _meta(name, "apollo", labels={"app": app}, annotations={"acme.com/note": "hush"}),
        "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec},
        "status": {"phase": "Pending"},
    }


def _affinity(key: str, operator: str, *values: str) -> JsonObject:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}
    required = {"nodeSelectorTerms": [term]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


def _world() -> list[JsonObject]:
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": _meta("gpu.acme.com"),
        "spec": {
            "selectors": [{"cel": {"expression": 'device.driver == "gpu.acme.com"'}}],
            "config": [{"opaque": {"driver": "gpu.acme.com", "parameters": {"token": "hush"}}}],
        },
    }
    anti = [{"labelSelector": {"matchLabels": {"app": "gemini"}}, "topologyKey": "kubernetes.io/hostname"}]
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": anti}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "apollo"}},
    }
    pods = [
        _pod("tier", nodeSelector={"acme.com/tier": "tier-1"}),
        _pod("reserved", nodeSelector={"kubernetes.io/hostname": "acme-3"}, tolerations=[_TOLERATION]),
        _pod("refused", nodeSelector={"kubernetes.io/hostname": "acme-3"}),
        _pod("cores", **_affinity("acme.com/cores", "Gt", "1500000"), tolerations=[_TOLERATION]),
        _pod("zone", **_affinity("topology.kubernetes.io/zone", "NotIn", "acme-dc0")),
        _pod(
            "license", resources={"limits": {"acme.com/license": "2"}, "requests": {"acme.com/license": "2"}}
        ),
        _pod(
            "unlicensed", resources={"limits": {"acme.com/other": "1"}, "requests": {"acme.com/other": "1"}}
        ),
        _pod("implicit", resources={"limits": {_IMPLICIT: "2"}, "requests": {_IMPLICIT: "2"}}),
        _pod("spread", topologySpreadConstraints=[spread]),
        *(_pod(f"alone-{number}", affinity=apart, app="gemini") for number in range(4)),
    ]
    for name in _SELECTORS:
        claims = [{"name": "apollo-c", "resourceClaimName": f"{name}-claim"}]
        pods.append(
            _pod(f"claims-{name}", resourceClaims=claims, resources={"claims": [{"name": "apollo-c"}]})
        )
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": _meta("apollo", labels={"team": "apollo"})},
        *map(_node, range(4)),
        *map(_slice, range(4)),
        device_class,
        *(_claim(f"{name}-claim", selector) for name, selector in _SELECTORS.items()),
        *pods,
    ]


@pytest.fixture
def export(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[[list[JsonObject]], list[JsonObject]]:
    """Return a function that anonymizes objects and returns the items, which it leaves in new.json."""

    def run_export(items: list[JsonObject]) -> list[JsonObject]:
        old = tmp_path / "old.json"
        old.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        run("export", ["--from", str(old), "--anonymize", "-o", str(tmp_path / "new.json")])
        assert capsys.readouterr().err == ""
        made: list[JsonObject] = json.loads((tmp_path / "new.json").read_text())["items"]
        return made

    return run_export


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield key
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:
            yield from _texts(part)
    elif isinstance(value, str):
        yield value


def test_no_private_text_of_a_world_is_in_the_output(
    export: Callable[[list[JsonObject]], list[JsonObject]],
) -> None:
    output = " ".join(_texts(export(_world())))
    for word in (
        "acme-",
        "apollo",
        "gemini",
        "hush",
        "tier-",
        "row1",
        "ROW2",
        "10.1.2.3",
        "license",
        "token",
        "uid-",
    ):
        assert word not in output, word
    # Names of drivers stay, even if a class has the same name.
    assert "gpu.acme.com" in output.replace("acme.com/", "")
    assert "acme" not in output.replace("gpu.acme.com", "")


def test_drivers_keep_their_name_even_if_a_class_has_it_too(
    export: Callable[[list[JsonObject]], list[JsonObject]],
) -> None:
    made = export(_world())
    slices = [one for one in made if one["kind"] == "ResourceSlice"]
    assert {one["spec"]["driver"] for one in slices} == {"gpu.acme.com"}
    [device_class] = [one for one in made if one["kind"] == "DeviceClass"]
    assert device_class["metadata"]["name"] == "deviceclass-1"
    assert device_class["spec"]["selectors"][0]["cel"]["expression"] == 'device.driver == "gpu.acme.com"'


_SERVICES: list[JsonObject] = [
    {
        "selector": {"app": "acme"},
        "ports": [
            {"name": "acme-http", "port": 80, "targetPort": "acme", "nodePort": 30080},
            {"name": "acme-metrics", "port": 9090, "protocol": "TCP"},
        ],
        "type": "NodePort",
        "clusterIP": "10.96.0.7",
        "clusterIPs": ["10.96.0.7"],
    },
    {"selector": {"app": "acme"}, "clusterIP": "None", "clusterIPs": ["None"]},
    {"type": "ExternalName", "externalName": "db.acme.com"},
]


@pytest.mark.system
@pytest.mark.dra_cluster(nodes=0, drivers=[])
def test_anonymized_services_are_accepted_by_the_api_server(
    export: Callable[[list[JsonObject]], list[JsonObject]], dra_cluster: Cluster
) -> None:
    made = export(
        [
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"acme-{index}"}, "spec": spec}
            for index, spec in enumerate(_SERVICES)
        ]
    )
    assert "acme" not in " ".join(_texts(made))
    first, headless, external = dra_cluster.apply(*made)
    assert [port["port"] for port in first["spec"]["ports"]] == [80, 9090]
    assert headless["spec"]["clusterIP"] == "None"
    assert external["spec"]["externalName"] == "host-1"


def _places(file: Path) -> dict[str, tuple[str, int, str]]:
    """Return the placement of each pod: its node, the number of its devices, and the reason if it has no node."""
    problems: list[str] = []
    world = Simulation(SchedulerConfig(gates=FeatureGates(V1_37)), seed=0)
    world.load((resource, each.values()) for resource, each in read(str(file), problems))
    try:
        return {key: (place.node, len(place.devices), place.message) for key, place in places(world).items()}
    finally:
        world.close()


def test_anonymized_pods_get_the_same_placements(
    export: Callable[[list[JsonObject]], list[JsonObject]], tmp_path: Path
) -> None:
    old = _world()
    new = export(old)
    assert [one["kind"] for one in new] == [one["kind"] for one in old]
    nodes = {"": ""}
    keys = {}
    for before, after in zip(old, new, strict=True):
        if before["kind"] == "Node":
            nodes[before["metadata"]["name"]] = after["metadata"]["name"]
        if before["kind"] == "Pod":
            meta = after["metadata"]
            keys[f"apollo/{before['metadata']['name']}"] = f"{meta['namespace']}/{meta['name']}"
    found, expected = _places(tmp_path / "new.json"), _places(tmp_path / "old.json")
    assert {keys[key]: (nodes[node], count) for key, (node, count, _) in expected.items()} == {
        key: (node, count) for key, (node, count, _) in found.items()
    }
    waiting = {key.partition("/")[2] for key, (node, _, _) in expected.items() if not node}
    assert waiting == {"refused", "unlicensed", "claims-nothing", "claims-listed", "alone-3"}


_TEXTS = {"rack-a": "id-1", "rack-b": "id-2", "H100": "H100"}


@each_case(
    ("expression", "expected"),
    [
        ('d.rack == "rack-a"', 'd.rack == "id-1"'),
        ("d.rack in ['rack-a', r'rack-b'] // x", 'd.rack in ["id-1", "id-2"]'),
        ("d['rack-a'].x[?'rack-b']", "d['rack-a'].x[?'rack-b']"),
        ("'rack-a' in device.attributes", "'rack-a' in device.attributes"),
        ("d.rack.startsWith('rack-')", 'd.rack.matches("^(?:id-1|id-2)$")'),
        ("d.rack.endsWith('''-b''')", 'd.rack.matches("^(?:id-2)$")'),
        ("d.rack.contains('zzz')", 'd.rack.matches("^$a")'),
        ("d.model.contains('H1')", "d.model.contains('H1')"),
        ("quantity('10Gi') == quantity('rack-a')", "quantity('10Gi') == quantity(\"id-1\")"),
        (r"d.rack == '\x72ack-a'", 'd.rack == "id-1"'),
        ("d.rack == 'secret", "("),
    ],
)
def test_strings_in_cel_expressions_are_anonymized(expression: str, expected: str) -> None:
    assert rewrite(expression, lambda text: _TEXTS.get(text, "text-1"), _TEXTS) == expected
