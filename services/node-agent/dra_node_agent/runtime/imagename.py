"""Names of images, with the rules of containerd (github.com/distribution/reference)."""

import hashlib
import re

from dra_node_agent.runtime.base import RuntimeFailure

_IMAGE = re.compile(
    r"(?:[A-Za-z0-9][A-Za-z0-9.-]*(?::\d+)?/)?[a-z0-9._/-]+(?::[\w][\w.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)


def image_id(image: str) -> str:
    """Return the id of a simulated image: its repository, and a digest that follows from the whole name.

    Raises:
        RuntimeFailure: no image can have this name.
    """
    if _IMAGE.fullmatch(image) is None:
        raise RuntimeFailure(
            "InvalidImageName",
            f'Failed to apply default image tag "{image}": couldn\'t parse image name "{image}":'
            f" invalid reference format{_lower_case_hint(image)}",
        )
    digest = hashlib.sha256(image.encode()).hexdigest()
    name = image.partition("@")[0]
    if ":" in name.rpartition("/")[2]:
        name = name.rpartition(":")[0]
    if "/" not in name:
        name = f"docker.io/library/{name}"
    return f"{name}@sha256:{digest}"


def _lower_case_hint(image: str) -> str:
    if image == image.lower():
        return ""
    name = image if "/" in image else f"library/{image}"
    return f": repository name ({name}) must be lowercase"
