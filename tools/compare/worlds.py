"""Random worlds for the allocator: a node, device classes, slices, claims, and devices that are allocated already.

A world has the form of the recorded cases of ``dralab conformance alloc``. Every field of the API that the
allocator of a release reads occurs, with mostly valid and sometimes invalid values, because real clusters may
contain objects that were valid in another version of Kubernetes.
"""

from dra_shared.jsontypes import JsonObject
from dra_shared.version import V1_35, V1_36, V1_37, V1_38, Version

from tools.compare.draw import Draw

_DRIVERS = ("gpu.example.com", "nic.example.com")
_ALWAYS = ("DRAAdminAccess", "DRAPrioritizedList", "DRAPartitionableDevices", "DRADeviceTaints")
_FEATURES = (
    (*_ALWAYS, "DRADeviceBindingConditions", "DRAConsumableCapacity"),
    ("DRAListTypeAttributes",),
    (
        "DRADerivedAttributes",
        "DRADeviceCompatibilityGroups",
        "DRAOptionalNodeOperations",
        "DRAFractionalCapacityRange",
    ),
)
_VERSIONS = ("1.0.0", "2.1.0", "3.0.0-rc.1")
# Versions with build metadata and a number of more than 64 bits: since 1.38 constraints compare parsed versions.
_BUILDS = ("1.0.0+a", "2.1.0+b.1", "1.0.99999999999999999999")
_SELECTORS = (
    "true",
    'device.driver == "gpu.example.com"',
    'device.driver == "nic.example.com"',
    'device.attributes["gpu.example.com"].?model.orValue("A") in ["A", "B"]',
    'device.attributes["nic.example.com"].?model.orValue("A") != "C"',
    "device.attributes[device.driver].?index.orValue(0) < 3",
    'device.attributes["shared.example.com"].?root.hasValue()',
    'device.capacity[device.driver].?mem.optMap(m, m.compareTo(quantity("3")) >= 0).orValue(false)',
)
# Each selector is an error for some devices or in some releases.
_RISKY_SELECTORS = (
    'device.attributes["gpu.example.com"].model == "A"',
    'device.capacity["gpu.example.com"].mem.isGreaterThan(quantity("5"))',
    "device.allowMultipleAllocations",
    'device.attributes["shared.example.com"].root.includes("x")',
    'device.attributes["gpu.example.com"].nosuch',
    "device.driver ==",
)
_DERIVED = (
    "device.driver",
    '"one"',
    "[1, 2]",
    'semver("1.2.3")',
    'device.attributes[device.driver].?model.orValue("none")',
    "device.attributes[device.driver].?index.orValue(0) % 2",
    '"mem" in device.capacity[device.driver]',
)
_RISKY_DERIVED = ("1.5", "[]", '[dyn(1), dyn("a")]', '{"a": 1}', "device.attributes", "device.driver ==")
_ATTRIBUTES = (
    "gpu.example.com/model",
    "nic.example.com/model",
    "shared.example.com/root",
    "gpu.example.com/index",
)
_QUANTITIES = ("1", "2", "3", "4", "5", "1500m", "300m", "1Gi", "2Gi", "4Gi")
_KEYS = ("a", "b", "c")


def draw_world(seed: str, kubernetes: Version) -> JsonObject:
    """Return the world that is drawn from a seed, with only the features and fields that the release has."""
    return _World(Draw(f"{kubernetes} {seed}"), kubernetes).draw(seed)


