"""Fleets: pools of equal nodes, as a file describes them. ``fleet.schema.json`` is the JSON schema for editors."""

import itertools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from dra_kube.yamlfile import read_yaml
from dra_scheduler.plan.prices import PRICE_LABEL
from dra_shared.errors import UserError

SCHEMA = Path(__file__).with_name("fleet.schema.json")
#: The name of the pool that ``dralab up --nodes`` creates. Its nodes are node-0, node-1, …
DEFAULT_POOL = "node"
#: The GPUs of a node for which none are given.
DEFAULT_GPUS = "8xA100-SXM4-40GB"
#: The label of nodes with their zone.
ZONE_LABEL = "topology.kubernetes.io/zone"
#: The maximum number of nodes in a pool.
MOST_NODES = 10_000
# The largest number of nodes that have all their sockets by default. The sockets take eight open files per node.
_MOST_WITH_SOCKETS = 100
_TAINT = re.compile(r"[^:=]+(=[^:]*)?:(NoSchedule|PreferNoSchedule|NoExecute)")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True)
class Pool:
    """A pool of ``count`` equal nodes, which are named after the pool."""

    name: str
    count: int = 1
    gpus: str = DEFAULT_GPUS
    drivers: tuple[str, ...] = ()
    cpu: str = "64"
    memory: str = "512Gi"
    labels: dict[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()
    zone: str = ""
    price: float | None = None
    removed: tuple[str, ...] = ()
    """Names of nodes that were removed from the pool."""
    names: tuple[str, ...] = ()
    """Names of the nodes, in place of numbered ones."""

    @property
    def nodes(self) -> list[str]:
        """The nodes' names."""
        names = self.names or (f"{self.name}-{number}" for number in range(self.count))
        return [name for name in names if name not in self.removed]

    def flags(self) -> list[str]:
        """Return the options of the pool's node agent."""
        labels = {**({ZONE_LABEL: self.zone} if self.zone else {}), **self.labels}
        if self.price is not None:
            labels[PRICE_LABEL] = f"{self.price:g}"
        words = ["--nodes", str(self.count), "--node-name", self.name]
        if self.names or self.removed or not self.count:
            words = ["--node-names", ",".join(self.nodes)]
        words += ["--gpus", self.gpus]
        words += ["--node-cpu", self.cpu, "--node-memory", self.memory]
        words += ["--node-labels", ",".join(f"{key}={value}" for key, value in labels.items())]
        words += ["--register-with-taints", ",".join(self.taints)]
        for driver in self.drivers:
            words += ["--driver", driver]
        return words

    def text(self) -> str:
        """Return the pool as JSON."""
        return json.dumps(
            {name: value for name, value in asdict(self).items() if value is not None}, indent=2
        )


@dataclass(frozen=True)
class Group:
    """A group of nodes as in ``--nodes``: ``COUNT[:GPUS][@ZONE]``."""

    count: int
    gpus: str = ""
    zone: str = ""


def group(text: str) -> Group:
    """Parse a group of nodes from the command line: ``4000``, ``4000:8xA100-SXM4-40GB``, ``4000:8xH100@eu-1a``.

    Raises:
        ValueError: the text is not a group; the message says why.
    """
    rest, at, zone = text.partition("@")
    count, colon, gpus = rest.partition(":")
    if not count.isdecimal() or bool(at) != bool(zone) or bool(colon) != bool(gpus):
        raise ValueError(f"{text!r} is not a number of nodes, such as 4 or 4:8xH100-SXM5-80GB")
    if int(count) > MOST_NODES:
        raise ValueError(f"{count} is not between 0 and {MOST_NODES}")
    if problem := _zone(zone):
        raise ValueError(f"zone {problem}")
    return Group(int(count), gpus, zone)


def pools_of(groups: Sequence[Group], gpus: str, drivers: tuple[str, ...]) -> list[Pool]:
    """Return the pools of the command line's groups. A single group is the default pool; several are named by GPUs.

    Raises:
        UserError: the GPUs of a group cannot be part of a name.
    """
    if len(groups) == 1:
        one = groups[0]
        named = Pool(
            name=DEFAULT_POOL, count=one.count, gpus=one.gpus or gpus, drivers=drivers, zone=one.zone
        )
        return [named] if one.count else []
    pools: dict[str, Pool] = {}
    for one in groups:
        base = name = _pool_name(one.gpus or gpus)
        for number in itertools.count(2):
            if name not in pools:
                break
            name = f"{base}-{number}"
        pools[name] = Pool(name=name, count=one.count, gpus=one.gpus or gpus, drivers=drivers, zone=one.zone)
    return list(pools.values())


def _pool_name(gpus: str) -> str:
    model = gpus.partition(",")[0].partition(":")[0].rpartition("x")[2]
    name = re.sub("[^a-z0-9]+", "-", model.lower()).strip("-")[:40]
    if not name:
        raise UserError(f"--nodes: {gpus!r} is not a GPU model, such as 8xH100-SXM5-80GB", 2)
    return name


def with_sockets(wanted: bool | None, nodes: int) -> bool:
    """True if nodes have all their sockets, as the options say or because there are few nodes."""
    return nodes <= _MOST_WITH_SOCKETS if wanted is None else wanted


def read(path: Path) -> list[Pool]:
    """Read the pools of a fleet's file.

    Raises:
        UserError: the file cannot be read, or is not a fleet; the message names the file and the pool.
    """
    document = read_yaml(path)
    given = document.get("pools") if isinstance(document, dict) else None
    if not isinstance(given, list) or not given or set(document) != {"pools"}:
        raise UserError(f"{path}: a fleet is a list of pools: see {SCHEMA}")
    pools = [pool(entry, f"{path}: pools[{number}]") for number, entry in enumerate(given)]
    names = [one.name for one in pools]
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)
        raise UserError(f'{path}: two pools are named "{twice}"; give each pool a unique name')
    return pools


