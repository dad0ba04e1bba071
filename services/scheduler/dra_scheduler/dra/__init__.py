"""The scheduler's state of DRA objects: claims, slices, device classes and pod groups.

The DynamicResources plugin, the event handlers, the group cycle and ``explain`` share it, so it is a package by
itself. It corresponds to upstream's ``SharedDRAManager`` and its parts.
"""
