"""resource.k8s.io: claims, templates, slices, device classes, taint rules. ``kinds`` has the records: start there."""
