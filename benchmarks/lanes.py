"""What a lane costs: against a bare loop with the same client and bytes, by proof, and with librdkafka.

python -m benchmarks.lanes [names...]      all comparisons, or those whose names contain one of the words
"""

import hmac
import itertools
import json
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import quantiles

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import NewTopic

from benchmarks import bare_loop
from benchmarks.cluster import Cluster, Record, cluster
from benchmarks.harness import LATEST, Comparison, Round, Variant, compare, in_process, run_child
from console.speaker import Speaker, prove_batch
from shepherd.lane.judge import Judge
from shepherd.lane.kafka_client import KafkaPythonClient
from shepherd.lane.lane import TICK_SECONDS, Lane
from shepherd.policy import History, encode_change, signed_part
from shepherd.says import HEADER, PROOFS, Claim, Proof, encode_header, holds_ed25519, prefix, rest, verifier
from topology import Topology, load
from topology.kafka_plan import STAMP_SLACK_BYTES, input_topic
from topology.provisioning.connection import connect

STREAMS = {"Plain": "none", "Mac": "hmac", "Signed": "ed25519", "Batched": "ed25519-batch"}
TOPOLOGY = (
    """
version: 1
name: benchmark
mode: mls
lattice: {levels: {L: []}}
sites: {L: {level: L}}
streams:
"""
    + "".join(f"  {name}: {{fields: {{sid: string}}, proof: {proof}}}\n" for name, proof in STREAMS.items())
    + """
sources:
  s: {streams: [Plain, Mac, Signed, Batched], range: L}
"""
)
COUNT = {"Plain": 50_000, "Mac": 50_000, "Signed": 10_000, "Batched": 50_000}
BATCH = 32
QUADS = 12
LATENCY_SECONDS, LATENCY_PER_SECOND = 20, 200
SECRET = bytes(range(32))
SIGNER, AUTHORITY = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))
PUBLIC = SIGNER.public_key().public_bytes_raw()
AUTHORITY_PUBLIC = AUTHORITY.public_key().public_bytes_raw()
_numbers = itertools.count()


def key_id(proof: Proof) -> bytes:
    """The id of the source's key for a proof; none has zeros."""
    return proof.to_bytes(8, "big")


def said(stream: str, count: int) -> Iterator[Record]:
    """Tuples as their source says them, proven."""
    proof = PROOFS[STREAMS[stream]]
    claim = Claim(proof, key_id(proof), "s", "L").encode()
    start = prefix(stream, claim)
    plain = list(bare_loop.sample_records(count))
    signed = [
        start + rest(number.to_bytes(8, "big"), record.key, record.value) for number, record in enumerate(plain, 1)
    ]
    evidence: list[bytes] = []
    if proof is Proof.ED25519_BATCH:
        for at in range(0, count, BATCH):
            evidence += prove_batch(signed[at : at + BATCH], SIGNER.sign)
    else:
        evidence = [_evidence(proof, each) for each in signed]
    for number, (record, proven) in enumerate(zip(plain, evidence, strict=True), 1):
        yield Record(record.key, record.value, [(HEADER, encode_header(claim, number, proven))])


def _evidence(proof: Proof, signed: bytes) -> bytes:
    match proof:
        case Proof.NONE:
            return b""
        case Proof.HMAC:
            return hmac.digest(SECRET, signed, "sha256")
        case _:
            return SIGNER.sign(signed)


def policy_records() -> Iterator[Record]:
    """The changes that register the source's keys."""
    for number, proof in enumerate((Proof.HMAC, Proof.ED25519, Proof.ED25519_BATCH), 1):
        public = "" if proof is Proof.HMAC else PUBLIC.hex()
        name = next(text for text, found in PROOFS.items() if found is proof)
        change = {"type": "key", "source": "s", "key_id": key_id(proof).hex(), "proof": name, "public": public}
        written = encode_change(number, change)
        yield Record(b"", AUTHORITY.sign(signed_part(written)) + written, [])


