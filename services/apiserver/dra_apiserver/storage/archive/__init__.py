"""Revisions that are older than Kubernetes' own window, packed: ``--history``.

Each resource has segments of consecutive revisions and, every so often, a keyframe with all its objects. A moment is
the keyframe before it with the segments up to it. etcd has no such thing.
"""
