"""The version of Kubernetes that last wrote a data directory: a newer one upgrades it, and an older one is refused.

Newer versions can read the objects of older ones, except for kinds whose objects upstream cannot read either.
An older one would drop fields with its next write, or not know the kind. Upstream leaves this to the
administrator (the version skew policy). Here the version is stored in the directory.
"""

import re
from pathlib import Path

from dra_shared.service import CannotRun
from dra_shared.version import V1_36, Version, release

from dra_apiserver.storage.store import Store

_FILE = "kubernetes-version"
# The version of directories without a version: at that time there was only this one.
_FIRST = V1_36
_VERSION = re.compile(r"v?\d{1,9}\.\d{1,9}(\.\d{1,9})?")
_MOST = 100


def check(directory: Path, kubernetes: Version, database: Path | None = None) -> None:
    """Check that ``kubernetes`` can use the directory.

    ``database`` is the file in it that has the objects, or None if they are elsewhere.

    Raises:
        CannotRun: a newer Kubernetes has written it, or its database or the file with its version is damaged.
    """
    if not directory.is_dir() or not any(directory.iterdir()):
        return
    file = directory / _FILE
    text = _text(file) if file.exists() else str(_FIRST)
    if not _VERSION.fullmatch(text):
        raise CannotRun(
            f"{file} {'names no version' if text else 'is empty'}: write the version of Kubernetes to it that the "
            f"data is of, such as {kubernetes}, or start with another --data"
        )
    # The file is written after the database, so that a new database has none.
    if database is not None and file.exists() and _is_empty(database):
        raise CannotRun(
            f"{database} is {'empty' if database.exists() else 'missing'}, and {file} says that it had the objects "
            f"of a cluster: bring it back, or remove {file} to begin with an empty cluster"
        )
    written = _parse(text)
    if written is None or written > kubernetes:
        raise CannotRun(
            f"the data in {directory} is of Kubernetes {text}, and {kubernetes} is older: start it with "
            f"--kubernetes-version {text} or a newer one, or with another --data"
        )


def check_objects(store: Store, directory: Path, kubernetes: Version) -> None:
    """Check that ``kubernetes`` can read the stored objects of kinds that only their own version can read.

    Raises:
        CannotRun: there are objects that it cannot read.
    """
    found = release(kubernetes)
    for name in sorted(found.apart):
        group, _, plural = name.partition("/")
        wanted = f"{group}/{found.storage[name]}"
        records = store.collection((group, plural)).records.values()
        stored = ((record.key, record.object().get("apiVersion")) for record in records)
        unread = [(key.strip("/"), version) for key, version in stored if version != wanted]
        if unread:
            key, version = unread[0]
            others = f" and {len(unread) - 1} more" if len(unread) > 1 else ""
            raise CannotRun(
                f"Kubernetes {kubernetes} cannot read {plural} of {version} in {directory} ({key}{others}): delete "
                "them with the version that the data is of"
            )


def note(directory: Path, kubernetes: Version) -> None:
    """Record that ``kubernetes`` writes the directory from now on."""
    # The directory does not exist yet if the database is elsewhere.
    directory.mkdir(parents=True, exist_ok=True)
    file, part = directory / _FILE, directory / f"{_FILE}.part"
    # The file is replaced as a whole: a crash or a full disk must not leave an empty file.
    part.write_text(f"{kubernetes}\n")
    part.replace(file)


def _text(file: Path) -> str:
    try:
        return file.read_bytes()[:_MOST].decode(errors="replace").strip()
    except OSError as error:
        raise CannotRun(f"cannot read {file}: {error.strerror}") from error


def _is_empty(database: Path) -> bool:
    """Return whether a file is missing or empty. If it cannot be read, opening it later gives the reason."""
    try:
        return database.stat().st_size == 0
    except FileNotFoundError:
        return True
    except OSError:
        return False


def _parse(text: str) -> Version | None:
    """Return the version, or None if this program does not know it."""
    try:
        return Version.parse(text)
    except ValueError:
        return None
