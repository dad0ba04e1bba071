"""The versions of Kubernetes that dralab can follow, and the features of each.

``--kubernetes-version`` selects a :class:`Version`; :func:`release` returns its data. A version is one page
of data in ``pages/`` that lists what it added and removed. Code that depends on the version compares it in
place: ``if version >= V1_35``.
"""

from dra_shared.version.release import Gate, Release, release
from dra_shared.version.version import (
    DEFAULT,
    PREVIEWS,
    RECORDED,
    V1_34,
    V1_35,
    V1_36,
    V1_37,
    V1_38,
    VERSIONS,
    Version,
    describe_versions,
)

__all__ = [
    "DEFAULT",
    "PREVIEWS",
    "RECORDED",
    "V1_34",
    "V1_35",
    "V1_36",
    "V1_37",
    "V1_38",
    "VERSIONS",
    "Gate",
    "Release",
    "Version",
    "describe_versions",
    "release",
]
