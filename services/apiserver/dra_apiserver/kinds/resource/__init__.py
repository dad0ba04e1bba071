"""resource.k8s.io: claims, templates, slices, device classes, taint rules.

Start with ``kinds``, which has the records.
"""
