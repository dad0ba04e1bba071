"""Files that describe the behaviour of images, and the choice of the entry for an image."""

import functools
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
from dra_shared.boundedfiles import read_file
from dra_shared.yamltext import YamlError, load

_DATA = Path(__file__).parent / "data"
# The number of images whose entries are remembered.
_MOST_FOUND = 1024
_HUB = ("docker.io/library/", "index.docker.io/library/", "docker.io/", "index.docker.io/")


class ImagesError(Exception):
    """A file with the behaviour of images is not valid; the message names it."""


class ImageBehaviour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The behaviour of a container of an image.

    Args:
        names: shell patterns for the name of the image with its tag, such as ``*/cuda-sample:vectoradd*``; a pattern
            without a tag matches any tag.
        entrypoint: the command, if the pod gives none. args: its arguments, if the pod gives neither command
        nor arguments. programs: shell scripts that simulate programs, by name of the program. files: the
        contents of files by their path. usage: the ``cpu`` and ``memory`` that a container seems to use, as
        quantities.
    """

    names: tuple[str, ...]
    entrypoint: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    programs: dict[str, str] = {}
    files: dict[str, str] = {}
    usage: dict[str, str] = {}

    def matches(self, name: str) -> bool:
        """Return True if the entry is for the image ``name``, in the form that :func:`plain_name` returns."""
        untagged = name if ":" not in name.rpartition("/")[2] else name.rpartition(":")[0]
        return any(
            fnmatchcase(name if ":" in pattern.rpartition("/")[2] else untagged, pattern)
            for pattern in self.names
        )


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file. ``programs`` are scripts by name, which containers of every image have."""

    images: tuple[ImageBehaviour, ...] = ()
    programs: dict[str, str] = {}

    def __post_init__(self) -> None:
        if not (self.images or self.programs):
            raise ValueError("it has neither images nor programs")


class Images:
    """Entries in order: the first that matches an image is its entry.

    ``programs``: the scripts of programs that every image has. ``strict``: containers whose program nothing
    simulates are refused.
    """

    def __init__(
        self,
        entries: Sequence[ImageBehaviour] = (),
        programs: Mapping[str, str] | None = None,
        *,
        strict: bool = False,
    ) -> None:
        self._entries = tuple(entries)
        self.programs = programs or {}
        self.strict = strict
        self._find = functools.lru_cache(_MOST_FOUND)(self._search)

    def find(self, image: str) -> ImageBehaviour | None:
        """Return the entry for an image, by the name in a pod; None if there is none."""
        return self._find(image)

    def _search(self, image: str) -> ImageBehaviour | None:
        name = plain_name(image)
        return next((entry for entry in self._entries if entry.matches(name)), None)


def plain_name(image: str) -> str:
    """Return the name of the image with its tag, without digest and without the optional prefix of Docker Hub."""
    name = image.partition("@")[0]
    prefix = next((prefix for prefix in _HUB if name.startswith(prefix)), "")
    return name.removeprefix(prefix)


def load_images(files: Sequence[Path] = (), *, strict: bool = False) -> Images:
    """Read the entries of these files, followed by those that come with the package.

    Raises:
        ImagesError: a file cannot be read, or is not one.
    """
    found = [*map(_read, files), *_read_packaged()]
    programs = {name: text for file in reversed(found) for name, text in file.programs.items()}
    return Images([entry for file in found for entry in file.images], programs, strict=strict)


@functools.cache
def _read_packaged() -> tuple[_File, ...]:
    return tuple(map(_read, sorted(_DATA.glob("*.yaml"))))


def _read(path: Path) -> _File:
    try:
        return msgspec.convert(load(read_file(path)).value, _File)
    except OSError as error:
        raise ImagesError(f"cannot read images {path}: {error.strerror}") from error
    except (YamlError, msgspec.ValidationError) as error:
        raise ImagesError(f"images {path}: {error}") from error
