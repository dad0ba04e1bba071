"""What requests' bodies mean: decoding, field validation, types, pruning and defaults, all from schema data.

``decode(registry, kind, version, body, media_type, field_validation) -> Decoded``
    A create or update body (JSON or YAML bytes) as an object. ``Decoded.obj`` is pruned and type-checked, in
    ``Decoded.version`` (the body's own apiVersion, which may be another served version than the endpoint's);
    ``Decoded.warnings`` are texts for Warning headers. Raises :class:`DecodeError` with code, reason and
    message.
``sanitize(kind, version, obj, field_validation) -> list[str]``
    The same checks for an object that is decoded already (what a patch made); prunes in place, returns
    warnings.
``default(kind, version, obj) -> None``
    Sets upstream's defaults in place and brings the object to the form that Kubernetes encodes.
"""

from dra_apiserver.schema.errors import DecodeError

__all__ = ["DecodeError"]
