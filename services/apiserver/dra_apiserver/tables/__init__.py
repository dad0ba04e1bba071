"""Server-side printing.

``table(kind, version, items, *, metadata, include_object="Metadata", now, headers=True) -> dict``
    A ``meta.k8s.io/v1`` Table with upstream's columns. ``now`` (aware datetime) is what ages count from;
    ``include_object`` is ``Metadata``, ``Object`` or ``None``. A watch passes ``headers=False`` after its
    first event.
``partial_metadata(obj) -> dict``, ``partial_metadata_list(items, metadata) -> dict``
    ``meta.k8s.io/v1`` PartialObjectMetadata and its list.
"""

from dra_apiserver.tables.table import partial_metadata, partial_metadata_list, table

__all__ = ["partial_metadata", "partial_metadata_list", "table"]