class _World:
    """A world that is being drawn. The weights are the probabilities of its features."""

    def __init__(self, draw: Draw, kubernetes: Version) -> None:
        self._draw = draw
        self._kubernetes = kubernetes
        self._lists = draw.weight() if kubernetes >= V1_36 else 0.0
        self._derived = draw.weight() if kubernetes >= V1_37 else 0.0
        self._groups = draw.weight() if kubernetes >= V1_37 else 0.0
        self._skip = draw.weight() if kubernetes >= V1_37 else 0.0
        self._counters = draw.weight()
        self._shares = draw.weight()
        self._taints = draw.weight()
        self._conditions = draw.weight()
        self._alternatives = draw.weight()
        self._admin = draw.weight() / 3
        self._risks = 0.08 if draw.chance(0.15) else 0.0
        self._broken = 0.05 if draw.chance(0.15) else 0.0
        # True if all devices are equal, so that only the order of the search decides which one is allocated.
        self._alike = draw.chance(0.3)
        self._domains = draw.weight()
        self._versions = _VERSIONS if kubernetes < V1_38 else _VERSIONS + _BUILDS
        self._used: list[tuple[str, str, JsonObject]] = []
        self._slices: list[JsonObject] = []

    def draw(self, name: str) -> JsonObject:
        draw = self._draw
        for driver in _DRIVERS[: draw.pick((1, 1, 2))]:
            for pool in ("node-0", "net")[: draw.pick((1, 1, 1, 2))]:
                self._add_pool(driver, pool)
        world: JsonObject = {
            "name": name,
            "features": self._features(),
            "node": {
                "metadata": {"name": "node-0", "labels": {"zone": draw.pick(("a", "b"))}},
                **(
                    {"status": {"declaredFeatures": ["DRAOptionalNodeOperations"]}}
                    if draw.chance(0.7)
                    else {}
                ),
            },
            "classes": [self._device_class(number) for number in range(2)],
            "slices": sorted(self._slices, key=lambda _: draw.number(0, 1 << 30)),
            "claims": [self._claim(number) for number in range(draw.pick((1, 1, 1, 1, 2, 3)))],
            "allocated": self._draw_allocated(),
        }
        # Name the allocator that answers. By default upstream picks one by the features, and 1.34 always does.
        if self._kubernetes >= V1_35 and draw.chance(0.5):
            world["implementation"] = "incubating" if draw.chance(0.2) else "experimental"
        elif self._kubernetes >= V1_38 and draw.chance(0.2):
            world["implementation"] = "stable"
        return world

    def _features(self) -> list[str]:
        draw = self._draw
        known = [*_FEATURES[0]]
        if self._kubernetes >= V1_36:
            known += _FEATURES[1]
        if self._kubernetes >= V1_37:
            known += _FEATURES[2]
        kind = draw.number(0, 9)
        if kind < 5:
            return known
        if kind < 6:
            return list(_ALWAYS)
        return [name for name in known if draw.chance(0.8)]

    def _device_class(self, number: int) -> JsonObject:
        spec: JsonObject = {}
        if self._draw.chance(0.15):
            spec["selectors"] = self._selectors()
        if self._draw.chance(0.3):
            spec["config"] = [
                {
                    "opaque": {
                        "driver": self._draw.pick(_DRIVERS),
                        "parameters": {"class": number, "list": [1]},
                    }
                }
            ]
        return {"metadata": {"name": f"class-{number}"}, "spec": spec}

    def _selectors(self) -> list[JsonObject]:
        texts = [
            self._draw.pick(_RISKY_SELECTORS if self._draw.chance(self._risks) else _SELECTORS)
            for _ in range(self._draw.pick((1, 1, 2)))
        ]
        return [{"cel": {"expression": text}} for text in texts]

    # Slices

    def _add_pool(self, driver: str, pool: str) -> None:
        draw = self._draw
        counted = draw.chance(self._counters)
        devices = [
            self._device(driver, pool, number, counted) for number in range(draw.pick((2, 3, 4, 5, 6, 8)))
        ]
        placement = self._placement()
        parts = [devices]
        if len(devices) > 2 and draw.chance(0.4):
            cut = draw.number(1, len(devices) - 1)
            parts = [devices[:cut], devices[cut:]]
        # Before 1.35 counters are in the slice of the devices that consume them.
        own = counted and (draw.chance(0.7) if self._kubernetes < V1_35 else draw.chance(0.1))
        specs: list[JsonObject] = [{"devices": part, **placement} for part in parts]
        if counted and own:
            for spec in specs:
                spec["sharedCounters"] = self._counter_sets()
        elif counted:
            specs.insert(0, {"sharedCounters": self._counter_sets(), **placement})
        count = len(specs) + (1 if draw.chance(self._broken) else 0)
        generation = draw.number(1, 2)
        for number, spec in enumerate(specs):
            self._slices.append(
                self._slice(
                    f"{draw.number(0, 999):03}-{driver[:3]}-{pool}-{number}",
                    driver,
                    pool,
                    generation,
                    count,
                    spec,
                )
            )
        if draw.chance(0.1):
            old = {"devices": [self._device(driver, pool, 0, counted)], **placement}
            self._slices.append(self._slice(f"old-{driver[:3]}-{pool}", driver, pool, generation - 1, 1, old))

    def _slice(
        self, name: str, driver: str, pool: str, generation: int, count: int, spec: JsonObject
    ) -> JsonObject:
        if self._draw.chance(self._skip):
            spec["skipNodeOperations"] = self._draw.sample(
                ("NodePrepareResources", "NodeUnprepareResources", "*"), 2
            )
        spec = {
            "driver": driver,
            "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
            **spec,
        }
        return {"metadata": {"name": name}, "spec": spec}

    def _placement(self) -> JsonObject:
        draw = self._draw
        kind = draw.number(0, 9)
        if kind < 5:
            return {"nodeName": "node-0" if draw.chance(0.93) else "node-1"}
        if kind < 7:
            return {"allNodes": True}
        if kind < 8:
            return {"nodeSelector": self._node_selector()}
        return {"perDeviceNodeSelection": True}

    def _node_selector(self) -> JsonObject:
        draw = self._draw
        term: JsonObject = {
            "matchExpressions": [{"key": "zone", "operator": "In", "values": draw.sample(("a", "b", "c"), 2)}]
        }
        if draw.chance(0.3):
            term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": ["node-0"]}]
        return {"nodeSelectorTerms": [term]}

    def _counter_sets(self) -> list[JsonObject]:
        sets = []
        for name in ("cs0", "cs1")[: self._draw.pick((1, 2, 2))]:
            counters = {
                "slices": {"value": str(self._draw.number(1, 8))},
                "m": {"value": self._draw.pick(("2Gi", "4Gi", "8Gi"))},
            }
            sets.append({"name": name, "counters": counters})
        return sets

    def _device(self, driver: str, pool: str, number: int, counted: bool) -> JsonObject:
        draw = self._draw
        device: JsonObject = {"name": f"d{number}", "attributes": self._attributes(driver)}
        if self._alike or draw.chance(0.6):
            device["capacity"] = self._qualify(driver, self._capacity())
        if counted and draw.chance(0.85):
            device["consumesCounters"] = [self._consumption(name) for name in draw.sample(("cs0", "cs1"), 2)]
        if draw.chance(self._shares):
            device["allowMultipleAllocations"] = draw.chance(0.9)
        if draw.chance(self._taints):
            device["taints"] = [self._taint() for _ in range(draw.pick((1, 1, 2)))]
        if draw.chance(self._conditions):
            device["bindingConditions"] = draw.sample(("example.com/ready", "example.com/up"), 2)
            device["bindingFailureConditions"] = ["example.com/failed"]
            if draw.chance(0.5):
                device["bindsToNode"] = draw.chance(0.8)
        kind = draw.number(0, 9)
        if kind < 4:
            device["nodeName"] = "node-0" if draw.chance(0.9) else "node-1"
        elif kind < 6:
            device["allNodes"] = True
        elif kind < 8:
            device["nodeSelector"] = self._node_selector()
        if draw.chance(0.12):
            self._used.append((driver, pool, device))
        return device

    def _attributes(self, driver: str) -> JsonObject:
        draw = self._draw
        if self._alike:
            return {"model": {"string": "A"}, "index": {"int": 0}}
        domain = f"{driver}/" if draw.chance(self._domains) else ""
        attributes: JsonObject = {
            f"{domain}model": {"string": draw.pick(("A", "B", "C"))},
            "index": {"int": draw.number(0, 4)},
        }
        if draw.chance(0.1):
            del attributes["index"]
        if draw.chance(0.7):
            root: JsonObject = {"string": draw.pick(("x", "y"))}
            if draw.chance(self._lists):
                root = {"strings": draw.sample(("w", "x", "y", "z"), 3)}
            attributes["shared.example.com/root"] = root
        if draw.chance(0.2):
            attributes["fw"] = {"version": draw.pick(self._versions)}
        if draw.chance(self._lists / 2):
            attributes["fws"] = {"versions": draw.sample(self._versions[:2] + self._versions[3:], 2)}
        if draw.chance(self._lists / 2):
            attributes["index"] = {"ints": draw.sample((0, 1, 2, 3), 3)}
        if draw.chance(0.1):
            attributes["ok"] = {"bools": [True]} if draw.chance(self._lists) else {"bool": draw.chance(0.5)}
        return attributes

    def _capacity(self) -> JsonObject:
        draw = self._draw
        if self._alike:
            return {"mem": {"value": "4"}}
        capacity: JsonObject = {}
        for name in ("mem", "bw", "other.example.com/x"):
            if draw.chance(0.5):
                capacity[name] = {"value": draw.pick(_QUANTITIES)}
                if draw.chance(0.5):
                    capacity[name]["requestPolicy"] = self._policy()
        return capacity

    def _qualify(self, driver: str, named: JsonObject) -> JsonObject:
        """Return the name with the driver's domain added if it has none. Since 1.38 both forms mean the same name."""
        if self._kubernetes < V1_38:
            return named
        return {
            f"{driver}/{name}" if "/" not in name and self._draw.chance(self._domains / 2) else name: value
            for name, value in named.items()
        }

    def _policy(self) -> JsonObject:
        draw = self._draw
        kind = draw.number(0, 3)
        if kind == 0:
            return {"default": draw.pick(("1", "2"))}
        if kind == 1:
            return {"default": "1", "validValues": draw.sample(("1", "2", "3", "4"), 4)}
        least = draw.pick(("1", "2", "300m"))
        wide: JsonObject = {"min": least}
        if draw.chance(0.6):
            wide["step"] = draw.pick(("1", "300m", "500m", "2"))
        if draw.chance(0.6):
            wide["max"] = draw.pick(("3", "4", "5"))
        return {"default": least, "validRange": wide}

    def _consumption(self, counter_set: str) -> JsonObject:
        draw = self._draw
        counters: JsonObject = {"slices": {"value": str(draw.number(1, 3))}}
        if draw.chance(0.3):
            counters["m"] = {"value": draw.pick(("1Gi", "2Gi"))}
        consumption: JsonObject = {"counterSet": counter_set, "counters": counters}
        if draw.chance(self._groups):
            consumption["compatibilityGroups"] = draw.sample(("a", "b", "c"), 2)
        return consumption

    def _taint(self) -> JsonObject:
        draw = self._draw
        effects = ["NoSchedule", "NoExecute"] + (["None"] if self._kubernetes >= V1_35 else [])
        taint: JsonObject = {"key": draw.pick(_KEYS), "effect": draw.pick(effects)}
        if draw.chance(0.5):
            taint["value"] = draw.pick(("v", "w"))
        return taint

    # Claims

    def _claim(self, number: int) -> JsonObject:
        draw = self._draw
        requests = [self._request(f"r{index}") for index in range(draw.pick((1, 1, 1, 2, 2, 3)))]
        devices: JsonObject = {"requests": requests}
        constraints = [self._constraint(requests) for _ in range(draw.pick((0, 0, 0, 1, 2)))]
        if constraints:
            devices["constraints"] = constraints
        if draw.chance(0.3):
            devices["config"] = [
                {
                    "requests": draw.sample([one["name"] for one in requests], 2) if draw.chance(0.7) else [],
                    "opaque": {"driver": draw.pick(_DRIVERS), "parameters": {"claim": number}},
                }
            ]
        return {
            "metadata": {"name": f"claim-{number}", "namespace": "default", "uid": f"uid-{number}"},
            "spec": {"devices": devices},
        }

    def _request(self, name: str) -> JsonObject:
        draw = self._draw
        if draw.chance(self._alternatives):
            subs = [{"name": f"s{index}", **self._demand()} for index in range(draw.number(1, 3))]
            return {"name": name, "firstAvailable": subs}
        exactly = self._demand()
        if draw.chance(self._admin):
            exactly["adminAccess"] = True
        return {"name": name, "exactly": exactly}

    def _demand(self) -> JsonObject:
        draw = self._draw
        missing = draw.chance(self._risks / 2)
        demand: JsonObject = {
            "deviceClassName": "missing-class" if missing else draw.pick(("class-0", "class-1"))
        }
        if draw.chance(0.15):
            demand["allocationMode"] = "All"
        else:
            demand |= {"allocationMode": "ExactCount", "count": draw.pick((1, 1, 1, 1, 1, 2, 3))}
        if draw.chance(0.2):
            demand["selectors"] = self._selectors()
        if draw.chance(self._taints):
            demand["tolerations"] = [self._toleration() for _ in range(draw.pick((1, 1, 2)))]
        if draw.chance(max(self._shares, 0.1)):
            names = draw.sample(("mem", "bw", "other.example.com/x", "gpu.example.com/mem"), 2)
            demand["capacity"] = {"requests": {name: draw.pick(_QUANTITIES) for name in names}}
        if draw.chance(self._derived):
            demand["derivedAttributes"] = [
                {
                    "name": name,
                    "expression": draw.pick(_RISKY_DERIVED if draw.chance(self._risks) else _DERIVED),
                }
                for name in draw.sample(("derived/a", "derived/b"), 2)
            ]
        return demand

    def _toleration(self) -> JsonObject:
        draw = self._draw
        toleration: JsonObject = {"operator": draw.pick(("Exists", "Equal"))}
        if toleration["operator"] == "Equal" or draw.chance(0.7):
            toleration["key"] = draw.pick(_KEYS)
        if toleration["operator"] == "Equal":
            toleration["value"] = draw.pick(("v", "w"))
        if draw.chance(0.5):
            toleration["effect"] = draw.pick(("NoSchedule", "NoExecute"))
        return toleration

    def _constraint(self, requests: list[JsonObject]) -> JsonObject:
        draw = self._draw
        names = [one["name"] for one in requests]
        for one in requests:
            names += [f"{one['name']}/{sub['name']}" for sub in one.get("firstAvailable", ())]
        attributes = _ATTRIBUTES + (
            ("derived/a", "derived/b", "derived/a") if draw.chance(self._derived) else ()
        )
        if self._kubernetes >= V1_38:
            attributes += ("gpu.example.com/fw", "gpu.example.com/fws")
        distinct = draw.chance(0.3)
        return {
            **({"requests": draw.sample(names, 3)} if draw.chance(0.6) else {}),
            "distinctAttribute" if distinct else "matchAttribute": draw.pick(attributes),
        }

    def _draw_allocated(self) -> JsonObject:
        allocated: JsonObject = {"devices": [], "sharedDeviceIDs": [], "aggregatedCapacity": []}
        for driver, pool, device in self._used:
            id = {"driver": driver, "pool": pool, "device": device["name"]}
            if not device.get("allowMultipleAllocations"):
                allocated["devices"].append(id)
                continue
            share = "11111111-1111-1111-1111-111111111111"
            allocated["sharedDeviceIDs"].append({**id, "shareID": share})
            names = [name for name in device.get("capacity", {}) if self._draw.chance(0.7)]
            if names:
                consumed = {name: self._draw.pick(("1", "300m", "2")) for name in names}
                if self._kubernetes >= V1_38:
                    # Objects that an older scheduler or another driver stored may have the other form of a name.
                    plain = {name.removeprefix(f"{driver}/"): value for name, value in consumed.items()}
                    consumed = self._qualify(driver, plain)
                allocated["aggregatedCapacity"].append({**id, "consumedCapacity": consumed})
        return allocated
