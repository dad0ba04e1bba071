"""What the fake runtime knows of images: which programs they have, and what those do, as data."""

from dra_node_agent.runtime.images.catalog import ImageBehaviour, Images, ImagesError, load_images

__all__ = ["ImageBehaviour", "Images", "ImagesError", "load_images"]
