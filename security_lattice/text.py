"""Reading label texts: names, limits, and a token reader whose every error has an offset."""

import re
from collections.abc import Container

from security_lattice.errors import LabelSyntaxError

MOST_CHARACTERS = 4096  # of a label text; a stamp must fit the slack that level logs leave for headers
MOST_NAME_CHARACTERS = 64  # names become parts of topic names, which Kafka ends at 249
RESERVED = frozenset({"and", "or"})

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
# ASCII only: a look-alike letter from another alphabet must never pass for the real one.
_TOKEN = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_-]*)|(?P<number>[0-9]+)|(?P<mark>[:,/()])")


def is_name(text: str) -> bool:
    """Whether `text` can name a level, compartment, role or source."""
    return len(text) <= MOST_NAME_CHARACTERS and text not in RESERVED and _NAME.fullmatch(text) is not None


class Reader:
    """One pass over a text from left to right; `kind`, `value`, `offset` describe the next token."""

    kind: str  # "name", "word" (reserved), "number", "mark", "end", or "bad" with the error kept in `value`
    value: str
    offset: int

    def __init__(self, text: str, most: int = MOST_CHARACTERS) -> None:
        if len(text) > most:
            raise LabelSyntaxError(f"longer than {most:,} characters", most)
        self._text = text
        self._next = 0
        self._advance()

    def _advance(self) -> None:
        while self._next < len(self._text) and self._text[self._next] == " ":
            self._next += 1
        self.offset = self._next
        if self.offset == len(self._text):
            self.kind, self.value = "end", ""
            return
        # A bad token is an error only once it is looked at: what stands before it is judged first.
        match = _TOKEN.match(self._text, self.offset)
        if match is None:
            # The character is given by number: it may be invisible, or turn the terminal's text around.
            self.kind, self.value = "bad", f"unexpected character U+{ord(self._text[self.offset]):04X}"
            return
        self.kind, self.value, self._next = str(match.lastgroup), match.group(), match.end()
        if len(self.value) > MOST_NAME_CHARACTERS:
            self.kind, self.value = "bad", f"a name or number of more than {MOST_NAME_CHARACTERS} characters"
        if self.value in RESERVED:
            self.kind = "word"

    def take(self, value: str) -> bool:
        """Step over the word or mark `value` if it is next."""
        if self.kind not in ("word", "mark") or self.value != value:
            return False
        self._advance()
        return True

    def name(self, what: str, known: Container[str]) -> str:
        """Step over a name out of `known`; `what` says in errors what was wanted."""
        if self.kind != "name":
            raise self.unexpected(f"a {what}")
        name, offset = self.value, self.offset
        if name not in known:
            raise LabelSyntaxError(f"unknown {what} `{name}`", offset)
        self._advance()
        return name

    def number(self, least: int, most: int) -> int:
        """Step over a number from `least` to `most`, without leading zeros."""
        if self.kind != "number":
            raise self.unexpected("a number")
        if self.value[0] == "0" or not least <= int(self.value) <= most:
            raise LabelSyntaxError(f"expected a number from {least} to {most}", self.offset)
        number = int(self.value)
        self._advance()
        return number

    def end(self) -> None:
        """Refuse anything that is left."""
        if self.kind != "end":
            raise self.unexpected("the end")

    def unexpected(self, wanted: str) -> LabelSyntaxError:
        """The error for finding something other than `wanted` here."""
        if self.kind == "bad":
            return LabelSyntaxError(self.value, self.offset)
        found = "the end" if self.kind == "end" else f"`{self.value}`"
        return LabelSyntaxError(f"expected {wanted}, found {found}", self.offset)


def read_names(reader: Reader, what: str, known: Container[str]) -> frozenset[str]:
    """One or more names separated by commas, each once."""
    names: set[str] = set()
    while True:
        offset = reader.offset
        name = reader.name(what, known)
        if name in names:
            raise LabelSyntaxError(f"{what} `{name}` stands twice", offset)
        names.add(name)
        if not reader.take(","):
            return frozenset(names)


def read_roles(text: str, known: Container[str]) -> frozenset[str]:
    """A role list such as `doctor,nurse`: the subject of the role modes."""
    reader = Reader(text)
    roles = read_names(reader, "role", known)
    reader.end()
    return roles
