"""The DynamicResources plugin; private to the plugin, except for what :mod:`.plugin` offers."""
