"""Files of changes to a world. Each change applies to the world after the previous ones."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dra_kube.yamlfile import read_yaml
from dra_scheduler.plan.manifests import Manifests
from dra_scheduler.plan.objects import Objects
from dra_scheduler.plan.planner import without_nodes
from dra_shared.errors import UserError
from dra_shared.jsontext import dumps

from dra_worlds.describe import describe_world
from dra_worlds.documents import Document
from dra_worlds.reading import from_source, manifests
from dra_worlds.working import Settings

_FIELDS = ("name", "nodes", "remove", "objects", "featureGates", "kubernetesVersion", "config")


@dataclass(frozen=True)
class Changed:
    """A world after a change, with the options of its scheduler.

    ``left_out`` names the objects of the change that are workloads of unknown kinds and have no effect.
    """

    name: str
    objects: Objects
    settings: Settings
    left_out: tuple[str, ...] = ()


def apply_changes(path: Path, start: Changed) -> Iterator[Changed]:
    """Yield the worlds after each change of the file.

    Raises:
        UserError: the file cannot be read, or a change is malformed.
    """
    document = read_yaml(path)
    given = document.get("changes") if isinstance(document, dict) else None
    if not isinstance(given, list) or not given:
        raise UserError(f"{path}: changes are a list, each with {', '.join(_FIELDS)}")
    now = start
    for number, change in enumerate(given):
        now = apply_change(change, now, f"{path}: changes[{number}]", path.parent)
        yield now


def apply_change(change: Any, before: Changed, where: str, folder: Path) -> Changed:
    """Return the world after one change. Its files are relative to the folder.

    Raises:
        UserError: the change is malformed.
    """
    if not isinstance(change, dict) or not isinstance(change.get("name"), str):
        raise UserError(f"{where}: a change needs a name")
    for name in change:
        if name not in _FIELDS:
            raise UserError(f"{where}.{name}: unknown: choose {', '.join(_FIELDS)}")
    objects = _without(before.objects, change.get("remove") or (), where)
    nodes = change.get("nodes")
    if nodes is not None:
        if not isinstance(nodes, dict) or not isinstance(nodes.get("count"), int) or "gpus" not in nodes:
            raise UserError(f"{where}.nodes: must have count and gpus")
        prefix = str(nodes.get("prefix") or f"{change['name'].replace(' ', '-')}-")
        more = describe_world(nodes["count"], str(nodes["gpus"]), prefix=prefix)
        objects = objects.with_objects((r, obj) for r, each in more for obj in each.values())
    found = _manifests(change.get("objects") or (), where, folder, objects)
    objects = objects.with_objects(found.objects)
    config = change.get("config")
    try:
        settings = before.settings.changed_to(str(change.get("kubernetesVersion", "")))
    except ValueError as error:
        raise UserError(f"{where}.kubernetesVersion: {error}", 2) from error
    settings = replace(
        settings,
        gates=str(change.get("featureGates", before.settings.gates)),
        config=folder / str(config) if config is not None else before.settings.config,
    )
    return Changed(change["name"], objects, settings, tuple(found.left_out))


def _without(objects: Objects, names: Iterable[Any], where: str) -> Objects:
    try:
        return without_nodes(objects, map(str, names))
    except ValueError as error:
        raise UserError(f"{where}.remove: {error}") from error


def _manifests(given: Any, where: str, folder: Path, objects: Objects) -> Manifests:
    """Return the objects of files, or those in the file of changes itself."""
    problems: list[str] = []
    documents: list[Document] = []
    for each in given if isinstance(given, list | tuple) else [given]:
        if isinstance(each, str):
            documents += from_source(str(folder / each), problems)
        elif isinstance(each, dict):
            kind, version = str(each.get("kind")), str(each.get("apiVersion"))
            documents.append(Document(version, kind, dumps(each), False, where))
        else:
            raise UserError(f"{where}.objects: must be files or objects")
    found = manifests(documents, problems, objects, again=False)
    if problems:
        raise UserError(problems[0])
    return found
