"""Which Kubernetes last wrote a data directory: a newer one upgrades it, and an older one is refused.

Newer versions can read what older ones stored, but for kinds whose objects upstream cannot read either. An older one
would drop fields with its next write, or not know the kind. Upstream leaves that to the administrator (the version skew
policy); here the directory remembers it.
"""

from pathlib import Path

from dra_shared.service import CannotRun
from dra_shared.version import V1_36, Version, release

from dra_apiserver.storage.store import Store

_FILE = "kubernetes-version"
# What directories are of that say nothing: there was no other choice.
_FIRST = V1_36


def check(directory: Path, kubernetes: Version) -> None:
    """See that the directory can be used as one of ``kubernetes``.

    Raises:
        CannotRun: a newer Kubernetes has written it.
    """
    if not directory.is_dir() or not any(directory.iterdir()):
        return
    file = directory / _FILE
    text = file.read_text().strip() if file.exists() else str(_FIRST)
    written = _parsed(text)
    if written is None or written > kubernetes:
        raise CannotRun(
            f"the data in {directory} is of Kubernetes {text}, and {kubernetes} is older: start it with "
            f"--kubernetes-version {text} or a newer one, or with another --data"
        )


def check_objects(store: Store, directory: Path, kubernetes: Version) -> None:
    """See that ``kubernetes`` can read what is stored of kinds that only the version which wrote them can read.

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
    """Note that ``kubernetes`` writes the directory from now on."""
    # A database elsewhere has made no directory.
    directory.mkdir(parents=True, exist_ok=True)
    (directory / _FILE).write_text(f"{kubernetes}\n")


def _parsed(text: str) -> Version | None:
    """The version; None for one that this program does not know."""
    try:
        return Version.parse(text)
    except ValueError:
        return None
