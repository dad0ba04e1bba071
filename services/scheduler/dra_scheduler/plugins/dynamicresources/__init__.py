"""The DynamicResources plugin. Other packages only import :mod:`.plugin`."""
