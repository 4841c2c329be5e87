"""`bellwether send`: say tuples as a source."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

from cyclopts import App, Parameter

from console.label import DEFAULT_TOPOLOGY, TopologyOption
from console.output import Format, print_json, say, wants_json
from console.speaker import UNPROVEN, SourceKey, Speaker
from console.where import HERE, Where
from topology import InputError, TopologyError, UnknownName, load
from topology.kafka_plan import source_principal

app = App(name="send", help="Say tuples as a source: sign them, send them, see them acknowledged.")
FLUSH_TUPLES = 5_000  # acknowledged at a time, so that the input may be endless


@app.default
def send(
    stream: str,
    file: Path | None = None,
    /,
    *,
    source: Annotated[str, Parameter(help="Who says it.")],
    label: Annotated[str, Parameter(help="The label, where the stream lets sources claim one.")] = "",
    key_field: Annotated[str | None, Parameter(help="The field whose value is the record's key.")] = None,
    topology: TopologyOption = DEFAULT_TOPOLOGY,
    where: Where = HERE,
    output: Format = None,
) -> None:
    """Send one tuple for each line, a JSON object, of a file or of the standard input.

    The answer tells how many the broker has acknowledged. Whether they are admitted, no source learns. Let one process
    at a time send for a source: sequences must rise.

    Parameters
    ----------
    stream
        The stream.
    file
        A file with one JSON object a line; by default the standard input.
    """
    shape = load(topology)
    if source not in shape.sources:
        raise UnknownName(f"unknown source `{source}`")
    keys = where.source_keys(source)
    key = SourceKey.read(keys) if keys.exists() else UNPROVEN
    if file:
        with file.open("rb") as lines:
            list(_tuples(lines, key_field))  # all of it is right, or nothing is sent
    with Speaker(where.door(source_principal(source)), shape, source, key) as speaker:
        try:
            with file.open("rb") if file else sys.stdin.buffer as lines:
                for number, (value, record_key) in enumerate(_tuples(lines, key_field), 1):
                    speaker.say(stream, value, label, record_key)
                    if number % FLUSH_TUPLES == 0:
                        say(f"{speaker.flush():,} acknowledged")
        except InputError as error:
            acknowledged = speaker.flush()
            if not acknowledged:
                raise
            raise TopologyError(f"{error}; the {acknowledged:,} tuples before it are acknowledged") from None
        acknowledged = speaker.flush()
    if wants_json(output):
        print_json({"acknowledged": acknowledged})
    else:
        say(f"{acknowledged:,} tuples acknowledged by the broker")


def _tuples(lines: BinaryIO, key_field: str | None) -> Iterator[tuple[bytes, bytes | None]]:
    """The value and key of each line that is not blank."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield line.strip(), _key(line, number, key_field)


def _key(line: bytes, number: int, field: str | None) -> bytes | None:
    try:
        content = json.loads(line)
    except ValueError as error:
        raise InputError(f"line {number} is no JSON: {error}") from None
    if not isinstance(content, dict):
        raise InputError(f"line {number} is no JSON object")
    if field is None:
        return None
    if field not in content:
        raise InputError(f"line {number} has no field `{field}`")
    return str(content[field]).encode()
