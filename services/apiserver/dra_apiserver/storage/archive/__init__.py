"""The archive: packed revisions that are older than Kubernetes' own window (``--history``).

Each resource has segments of consecutive revisions and, every so often, a keyframe with all its objects. A
past state is computed from the keyframe before it and the segments up to it. etcd has no archive.
"""
