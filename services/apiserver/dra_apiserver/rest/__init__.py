"""What becomes of an object that a request writes, from admission to the store.

``store`` has the one way that every write goes, upstream's ``registry/generic/registry/store.go``. Its steps are in
``create``, ``update`` and ``delete``, as upstream's BeforeCreate, BeforeUpdate and BeforeDelete in ``registry/rest``.
"""
