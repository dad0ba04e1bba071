"""The archive: packed revisions that are older than Kubernetes' own window (``--history``).

Each resource has segments of consecutive revisions and, every so often, a keyframe with all its objects. An
earlier state is computed from the last keyframe before it and the segments after that keyframe. etcd has no
archive.
"""