@dataclass(frozen=True)
class Bench:
    """A cluster whose input topics are full."""

    cluster: Cluster
    topology: Topology
    file: Path

    def topic(self, stream: str) -> str:
        """A stream's input topic."""
        return next(input_topic(group) for group in self.topology.groups if group.stream == stream)

    def fill(self, stream: str) -> None:
        """Write a stream's tuples, once."""
        if not self.cluster.end(self.topic(stream)):
            self.cluster.preload(self.topic(stream), said(stream, COUNT[stream]))

    def bare(self, stream: str) -> Variant:
        """The bare loop over the same input."""
        self.fill(stream)
        return bare_loop.variant(self.cluster, "lane.L", bare_loop.Job(self.topic(stream), 0, COUNT[stream], "level.L"))

    def lane(self, stream: str, client: str = "kafka-python") -> Variant:
        """A lane over it, with a fresh log for every round; the log is read back and checked."""
        self.fill(stream)
        home = self.cluster.home
        door = home.connection()
        stamp = "\0".join((stream, "L", "s")).encode()

        def run() -> Round:
            number = next(_numbers)
            state, log = f"benchmark.lane.{number}", f"benchmark.level.{number}"
            with connect(door) as admin:
                limit = {"max.message.bytes": str(self.topology.kafka.max_tuple_bytes + STAMP_SLACK_BYTES)}
                admin.create_topics([NewTopic(name, 1, 1, topic_configs=limit) for name in (state, log)])
            command = [
                sys.executable, "-m", "benchmarks.lane_run", "--bootstrap", door.bootstrap, "--ca", str(door.authority),
                "--user", door.username, "--password-file", str(home.secrets / "admin.password"), "--topology",
                str(self.file), "--stream", stream, "--lane", state, "--log", log, "--count", str(COUNT[stream]),
                "--authority", AUTHORITY_PUBLIC.hex(), "--secret", SECRET.hex(), "--client", client,
            ]  # fmt: skip
            broker = self.cluster.broker_cpu_seconds()
            report = run_child(command).report
            broker = self.cluster.broker_cpu_seconds() - broker
            found = bare_loop.digest((r.key, r.value, r.timestamp, r.headers) for r in self.cluster.read(log, 0))
            with connect(door) as admin:
                admin.delete_topics([state, log])
            return Round(report["cpu_seconds"], report["count"], found, broker)

        numbered = enumerate(self.cluster.read(self.topic(stream), 0), 1)
        pack = struct.Struct(">Q").pack
        expected = bare_loop.digest(
            (r.key, r.value, r.timestamp, [("bw-stamp", stamp), ("bw-seq", pack(number))]) for number, r in numbered
        )
        return Variant(f"lane with {STREAMS[stream]} by {client}", run, expected)


def sum_of_parts(bench: Bench) -> Variant:
    """The signatures' checks alone, and a lane that checks nothing, over as many tuples."""
    plain, count = bench.lane("Plain"), COUNT["Signed"]
    message = b"m" * 200
    signature = SIGNER.sign(message)

    def run() -> Round:
        lane = plain.run()
        begin = time.process_time()
        for _ in range(count):
            assert holds_ed25519(PUBLIC, message, signature)
        checks = time.process_time() - begin
        return Round(lane.cpu_seconds * count / lane.units + checks, count, lane.outcome)

    return Variant("a lane without proof, and the checks", run, plain.expected)


def stamp_and_admit(topology: Topology) -> Comparison:
    """Tuples a CPU second that are admitted and stamped, proof apart, against one million."""
    group = next(group for group in topology.groups if group.stream == "Plain")
    records = [(r.key, r.value, r.headers) for r in said("Plain", 20_000)]

    claim = Claim(Proof.NONE, key_id(Proof.NONE), "s", "L").encode()
    verify, end = verifier(Proof.NONE, b"", prefix("Plain", claim)), 2 + len(claim)

    def run() -> Round:
        judge = Judge(topology, group, topology.sites["L"].subject, History(AUTHORITY_PUBLIC), lambda _: SECRET, {})
        done, number = judge.judge, 0
        begin = time.process_time()
        for key, value, headers in records:
            meaning, sequence, _ = done(5, key, value, headers)
            if sequence:
                number += 1
                [meaning.stamp, ("bw-seq", number.to_bytes(8, "big"))]
        middle = time.process_time()
        for key, value, headers in records:  # the proof alone, which is another's part
            header = headers[0][1]
            verify(rest(header[end : end + 8], key, value), header[end + 8 :])
        return Round(2 * middle - begin - time.process_time(), len(records), number)

    def microsecond() -> int:
        deadline, loops = time.process_time() + len(records) / 1e6, 0
        while time.process_time() < deadline:
            loops += 1
        return len(records)

    goal = Variant("one microsecond a tuple", in_process(microsecond, len(records)), len(records))
    ours = Variant("stamp and admit", run, len(records))
    return Comparison("stamp and admit against 1 us a tuple", goal, ours, 1.0, "tuples")