def is_fleet(source: str) -> bool:
    """True if the source is a file that begins as a fleet's file does."""
    path = Path(source)
    if source == "-" or not path.is_file():
        return False
    with path.open("rb") as file:
        head = file.read(1 << 16)
    return (
        re.search(rb"^(pools:|\s*\{\s*\"pools\"\s*:)", head, re.MULTILINE) is not None
        and b"apiVersion" not in head
    )


def pool(given: Any, where: str) -> Pool:
    """Read a pool of a fleet's file.

    Raises:
        UserError: a field is unknown, missing or of the wrong kind.
    """
    if not isinstance(given, dict) or "name" not in given:
        raise UserError(f"{where}: a pool needs a name")
    for name, value in given.items():
        if name not in _FIELDS:
            raise UserError(f"{where}.{name}: unknown: choose {', '.join(_FIELDS)}")
        if problem := _FIELDS[name](value):
            raise UserError(f"{where}.{name}: {problem}")
    values = dict(given)
    for name in ("cpu", "memory"):
        if name in values:
            values[name] = str(values[name])
    for name in ("drivers", "taints", "removed", "names"):
        if name in values:
            values[name] = tuple(values[name])
    return Pool(**values)


def _name(value: Any) -> str:
    fits = isinstance(value, str) and _NAME.fullmatch(value)
    return "" if fits else "must be a DNS label of at most 42 characters"


def _count(value: Any) -> str:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST_NODES
    return "" if fits else f"must be a number between 0 and {MOST_NODES}"


def _text(value: Any) -> str:
    return "" if isinstance(value, str) else "must be a string"


def _texts(value: Any) -> str:
    return (
        ""
        if isinstance(value, list) and all(isinstance(one, str) for one in value)
        else "must be a list of strings"
    )


def _quantity(value: Any) -> str:
    from dra_shared.quantity import Quantity

    try:
        Quantity.parse(str(value))
    except ValueError:
        return "must be a quantity such as 64 or 512Gi"
    return (
        "" if isinstance(value, str | int | float) and not isinstance(value, bool) else "must be a quantity"
    )


def _labels(value: Any) -> str:
    if not isinstance(value, dict) or not all(isinstance(one, str) for pair in value.items() for one in pair):
        return "must be a mapping of names to strings"
    return next(filter(None, (_pair(*pair) for pair in value.items())), "")


def _pair(key: str, value: str) -> str:
    """Return the error of a label or a taint that the API server would reject, or ""."""
    from dra_shared.names import label_key, label_value

    problems = [
        *(f"{key!r}: {one}" for one in label_key(key)),
        *(f"{value!r}: {one}" for one in label_value(value)),
    ]
    return problems[0] if problems else ""


def _zone(value: Any) -> str:
    return _text(value) or _pair(ZONE_LABEL, value)


def _taints(value: Any) -> str:
    if _texts(value) or not all(map(_TAINT.fullmatch, value)):
        return "must be a list of key=value:effect"
    pairs = (one.rpartition(":")[0].partition("=") for one in value)
    return next(filter(None, (_pair(key, text) for key, _, text in pairs)), "")


def _price(value: Any) -> str:
    return (
        ""
        if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
        else "must be a number"
    )


_FIELDS: dict[str, Callable[[Any], str]] = {
    "name": _name,
    "count": _count,
    "gpus": _text,
    "drivers": _texts,
    "cpu": _quantity,
    "memory": _quantity,
    "labels": _labels,
    "taints": _taints,
    "zone": _zone,
    "price": _price,
    "removed": _texts,
    "names": _texts,
}


class Pools:
    """The pools of a running cluster.

    Each is a file below the cluster's directory, and a command that changes a pool writes its file.
    """

    def __init__(self, data: Path) -> None:
        self._folder = data / "pools"

    def read(self) -> dict[str, Pool]:
        """Read the pools, by name."""
        found = {}
        for file in sorted(self._folder.glob("*.json")):
            try:
                found[file.stem] = pool(json.loads(file.read_bytes()), str(file))
            except (OSError, ValueError) as error:
                raise UserError(f"{file}: {error}") from error
        return found

    def write(self, pool: Pool) -> None:
        """Add the pool, or change it."""
        from dra_kube.cluster import replace

        self._folder.mkdir(exist_ok=True)
        replace(self._folder / f"{pool.name}.json", pool.text().encode())

    def remove(self, name: str) -> None:
        """Remove the pool."""
        (self._folder / f"{name}.json").unlink(missing_ok=True)

    def start(self, pools: list[Pool]) -> None:
        """Replace all pools of the cluster's previous run by these."""
        for file in self._folder.glob("*.json"):
            file.unlink()
        for one in pools:
            self.write(one)
