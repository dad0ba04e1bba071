"""What the scheduler knows of DRA objects: claims, slices, device classes and pod groups.

The DynamicResources plugin, the event handlers, the group cycle and ``explain`` share it, so it belongs to none of
them. It is upstream's ``SharedDRAManager`` with what that is made of.
"""
