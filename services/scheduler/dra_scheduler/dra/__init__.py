"""The scheduler's state of DRA objects: claims, slices, device classes and pod groups.

The DynamicResources plugin, the event handlers, the group cycle and ``explain`` share it, so it belongs to
none of them. It corresponds to upstream's ``SharedDRAManager`` and its parts.
"""
