"""PATCH bodies, and who owns which field.

``patch_object(kind, version, obj, body, media_type) -> dict``
    ``obj`` (left as it is) after a JSON patch, merge patch or strategic merge patch, chosen by
    ``media_type``. Raises :class:`PatchError` with code, reason, message. The result still has to go through
    ``schema.sanitize`` and ``default``.
``server_side_apply(kind, version, live, applied, *, manager, force, subresource, now) -> dict``
    ``live`` (None to create) after an apply; its managedFields are up to date. Raises :class:`ApplyConflict`
    (409 Conflict with its ``causes``) where another manager owns a field and ``force`` is false.
``track_update(kind, version, old, new, *, manager, subresource, now) -> None``
    Writes ``new``'s managedFields after a create, update or patch by ``manager``; ``old`` is None on create.
``decode_apply(body) -> dict``
    An apply body: YAML or JSON.

``now`` is the RFC 3339 time that new managedFields entries carry.
"""

from dra_apiserver.patch.errors import ApplyConflict, PatchError

__all__ = ["ApplyConflict", "PatchError"]
