"""The DynamicResources plugin. Its modules are private, except for :mod:`.plugin`."""
