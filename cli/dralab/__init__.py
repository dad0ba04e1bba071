"""dralab as a library: a Kubernetes DRA control plane in a box, for tests and programs.

``dralab.testing`` starts clusters, in this process or as processes of their own. ``dralab.driver`` is a kit for DRA
drivers. ``World`` holds a cluster's objects as a value, and predicts what the scheduler would do with them.
"""

from typing import TYPE_CHECKING, Any

from dra_shared import __version__

if TYPE_CHECKING:
    from dra_worlds.world import World

__all__ = ["World", "__version__"]


def __getattr__(name: str) -> Any:
    # Imported on demand, because it imports the scheduler, which programs that only start clusters do not need.
    if name == "World":
        from dra_worlds.world import World

        return World
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
