"""The raw log of a low site on a real broker is the same whatever higher sources say, batch by batch.

Each world has a broker of its own and the same low tuples at the same moments; the high ones are absent, many, or
altered and mixed with forgeries. The test sets the time of every input record, so that equal moments can be had; the
lane runs live, as these moments pass.
"""

import hmac
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType

from console.source import authority
from shepherd.policy import encode_change, signed_part
from shepherd.says import HEADER, Claim, Proof, encode_header, prefix, rest
from tests.conftest import Figure
from tests.integration.lanes import Cluster, cluster_in, stop
from tests.live import eventually
from tests.raw_batches import Batch
from topology.kafka_plan import input_topic
from topology.provisioning.connection import connect

SECRET = bytes(range(32))
SOURCES = ("patrol", "recon", "field-hospital")
PERIOD_MS = 7
LEAD_MS = 6_000  # for all to be appended before the first moment comes
LOW_TUPLES = 240
START_STAMP = 1  # the time of the aborted record that a lane's start leaves, in every world
LANES = "\nlanes: {bucket_ms: 50, transaction_tuples: 5}\n"  # both ways to end a transaction come up


@dataclass(frozen=True)
class Tuple:
    """One record of an input topic, and when it is appended."""

    at: int
    source: str
    label: str
    sequence: int
    value: bytes
    forged: bool = False


def low_tuples() -> list[Tuple]:
    """Of a source that is low, and of one that speaks at both levels."""
    sources = ("patrol", "field-hospital", "patrol")
    return [
        Tuple(number * PERIOD_MS, sources[number % 3], "L", number + 1, b"low %d" % number)
        for number in range(LOW_TUPLES)
    ]


def high_tuples(world: str) -> list[Tuple]:
    """None; or several for each low one, in its topic and beside it; or others, a quarter of them forged."""
    if world == "absent":
        return []
    count, step = (LOW_TUPLES * 3, PERIOD_MS / 3) if world == "present" else (LOW_TUPLES, PERIOD_MS * 0.9)
    return [
        Tuple(
            int(number * step), ("recon", "field-hospital")[number % 2], "H", number + 1,
            b"high " * (number % 50), world == "altered" and number % 4 == 1,
        )
        for number in range(count)
    ]  # fmt: skip


@contextmanager
def lane_in_a_world(directory: Path, world: str) -> Iterator[tuple[Cluster, int]]:
    """A lane at L that has seen such a world; with the moment at which the world began."""
    shape = (Path(__file__).parents[2] / "topology" / "examples" / "battlefield.yaml").read_text()
    directory.mkdir()
    with cluster_in(directory, shape + LANES).up() as cluster:
        topics = {
            source: input_topic(group)
            for group in cluster.topology.groups
            for source in group.sources
            if group.stream == "Vitals"
        }
        _give_the_test_the_clock(cluster, "policy", *topics.values())
        bucket = cluster.topology.lanes.bucket_ms
        begins = (time.time_ns() // 1_000_000 // bucket + 1) * bucket + LEAD_MS
        _register(cluster, begins - 1_000)
        lane = cluster.lane("L")
        try:
            _append(cluster, topics, sorted([*low_tuples(), *high_tuples(world)], key=lambda t: t.at), begins)
            assert eventually(lambda: len(cluster.seen("level.L")) == LOW_TUPLES)
            yield cluster, begins
        finally:
            stop(lane)


def _give_the_test_the_clock(cluster: Cluster, *topics: str) -> None:
    with connect(cluster.administrator()) as admin:
        setting = {"message.timestamp.type": "CreateTime"}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=setting) for topic in topics])


def _register(cluster: Cluster, at: int) -> None:
    signer = authority(cluster.where)
    producer = _producer(cluster)
    for number, source in enumerate(SOURCES, 1):
        key_id = number.to_bytes(8, "big")
        path = cluster.where.hmac_secret(key_id.hex())
        path.parent.mkdir(mode=0o700, exist_ok=True)
        path.write_text(SECRET.hex())
        change = {"type": "key", "source": source, "key_id": key_id.hex(), "proof": "hmac", "public": ""}
        written = encode_change(number, change)
        producer.send("policy", signer.sign(signed_part(written)) + written, timestamp_ms=at).get(30)
    producer.close()


def _producer(cluster: Cluster) -> Any:
    # A batch for each record, so that each has a time of its own.
    return KafkaProducer(
        **cluster.administrator().client_settings(), enable_idempotence=False, batch_size=1,
        max_in_flight_requests_per_connection=1,
    )  # fmt: skip


def _append(cluster: Cluster, topics: dict[str, str], said: list[Tuple], begins: int) -> None:
    producer = _producer(cluster)
    for each in said:
        key_id = (SOURCES.index(each.source) + 1).to_bytes(8, "big")
        claim = Claim(Proof.HMAC, key_id, each.source, each.label).encode()
        signed = prefix("Vitals", claim) + rest(each.sequence.to_bytes(8, "big"), None, each.value)
        evidence = bytes(32) if each.forged else hmac.digest(SECRET, signed, "sha256")
        header = (HEADER, encode_header(claim, each.sequence, evidence))
        producer.send(topics[each.source], each.value, headers=[header], timestamp_ms=begins + each.at)
    producer.close()
    assert time.time() * 1000 < begins, "this machine is too slow for the moments of this test"


def seen_raw(batch: Batch, begins: int) -> object:
    """All of a batch that Low can see, but for the producer's number and the moment of a commit."""
    if batch.control:
        return (batch.base_offset, batch.last_offset_delta, batch.attributes, batch.producer_epoch, batch.marker,
                batch.coordinator_epoch)  # fmt: skip
    since = begins if batch.max_timestamp > START_STAMP else 0
    records = [(r.offset, r.timestamp - since, r.key, r.value, r.headers) for r in batch.records]
    return (
        batch.base_offset, batch.last_offset_delta, batch.leader_epoch, batch.magic, batch.attributes,
        batch.producer_epoch, batch.base_sequence, batch.first_timestamp - since, batch.max_timestamp - since,
        records,
    )  # fmt: skip


def test_low_s_raw_log_is_the_same_whatever_high_does(tmp_path: Path, figure: Figure) -> None:
    logs, aborted = {}, {}
    for world in ("absent", "present", "altered"):
        with lane_in_a_world(tmp_path / world, world) as (cluster, begins):
            logs[world] = [seen_raw(batch, begins) for batch in cluster.raw("level.L")]
            aborted[world] = cluster.aborted("level.L")
    markers = sum(len(batch) == 6 for batch in logs["absent"])  # type: ignore[arg-type]
    assert markers > 20, "the log has too few transactions to tell anything"
    assert logs["present"] == logs["absent"]
    assert logs["altered"] == logs["absent"]
    # One each, of the lane's start.
    assert {world: len(found) for world, found in aborted.items()} == {"absent": 1, "present": 1, "altered": 1}
    high = {world: len(high_tuples(world)) for world in logs}
    figure(
        f"raw log of Low: {len(logs['absent'])} batches with {markers} commit markers, equal with {high} high tuples "
        f"(beside producer ids and the moments of commits)"
    )
