"""Write a driver's project."""

import re
from dataclasses import dataclass
from pathlib import Path

from dra_shared import names
from dra_shared.errors import UserError

_TEMPLATE = Path(__file__).parent / "template"
_SUFFIX = ".tmpl"
#: The targets of files that are named differently here, because tools would use them for this repository.
_PLACES = {"ci.yml": ".github/workflows/ci.yml", "gitignore": ".gitignore"}
_LONGEST = 63
# Imported names are sorted again, because their order depends on the driver's name.
_IMPORT = re.compile(r"^(from \S+\.inventory import )(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Names:
    """The names of a new driver.

    Args:
        driver: such as ``dongle.example.com``.
        short: such as ``dongle``: the name of its devices, its package and its manifests.
    """

    driver: str
    short: str

    @classmethod
    def of(cls, driver: str, short: str = "") -> "Names":
        """Return the names of a driver. The default of ``short`` is the first part of the driver's name.

        Raises:
            UserError: a name is invalid.
        """
        problems = names.dns_subdomain(driver)
        if len(driver) > _LONGEST:
            problems.append(names.max_length_message(_LONGEST))
        if "." not in driver:
            problems.append("must end with your domain, such as .example.com")
        short = short or driver.partition(".")[0]
        if not re.fullmatch(r"[a-z]([a-z0-9-]*[a-z0-9])?", short):
            problems.append(f"{short!r} cannot name devices and a package: give another with --short")
        if problems:
            raise UserError(f"driver {driver!r}: {'; '.join(problems)}", 2)
        return cls(driver, short)

    def replace_in(self, text: str) -> str:
        """Replace the template's names in a text."""
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
    """Write the project, and return its files relative to ``folder``.

    Raises:
        UserError: the folder is not empty, or files cannot be written.
    """
    written = []
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UserError(f"{folder} exists already: choose another folder with --output")
        for source in sorted(_TEMPLATE.rglob(f"*{_SUFFIX}")):
            relative = str(source.relative_to(_TEMPLATE)).removesuffix(_SUFFIX)
            target = Path(chosen.replace_in(_PLACES.get(relative, relative)))
            (folder / target).parent.mkdir(parents=True, exist_ok=True)
            (folder / target).write_text(chosen.replace_in(source.read_text()))
            written.append(target)
    except OSError as error:
        raise UserError(f"cannot write {error.filename}: {error.strerror}") from error
    return sorted(written)
