"""dralab as a library: a Kubernetes DRA control plane in a box, for tests and programs.

``dralab.testing`` starts clusters, in this process or as processes of their own.
"""

from dra_shared import __version__

__all__ = ["__version__"]
