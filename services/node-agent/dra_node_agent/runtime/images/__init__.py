"""Data about images for the fake runtime: the programs of an image, and their behaviour."""

from dra_node_agent.runtime.images.catalog import ImageBehaviour, Images, ImagesError, load_images

__all__ = ["ImageBehaviour", "Images", "ImagesError", "load_images"]
