"""Select the served API versions: ``--runtime-config``."""

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field

_CLASSIC = "resource.k8s.io/classic"
_STAGE = re.compile(r"^v[1-9][0-9]*(?:(alpha|beta)[0-9]+)?$")
_STAGES = {
    "api/all": ("ga", "beta", "alpha"),
    "api/ga": ("ga",),
    "api/beta": ("beta",),
    "api/alpha": ("alpha",),
}


class RuntimeConfigError(ValueError):
    """``--runtime-config`` has a malformed or unknown entry."""


def stage(version: str) -> str:
    """Return ``ga``, ``beta`` or ``alpha``."""
    match = _STAGE.match(version)
    return (match.group(1) or "ga") if match else "ga"


@dataclass(frozen=True)
class RuntimeConfig:
    """Decides for each group, version and resource whether it is served.

    The default is upstream's: every stable version, and no beta and alpha ones. The most specific entry
    applies: ``group/version/resource``, then ``group/version``, then ``api/ga|beta|alpha``, then ``api/all``.
    """

    entries: Mapping[str, bool] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> "RuntimeConfig":
        """Parse the flag's value ``key=true,key=false,key`` (a key alone means true).

        Raises:
            RuntimeConfigError: an entry is malformed.
        """
        entries: dict[str, bool] = {}
        for part in filter(None, (item.strip() for item in text.split(","))):
            key, equals, value = part.partition("=")
            if value.lower() not in ("true", "false", "1", "0", "t", "f") and equals:
                raise RuntimeConfigError(
                    f"invalid value of {key} in --runtime-config: {value!r}, want true or false"
                )
            if key.startswith("api/") and key not in _STAGES:
                raise RuntimeConfigError(f"unknown API group {key!r} in --runtime-config")
            if key not in _STAGES and key.count("/") not in (1, 2):
                raise RuntimeConfigError(f"runtime-config invalid key {key}")
            entries[key] = not equals or value.lower() in ("true", "1", "t")
        return cls(entries)

    def check(self, groups: Container[str]) -> None:
        """Check that all entries are about ``groups``.

        Raises:
            RuntimeConfigError: one is not. The message is kube-apiserver's.
        """
        named = {tuple(key.split("/")[:2]) for key in self.entries if key not in _STAGES}
        if unknown := sorted(f"{group}/{version}" for group, version in named if group not in groups):
            raise RuntimeConfigError(f"unknown api groups {','.join(unknown)}")

    @property
    def classic(self) -> bool:
        """True if the kinds of DRA before structured parameters are served. No other entry enables them."""
        return self.entries.get(_CLASSIC, False)

    @classmethod
    def everything(cls) -> "RuntimeConfig":
        """Return a configuration that serves every version."""
        return cls({"api/all": True})

    def serves(self, group: str, version: str, plural: str) -> bool:
        """True if ``plural`` is served in this version."""
        group_version = f"{group}/{version}" if group else version
        for key in (f"{group_version}/{plural}", group_version, f"api/{stage(version)}", "api/all"):
            if key in self.entries:
                return self.entries[key]
        return stage(version) == "ga"