def measure_latency(bench: Bench) -> None:
    """How long after its append a tuple can be read from the level log, at a quiet rate; kept beside the ratios."""
    stream, number = "Plain", next(_numbers)
    door, whole = bench.cluster.home.connection(), bench.topology
    state, log = f"benchmark.lane.{number}", f"benchmark.level.{number}"
    with connect(door) as admin:
        admin.create_topics([NewTopic(name, 1, 1) for name in (state, log)])
    shape = replace(whole, groups=tuple(group for group in whole.groups if group.stream == stream))
    bench.fill(stream)
    done = threading.Event()

    def run_lane() -> None:
        client = KafkaPythonClient(door.client_settings(), state, log, whole.kafka.max_tuple_bytes)
        lane = Lane(shape, shape.sites["L"], client, AUTHORITY_PUBLIC, lambda _: SECRET)
        while not done.is_set():
            if not lane.step():
                client.wait(TICK_SECONDS)
        client.close()

    thread = threading.Thread(target=run_lane)
    thread.start()
    ages: list[float] = []
    place = TopicPartition(log, 0)
    reader = KafkaConsumer(
        **door.client_settings(), group_id=None, enable_auto_commit=False, isolation_level="read_committed"
    )
    reader.assign([place])
    reader.seek_to_beginning()
    begin, spoken, seen = time.time(), 0, 0
    wanted = LATENCY_SECONDS * LATENCY_PER_SECOND
    with Speaker(bench.cluster.door("source.s"), whole, "s") as speaker:
        while seen < wanted and time.time() < begin + 10 * LATENCY_SECONDS:
            for record in reader.poll(timeout_ms=2).get(place, []):
                if record.timestamp >= begin * 1000:
                    seen += 1
                    ages.append(time.time() * 1000 - record.timestamp)
            while spoken < wanted and spoken < (time.time() - begin) * LATENCY_PER_SECOND:
                speaker.say(stream, b"x", "L")
                spoken += 1
    done.set()
    thread.join()
    reader.close()
    cut = quantiles(ages, n=100)
    lanes = whole.lanes
    found = {
        "name": "age of a tuple when it can be read, in milliseconds", "tuples": len(ages), "p50": round(cut[49]),
        "p99": round(cut[98]), "skew_ms": lanes.skew_ms, "bucket_ms": lanes.bucket_ms,
        "least_possible_p50": lanes.skew_ms + lanes.bucket_ms / 2,
    }  # fmt: skip
    LATEST.with_name("latency.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found), file=sys.stderr)


def main(words: list[str]) -> int:
    """Run the comparisons; the exit code is 0 if all goals are met."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "bellwether.yaml"
        file.write_text(TOPOLOGY)
        topology = load(str(file))
        with cluster(topology) as up:
            bench = Bench(up, topology, file)
            up.preload("policy", policy_records())
            time.sleep(0.01)  # keys are in force from the millisecond after
            comparisons: dict[str, Callable[[str], Comparison]] = {
                "lane with hmac against the bare loop": lambda n: Comparison(
                    n, bench.bare("Mac"), bench.lane("Mac"), 0.85
                ),
                "lane with ed25519-batch against the bare loop": lambda n: Comparison(
                    n, bench.bare("Batched"), bench.lane("Batched"), 0.8
                ),
                "lane with ed25519 against the sum of its parts": lambda n: Comparison(
                    n, sum_of_parts(bench), bench.lane("Signed"), 0.95
                ),
                "lane by librdkafka against kafka-python": lambda n: Comparison(
                    n, bench.lane("Mac"), bench.lane("Mac", "librdkafka"), 3.0
                ),
                "stamp and admit against 1 us a tuple": lambda _: stamp_and_admit(topology),
            }
            chosen = [name for name in comparisons if not words or any(word in name for word in words)]
            results = [compare(comparisons[name](name), QUADS) for name in chosen]
            if not words or "latency" in words:
                measure_latency(bench)
    return 0 if all(result.met for result in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
