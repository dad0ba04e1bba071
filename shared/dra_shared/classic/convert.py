"""Convert objects of every older form of DRA to the current one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dra_shared.classic.claims import resource_claim, resource_claim_template
from dra_shared.classic.classes import resource_class, vendor_class
from dra_shared.classic.drivers import is_vendor_group
from dra_shared.classic.extended import ExtendedResources
from dra_shared.classic.fields import subject_of
from dra_shared.classic.kinds import (
    explain_removal,
    is_custom,
    is_gone,
    is_parameters,
    is_structured,
    is_unknown_parameters,
)
from dra_shared.classic.namedresources import resource_slice
from dra_shared.classic.notes import Note, Notes
from dra_shared.classic.parameters import IN_TREE_GROUP
from dra_shared.classic.podgroups import has_workload, is_older, pod_group, with_group
from dra_shared.classic.pods import has_source, without_source
from dra_shared.classic.structured import convert_structured
from dra_shared.classic.world import World, find_among, find_generated_among, group_of
from dra_shared.jsontypes import JsonObject


@dataclass(frozen=True, slots=True)
class Conversion:
    """The converted objects, and the result for each field of the old ones."""

    objects: Sequence[JsonObject]
    notes: Sequence[Note]


def convert(objects: Sequence[JsonObject], extended: Mapping[str, str] | None = None) -> Conversion:
    """Convert the objects of some manifests. Current objects are returned unchanged.

    ``extended`` also converts extended resources of device plugins to claims. The mapping gives the class of
    a resource; other resources get their known class. None leaves extended resources unchanged.
    """
    world = World(find_among(objects), find_generated_among(objects))
    resources = None if extended is None else ExtendedResources(extended)
    made: list[JsonObject] = []
    notes: list[Note] = []
    for obj in objects:
        own = Notes(subject_of(obj))
        for one in convert_object(obj, world, own):
            results = resources.convert(one, own) if resources is not None else [one]
            # Manifests of one cluster often repeat its classes.
            made += [result for result in results if result not in made]
        notes += own.entries
    for obj in objects:
        if is_unknown_parameters(obj) and not world.has_read(obj):
            world.read(obj)
    made = [one for one in made if not (world.has_read(one) and is_custom(group_of(one)))]
    for read in world.notes.values():
        notes += read.entries
    return Conversion(made, notes)


def convert_object(obj: JsonObject, world: World, notes: Notes) -> Sequence[JsonObject]:
    """Convert one object. The objects that it refers to are looked up in ``world``."""
    group, kind = group_of(obj), str(obj.get("kind"))
    if is_gone(group, kind):
        notes.note_lost("", explain_removal(kind))
        return []
    if is_parameters(group, kind):
        world.read(obj)
        return []
    if is_unknown_parameters(obj):
        # They are read with the claim or class that refers to them, because that knows the driver.
        return []
    if is_older(obj):
        return [pod_group(obj, notes)]
    if group == IN_TREE_GROUP:
        return _resource(obj, world, notes)
    if is_vendor_group(group) and kind == "DeviceClass":
        return vendor_class(obj, world, notes)
    if has_source(obj):
        obj = without_source(obj, notes)
    return with_group(obj, world, notes) if has_workload(obj) else [obj]


def _resource(obj: JsonObject, world: World, notes: Notes) -> Sequence[JsonObject]:
    kind = obj["kind"]
    if obj["apiVersion"] == "resource.k8s.io/v1" and is_structured(obj):
        return [obj]
    if is_structured(obj):
        return convert_structured(obj, notes)
    if kind == "ResourceClass":
        return resource_class(obj, world, notes)
    if kind == "ResourceClaim":
        return resource_claim(obj, world, notes)
    if kind == "ResourceClaimTemplate":
        return resource_claim_template(obj, world, notes)
    if kind == "ResourceSlice":
        return resource_slice(obj, notes)
    return [obj]
