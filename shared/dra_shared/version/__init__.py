"""Which Kubernetes is followed: the versions there are, and what each of them has.

``--kubernetes-version`` chooses a :class:`Version`; :func:`release` tells what holds in it. A version is one page of
data in ``pages/``, which says what it has that the version before had not, and what it lost. Behaviour that changed
between versions is asked for where it stands: ``if version >= V1_35``.
"""

from dra_shared.version.release import Gate, Release, release
from dra_shared.version.version import DEFAULT, RECORDED, V1_34, V1_35, V1_36, V1_37, VERSIONS, Version

__all__ = [
    "DEFAULT",
    "RECORDED",
    "V1_34",
    "V1_35",
    "V1_36",
    "V1_37",
    "VERSIONS",
    "Gate",
    "Release",
    "Version",
    "release",
]
