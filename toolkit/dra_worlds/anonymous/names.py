"""New names. A text has the same new name everywhere, and new names sort like the old ones."""

import re
from collections.abc import Callable

# Nouns that give way to others: a text that is an object's name and also occurs elsewhere gets the noun of the
# object's kind.
_LESS = frozenset({"", "id", "kind", "label", "text", "uid", "value"})
_FORMATS: dict[str, Callable[[int, int], str]] = {
    "address": lambda number, width: f"198.18.{number // 250}.{number % 250 + 1}",
    "attribute": lambda number, width: f"derived/attribute{number:0{width}}",
    "group": lambda number, width: f"group-{number:0{width}}.example.com",
    "image": lambda number, width: f"image-{number:0{width}}:latest",
    "kind": lambda number, width: f"Kind{number:0{width}}",
    "resource": lambda number, width: f"example.com/resource-{number:0{width}}",
    "uid": lambda number, width: f"00000000-0000-4000-8000-{number:012x}",
}
_NOUN = re.compile(r"[^a-z]+")


class Names:
    """Texts and their new names. All texts are collected first. The new names exist after `choose` was called."""

    def __init__(self) -> None:
        self._nouns: dict[str, str] = {}
        self._new: dict[str, str] = {}

    def note(self, text: str, noun: str) -> None:
        """Add a text that needs a new name. The new name begins with ``noun``."""
        noun = _NOUN.sub("", noun.lower()) or "text"
        known = self._nouns.setdefault(text, noun)
        if known in _LESS and noun not in _LESS:
            self._nouns[text] = noun

    def choose(self) -> None:
        """Choose the new names.

        Names with the same noun sort like their texts, because decisions depend on the order.
        """
        texts: dict[str, list[str]] = {}
        for text, noun in self._nouns.items():
            texts.setdefault(noun, []).append(text)
        for noun, each in texts.items():
            width = len(str(len(each)))
            form = _FORMATS.get(noun)
            for number, text in enumerate(sorted(each), 1):
                self._new[text] = form(number, width) if form else f"{noun}-{number:0{width}}"

    def get(self, text: str, noun: str) -> str:
        """Return the new name of a text. A text that was not collected gets a placeholder, so that it cannot leak."""
        return self._new.get(text, f"{noun}-0" if self._new else text)
