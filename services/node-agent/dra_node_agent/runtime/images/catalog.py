"""Files with images' behaviour, and which of their entries an image has."""

import functools
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from dra_shared.boundedfiles import read_file
from dra_shared.yamltext import YamlError, load

_DATA = Path(__file__).parent / "data"
_HUB = ("docker.io/library/", "index.docker.io/library/", "docker.io/", "index.docker.io/")


class ImagesError(Exception):
    """A file with images' behaviour cannot be used; the message names it."""


class ImageBehaviour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a container of an image does.

    Args:
        names: shell patterns for the image's name with its tag, such as ``*/cuda-sample:vectoradd*``; one without a
            tag is for any.
        entrypoint: what runs where the pod gives no command.
        args: what it gets where the pod gives neither command nor arguments.
        programs: shell scripts by the name of the program that they stand for.
        files: the contents of files by their path.
        usage: the ``cpu`` and ``memory`` that a container seems to use, as quantities.
    """

    names: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    programs: dict[str, str] = {}
    files: dict[str, str] = {}
    usage: dict[str, str] = {}

    def matches(self, name: str) -> bool:
        """Whether this is for the image called ``name``, as :func:`plain_name` gives it."""
        untagged = name if ":" not in name.rpartition("/")[2] else name.rpartition(":")[0]
        return any(
            fnmatchcase(name if ":" in pattern.rpartition("/")[2] else untagged, pattern)
            for pattern in self.names
        )


class _File(msgspec.Struct, forbid_unknown_fields=True):
    images: tuple[ImageBehaviour, ...]


class Images:
    """Entries in the order in which they count: the first that matches is an image's."""

    def __init__(self, entries: Sequence[ImageBehaviour] = ()) -> None:
        self._entries = tuple(entries)

    def find(self, image: str) -> ImageBehaviour | None:
        """The entry for an image as pods name it; None where nothing is known of it."""
        name = plain_name(image)
        return next((entry for entry in self._entries if entry.matches(name)), None)


def plain_name(image: str) -> str:
    """The image's name with its tag, without digest and without what Docker Hub's names may leave out."""
    name = image.partition("@")[0]
    prefix = next((prefix for prefix in _HUB if name.startswith(prefix)), "")
    return name.removeprefix(prefix)


def load_images(files: Sequence[Path] = ()) -> Images:
    """The entries of these files, and behind them those that come with the package.

    Raises:
        ImagesError: a file cannot be read, or is not one.
    """
    found = [entry for path in files for entry in _read(path)]
    return Images([*found, *_packaged()])


@functools.cache
def _packaged() -> tuple[ImageBehaviour, ...]:
    return tuple(entry for path in sorted(_DATA.glob("*.yaml")) for entry in _read(path))


def _read(path: Path) -> tuple[ImageBehaviour, ...]:
    try:
        return msgspec.convert(load(read_file(path)).value, _File).images
    except OSError as error:
        raise ImagesError(f"cannot read images {path}: {error.strerror}") from error
    except (YamlError, msgspec.ValidationError) as error:
        raise ImagesError(f"images {path}: {error}") from error
