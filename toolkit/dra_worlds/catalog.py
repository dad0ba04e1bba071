"""Catalogs: the types of nodes that can be bought, from GPU models or recorded from a real node, with their prices."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dra_kube.yamlfile import read_yaml
from dra_scheduler.plan.purchase.buyer import NodeType
from dra_scheduler.plan.purchase.recorded import RecordedNode
from dra_scheduler.plan.purchase.trials import Typed
from dra_shared.api.resources import DEVICE_CLASSES, NODES, RESOURCE_SLICES
from dra_shared.errors import UserError

from dra_worlds import fleet
from dra_worlds.describe import NodeKind, shape_of
from dra_worlds.reading import from_source, world

_OWN = ("from", "node", "limit")


def catalog(path: Path, gpu_models: tuple[Path, ...] = ()) -> list[NodeType]:
    """Read the types in a catalog's file. A fleet's file is also a catalog.

    Raises:
        UserError: the file cannot be read, or a type cannot be used; the message names it.
    """
    document = read_yaml(path)
    key = next((key for key in ("types", "pools") if isinstance(document, dict) and key in document), "types")
    given = document.get(key) if isinstance(document, dict) else None
    if not isinstance(given, list) or not given:
        raise UserError(f"{path}: a catalog is a list of types, each with a name and a price")
    types = [
        _type(entry, f"{path}: {key}[{number}]", path.parent, gpu_models)
        for number, entry in enumerate(given)
    ]
    names = [each.name for each in types]
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)
        raise UserError(f'{path}: two types are named "{twice}"; give each type a unique name')
    return types


def _type(entry: Any, where: str, folder: Path, gpu_models: tuple[Path, ...]) -> NodeType:
    if not isinstance(entry, dict):
        raise UserError(f"{where}: a type needs a name and a price")
    pool = fleet.pool({key: value for key, value in entry.items() if key not in _OWN}, where)
    if not pool.price:
        raise UserError(f"{where}.price: must be a number above 0")
    limit = entry.get("limit")
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise UserError(f"{where}.limit: must be a number of nodes")
    if "from" in entry:
        node, found = _read_recorded_node(folder / str(entry["from"]), entry.get("node"), where)
        return NodeType(pool.name, pool.price, node.make, limit, found)
    try:
        kind = NodeKind(pool.gpus, gpu_models, shape_of(pool), pool.drivers)
    except UserError as error:
        raise UserError(f"{where}: {error}", 2) from error
    if any(True for _ in kind.shared_slices()):
        raise UserError(
            f"{where}.drivers: a driver has devices that do not belong to a node and cannot be bought"
        )

    def build(name: str) -> Iterator[Typed]:
        yield NODES, kind.node(name)
        yield from ((RESOURCE_SLICES, piece) for piece in kind.slices(name))

    classes: tuple[Typed, ...] = tuple((DEVICE_CLASSES, each) for each in kind.classes)
    return NodeType(pool.name, pool.price, build, limit, classes)


def _read_recorded_node(path: Path, name: Any, where: str) -> tuple[RecordedNode, tuple[Typed, ...]]:
    """Return a node of a dump, and the dump's device classes."""
    problems: list[str] = []
    objects = world(from_source(str(path), problems), problems)
    nodes = objects.of(NODES)
    if name is not None and name not in nodes:
        raise UserError(f'{where}.node: there is no node "{name}" in {path}')
    if name is None and len(nodes) != 1:
        reason = f": {problems[0]}" if problems else ""
        raise UserError(f"{where}.node: {path} has {len(nodes)} nodes: name one{reason}")
    node = nodes[name] if name is not None else next(iter(nodes.values()))
    pieces = objects.of(RESOURCE_SLICES).values()
    slices = [piece for piece in pieces if piece.spec.node_name == node.metadata.name]
    classes = tuple((DEVICE_CLASSES, each) for each in objects.of(DEVICE_CLASSES).values())
    return RecordedNode(node, slices), classes
