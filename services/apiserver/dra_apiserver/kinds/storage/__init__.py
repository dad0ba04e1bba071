"""Volumes and their claims, and storage.k8s.io: classes, attachments, CSI. ``kinds`` has the records."""
