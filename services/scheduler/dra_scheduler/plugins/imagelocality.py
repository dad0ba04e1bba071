"""ImageLocality: prefers nodes that have the pod's images.

Mirrors upstream's ``pkg/scheduler/framework/plugins/imagelocality``.
"""

from collections.abc import Hashable

from dra_shared.api.pod import Pod

from dra_scheduler.framework.cache import Cache
from dra_scheduler.framework.nodeinfo import NodeInfo
from dra_scheduler.framework.plugin import MAX_NODE_SCORE
from dra_scheduler.framework.state import CycleState

_MIB = 1024 * 1024
# A smaller total counts as nothing. A larger size per container counts as the maximum.
_LEAST = 23 * _MIB
_MOST = 1000 * _MIB


class ImageLocality:
    """Scores by the size of the images that the node has, and by the number of nodes that have them."""

    name = "ImageLocality"

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def sign(self, pod: Pod) -> Hashable:
        return frozenset(_images(pod)) if self._cache.images else ()

    def skips_score(self, state: CycleState, pod: Pod) -> bool:
        return not self._cache.images

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        assert node.node is not None
        sizes = {name: image.size_bytes or 0 for image in node.node.status.images for name in image.names}
        total = len(self._cache.nodes())
        found = sum(
            int(sizes[name] * (self._cache.images[name] / total)) for name in _images(pod) if name in sizes
        )
        most = _MOST * (len(pod.spec.init_containers) + len(pod.spec.containers))
        return MAX_NODE_SCORE * (min(max(found, _LEAST), most) - _LEAST) // (most - _LEAST)


def _images(pod: Pod) -> list[str]:
    images = [_with_tag(c.image) for c in (*pod.spec.init_containers, *pod.spec.containers)]
    return images + [_with_tag(v.image.reference) for v in pod.spec.volumes if v.image is not None]


def _with_tag(name: str) -> str:
    """Return the name as nodes report it: with a tag or digest."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
