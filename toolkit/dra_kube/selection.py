"""Parse the words of ``get`` and the like, such as ``pods,nodes``, ``pod a b``, ``pod/a claim/b`` and ``all``."""

from collections.abc import Sequence
from dataclasses import dataclass

from dra_shared.errors import UserError

from dra_kube.discovery import ACCEPT, PATHS, Discovery, ServedResource, resources
from dra_kube.reader import Reader

# The category of the kinds that `get all` shows.
_ALL = "all"


@dataclass(frozen=True)
class Selected:
    """A resource, and the names of objects. If there are no names, all objects of the resource are selected."""

    resource: ServedResource
    names: tuple[str, ...] = ()


def discover(reader: Reader, words: Sequence[str] = ()) -> Discovery:
    """Read the server's discovery documents; only the core group if it has all the kinds in ``words``."""
    core = Discovery(resources(reader.json(PATHS[0], accept=ACCEPT)))
    named = any("/" in word for word in words)
    kinds = (
        [word.partition("/")[0] for word in words] if named else [k for w in words[:1] for k in w.split(",")]
    )
    if kinds and all(kind != _ALL and core.find(kind) for kind in kinds):
        return core
    return Discovery([*core.resources, *resources(reader.json(PATHS[1], accept=ACCEPT))])


def select(discovery: Discovery, words: Sequence[str]) -> list[Selected]:
    """Return the resources and names that the words select.

    Raises:
        UserError: there is no such kind, or names are mixed with kinds.
    """
    if not words:
        raise UserError("say what: KIND, KIND NAME…, KIND/NAME… or all", 2)
    if any("/" in word for word in words):
        if not all("/" in word for word in words):
            raise UserError(
                "there is no need to specify a resource type as a separate argument when passing "
                "arguments in resource/name form",
                2,
            )
        pairs = [word.split("/") for word in words]
        if any(len(pair) != 2 for pair in pairs):
            raise UserError("arguments in resource/name form may not have more than one slash", 2)
        return [Selected(discovery.resolve(kind), (name,)) for kind, name in pairs]
    kinds, *names = words
    found = [resource for kind in kinds.split(",") for resource in _resources(discovery, kind)]
    if names and len(found) > 1:
        raise UserError("names belong to one kind: give KIND/NAME… for several", 2)
    return [Selected(resource, tuple(names)) for resource in dict.fromkeys(found)]


def _resources(discovery: Discovery, kind: str) -> list[ServedResource]:
    if kind != _ALL:
        return [discovery.resolve(kind)]
    found: dict[tuple[str, str], ServedResource] = {}
    for resource in discovery.resources:
        if _ALL in resource.categories:
            found.setdefault((resource.group, resource.plural), resource)
    return list(found.values())
