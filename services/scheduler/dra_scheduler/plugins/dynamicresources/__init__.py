"""The DynamicResources plugin: claims and the devices allocated for them."""
