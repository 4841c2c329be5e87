"""What people and pipes see: tables on a terminal, JSON in a pipe; data on stdout, messages on stderr."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

Format = Annotated[
    Literal["table", "json"] | None,
    Parameter(name=["--output", "-o"], help="`table` or `json`; by default a table on a terminal, JSON in a pipe."),
]

messages = Console(stderr=True, highlight=False)


def wants_json(format: str | None) -> bool:
    """Whether the answer goes out as JSON."""
    return format == "json" or (format is None and not sys.stdout.isatty())


def printable(text: str) -> str:
    """The text without anything that would move a cursor or hide letters: files and clusters choose names."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape", "replace").decode() for c in text)


def say(text: str) -> None:
    """A message about what goes on; not part of the answer."""
    messages.print(Text(printable(text)))


def print_json(data: Any) -> None:
    """One JSON document on one line."""
    print(json.dumps(data))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """A table; texts are shown as they are, never read as markup."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console(highlight=False).print(table)
