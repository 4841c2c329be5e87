"""`bellwether send`: say tuples as a source."""

import json
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from console.label import DEFAULT_TOPOLOGY, TopologyOption
from console.output import Format, print_json, say, wants_json
from console.speaker import UNPROVEN, SourceKey, Speaker
from console.where import HERE, Where
from topology import InputError, load
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

    The answer tells how many the broker has acknowledged. Whether they are admitted, no source learns.

    Parameters
    ----------
    stream
        The stream.
    file
        A file with one JSON object a line; by default the standard input.
    """
    shape = load(topology)
    keys = where.source_keys(source)
    key = SourceKey.read(keys) if keys.exists() else UNPROVEN
    with Speaker(where.door(source_principal(source)), shape, source, key) as speaker:
        lines = file.open("rb") if file else sys.stdin.buffer
        with lines:
            for number, line in enumerate(lines, 1):
                if not line.strip():
                    continue
                speaker.say(stream, line.strip(), label, _key(line, number, key_field))
                if number % FLUSH_TUPLES == 0:
                    speaker.flush()
                    say(f"{speaker.acknowledged:,} acknowledged")
        acknowledged = speaker.flush()
    if wants_json(output):
        print_json({"acknowledged": acknowledged})
    else:
        say(f"{acknowledged:,} tuples acknowledged by the broker")


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
