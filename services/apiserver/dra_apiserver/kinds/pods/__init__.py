"""Pods, pod templates and subresources of pods. ``kinds`` has the records, ``spec`` checks a pod's spec."""
