"""Advice for objects of an older shape: another apiVersion alone does not help, `dralab convert` does."""

from dra_shared import classic
from dra_shared.classic.kinds import successor
from dra_shared.classic.notes import Outcome
from dra_shared.jsontypes import JsonObject


def converted(obj: JsonObject) -> str:
    """Return the apiVersion that the object is converted to; empty if a new apiVersion is all that changes."""
    for made in classic.convert([obj]).objects:
        if made["kind"] == obj["kind"]:
            return "" if _content(made) == _content(obj) else str(made["apiVersion"])
    return ""


def command(where: str) -> str:
    """Return the command line that converts the manifest at ``where``."""
    file = where.rpartition(":")[0]
    return f"`dralab convert {'-' if file == 'standard input' else file or 'FILE'}`"


def _content(obj: JsonObject) -> JsonObject:
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "metadata", "status")}


def replaced(obj: JsonObject, where: str) -> str:
    """Say what replaced a kind that no Kubernetes of today has; empty for kinds of others."""
    if not str(obj["apiVersion"]).startswith("resource.k8s.io/"):
        return ""
    became = successor(obj)
    return f"{became}: use {command(where)}" if became else ""


def moves(obj: JsonObject, path: str) -> bool:
    """True if `dralab convert` moves the field, or what is in it, to another place."""
    notes = classic.convert([obj]).notes
    return any(note.outcome is Outcome.MOVED and _is_within(note.path, path) for note in notes)


def _is_within(path: str, outer: str) -> bool:
    return path == outer or path.startswith((f"{outer}.", f"{outer}["))
