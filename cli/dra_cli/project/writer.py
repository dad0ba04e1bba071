"""Writes a driver's project."""

import re
from dataclasses import dataclass
from pathlib import Path

from dra_shared import names
from dra_shared.errors import UserError

_TEMPLATE = Path(__file__).parent / "template"
_SUFFIX = ".tmpl"
#: Where files go that have another name here, because tools would take them for this repository's own.
_PLACES = {"ci.yml": ".github/workflows/ci.yml", "gitignore": ".gitignore"}
_LONGEST = 63
# The order of imported names depends on what the driver is called.
_IMPORT = re.compile(r"^(from \S+\.inventory import )(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Names:
    """What a new driver is called.

    Args:
        driver: such as ``dongle.example.com``.
        short: such as ``dongle``: of its devices, its package, its manifests.
    """

    driver: str
    short: str

    @classmethod
    def of(cls, driver: str, short: str = "") -> "Names":
        """The names of a driver; without ``short`` the first part of its name.

        Raises:
            UserError: a name cannot be one.
        """
        problems = names.dns_subdomain(driver)
        if len(driver) > _LONGEST:
            problems.append(names.max_length_message(_LONGEST))
        if "." not in driver:
            problems.append("must end with a domain of yours, such as .example.com")
        short = short or driver.partition(".")[0]
        if not re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", short):
            problems.append(f"{short!r} cannot name devices and a package: give another with --short")
        if problems:
            raise UserError(f"driver {driver!r}: {'; '.join(problems)}", 2)
        return cls(driver, short)

    def applied(self, text: str) -> str:
        """A text of the template with these names."""
        word = self.short.replace("-", "_")
        camel = "".join(part.capitalize() for part in self.short.split("-"))
        for old, new in (
            ("dongle.example.com", self.driver),
            ("dongle_driver", f"{word}_driver"),
            ("DONGLE", word.upper()),
            ("Dongle", camel),
            ("dongle", self.short),
        ):
            text = text.replace(old, new)
        return _IMPORT.sub(lambda found: found[1] + ", ".join(sorted(found[2].split(", "))), text)


def write(chosen: Names, folder: Path) -> list[Path]:
    """Write the project; gives its files, relative to ``folder``.

    Raises:
        UserError: there is something already, or files cannot be written.
    """
    written = []
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"{folder} is there already: choose another folder with --output")
        for source in sorted(_TEMPLATE.rglob(f"*{_SUFFIX}")):
            relative = str(source.relative_to(_TEMPLATE)).removesuffix(_SUFFIX)
            target = Path(chosen.applied(_PLACES.get(relative, relative)))
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            (folder / target).write_text(chosen.applied(source.read_text()))
            written.append(target)
    except OSError as error:
        raise UserError(f"cannot write {error.filename}: {error.strerror}") from error
    return sorted(written)
