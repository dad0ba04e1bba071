"""The processing of a written object, from admission to the store.

``store`` has the steps of every write, like upstream's ``registry/generic/registry/store.go``. Steps of a
kind of write are in ``create``, ``update`` and ``delete``, like upstream's BeforeCreate, BeforeUpdate and
BeforeDelete in ``registry/rest``.
"""
