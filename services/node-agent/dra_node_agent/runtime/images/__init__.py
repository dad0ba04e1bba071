"""The fake runtime's knowledge of images, as data: which programs an image has, and what these do."""

from dra_node_agent.runtime.images.catalog import ImageBehaviour, Images, ImagesError, load_images

__all__ = ["ImageBehaviour", "Images", "ImagesError", "load_images"]
