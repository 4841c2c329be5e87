"""`bellwether quarantine`: look at what proved nothing. System high."""

import base64
from datetime import UTC, datetime
from typing import Annotated, Any

from cyclopts import App, Parameter, validators
from kafka import KafkaConsumer, TopicPartition

from console.label import DEFAULT_TOPOLOGY, TopologyOption
from console.output import Format, print_json, print_table, wants_json
from console.where import HERE, Where
from shepherd.lane.sieve import FROM, REASON
from shepherd.says import HEADER, Malformed, decode_claim
from topology import load
from topology.kafka_plan import OPERATOR
from topology.provisioning.knock import knock

app = App(name="quarantine", help="Look at what proved nothing, and why. System high.")


@app.command
def show(
    *,
    last: Annotated[int, Parameter(validator=validators.Number(gte=1), help="How many to show at most.")] = 20,
    reason: Annotated[str | None, Parameter(help="Only those refused for this reason.")] = None,
    payload: Annotated[bool, Parameter(negative="", help="Show keys and values too, whatever their level.")] = False,
    topology: TopologyOption = DEFAULT_TOPOLOGY,
    where: Where = HERE,
    output: Format = None,
) -> None:
    """Show the newest tuples in quarantine: when they came, why they were refused, and who they claim to be from."""
    shape = load(topology)
    door = where.door(OPERATOR)
    knock(door)
    consumer = KafkaConsumer(
        **door.client_settings(), group_id=None, enable_auto_commit=False, isolation_level="read_committed"
    )
    found: list[dict[str, Any]] = []
    try:
        places = [TopicPartition("quarantine", partition) for partition in range(shape.partitions)]
        consumer.assign(places)
        consumer.seek_to_beginning()
        ends = consumer.end_offsets(places)
        while any(consumer.position(place) < ends[place] for place in places):
            for records in consumer.poll(timeout_ms=500).values():
                found += [_shown(record, payload) for record in records if reason in (None, _header(record, REASON))]
            found = sorted(found, key=lambda entry: str(entry["time"]))[-last:]
    finally:
        consumer.close()
    if wants_json(output):
        for entry in found:
            print_json(entry)
    else:
        columns = ("time", "reason", "claims to be", "from", *(("key", "value") if payload else ()))
        print_table(columns, [[str(cell) for cell in entry.values()] for entry in found])


def _header(record: Any, name: str) -> str:
    return next((value.decode(errors="replace") for key, value in record.headers if key == name), "")


def _shown(record: Any, payload: bool) -> dict[str, Any]:
    entry = {
        "time": datetime.fromtimestamp(record.timestamp / 1000, UTC).isoformat(timespec="milliseconds"),
        "reason": _header(record, REASON),
        "source": _claimed_source(record),
        "from": _header(record, FROM),
    }
    if payload:
        entry |= {"key": _text(record.key), "value": _text(record.value)}
    return entry


def _claimed_source(record: Any) -> str:
    header = next((value for key, value in record.headers if key == HEADER), b"")
    try:
        return decode_claim(header[2 : int.from_bytes(header[:2], "big") + 2]).source
    except Malformed:
        return ""


def _text(content: bytes | None) -> str:
    if content is None:
        return ""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return "base64:" + base64.b64encode(content).decode()
