"""Lanes against an oracle written from SPECIFICATION.md, on a simulated cluster with every kind of misfortune.

Topologies, policies, sources, proofs, refusals, clocks, fetches, latencies and crashes are random; each case is a seed.
`BELLWETHER_CAMPAIGN=20` in the environment does twenty times the work.
"""

import hmac
import json
import os
import random
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shepherd import says
from shepherd.lane import lane as lane_module
from shepherd.lane import strand as strand_module
from shepherd.lane.client import Away, Fenced, LaneError
from shepherd.lane.lane import Lane
from tests.conftest import Figure
from tests.properties.lane_oracle import PROVEN, Level, Oracle
from tests.properties.lane_simulator import (
    POLICY,
    QUARANTINE,
    UNREADABLE,
    Append,
    Crash,
    Faults,
    NoFaults,
    NthFault,
    Outgoing,
    Place,
    PublishFaults,
    RandomFaults,
    SimulatedClient,
    SimulatedCluster,
    lay_out,
)
from topology import Group, Site, Source, Topology, check, load_example
from topology.yaml_file import read_yaml

CAMPAIGN = int(os.environ.get("BELLWETHER_CAMPAIGN", "1"))
BEGIN = 100_000  # the millisecond in which sources begin to speak
REASONS = (
    "wrong-partition",
    "unreadable", "no-says", "malformed", "unknown-source", "revoked-source", "weak-proof", "unknown-key",
    "revoked-key", "bad-label", "out-of-range", "below-floor", "bad-proof", "stale-sequence",
)  # fmt: skip
# Several sources in one group, every labelling, floors above and inside of ranges.
CROWDED = """
version: 1
name: crowded
mode: mls
lattice: {classifications: [U, S], compartments: [A]}
sites: {low: {level: U}, a: {level: "U:A"}, s: {level: S}, top: {level: "S:A"}}
streams:
  News: {fields: {x: string}, proof: none}
  Plans: {fields: {x: string}, proof: hmac, floor: S}
  Own: {fields: {x: string}, proof: hmac, label: source}
  Public: {fields: {x: string}, proof: none, label: {fixed: U}}
sources:
  one: {streams: [News, Plans], range: {low: U, high: "S:A"}}
  two: {streams: [News, Plans, Public], range: {low: U, high: "S:A"}}
  three: {streams: [News, Own], range: S}
  four: {streams: [News, Own], range: S}
  five: {streams: [News, Own], range: U}
"""
LABELS = {
    "battlefield": ["L", "H", " H ", "L "],
    "crowded": ["U", "S", "U:A", "S:A", " S : A", "S "],
    "diamond": ["S", "S:ARMY", "S:NAVY", "S:ARMY,NAVY", "S:NAVY,ARMY", " S : ARMY"],
    "hospital": [
        "doctor", "nurse", "doctor or nurse", "nurse or doctor", "doctor and nurse", "nurse and doctor",
        "nurse and (doctor or nurse)", "administrator",
    ],
    "stocks": ["NewYork", "London"],
}  # fmt: skip


# ------------------------------------------------------------------------------------------------ sources and policy


@lru_cache(maxsize=1_000)
def _private(seed: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(seed.to_bytes(32, "big"))


@lru_cache(maxsize=1_000)
def _public(seed: int) -> bytes:
    return _private(seed).public_key().public_bytes_raw()


AUTHORITY = 1
IMPOSTOR = 2


@dataclass(frozen=True)
class ProvingKey:
    """A key as its source has it."""

    id: bytes
    source: str
    proof: says.Proof
    seed: int

    @property
    def secret(self) -> bytes:
        return self.seed.to_bytes(16, "big")


@dataclass
class Draft:
    """A tuple before it is signed."""

    at: int
    group: Group
    partition: int
    source: str
    proof: says.Proof
    key: ProvingKey | None
    label: str
    sequence: int
    content: tuple[bytes | None, bytes | None]
    flaw: str = ""
    evidence: bytes = b""

    @property
    def claim(self) -> bytes:
        return says.Claim(self.proof, self.key.id if self.key else says.NO_KEY, self.source, self.label).encode()

    @property
    def signed(self) -> bytes:
        sequence = self.sequence.to_bytes(8, "big")
        return says.prefix(self.group.stream, self.claim) + says.rest(sequence, *self.content)


@dataclass(frozen=True)
class Scenario:
    """A topology, all that is ever appended, and what lanes are given."""

    topology: Topology
    script: tuple[Append, ...]
    bases: Mapping[Place, int]
    secrets: Mapping[bytes, bytes]

    @property
    def end(self) -> int:
        """A time by which everything must have gone out."""
        lanes = self.topology.lanes
        last = max((max(line.at, line.stamp) for line in self.script), default=BEGIN)
        return last + lanes.skew_ms + lanes.bucket_ms + 1

    def oracle(self) -> Oracle:
        return Oracle(self.topology, lay_out(self.script, self.bases), _public(AUTHORITY), self.secrets, UNREADABLE)

    def lane(self, site: Site | None, client: SimulatedClient) -> Lane:
        return Lane(self.topology, site, client, _public(AUTHORITY), self.secrets.__getitem__)


@lru_cache(maxsize=1)
def _crowded() -> Topology:
    path = Path(os.environ.get("TMPDIR", "/tmp")) / f"bellwether-crowded-{os.getpid()}.yaml"  # noqa: S108
    path.write_text(CROWDED)
    try:
        return check(read_yaml(path))
    finally:
        path.unlink()


def _topology(rng: random.Random, name: str, **lanes: int) -> Topology:
    """An example with small settings, so that every limit is met often."""
    found = _crowded() if name == "crowded" else load_example(name)
    proofs = {
        stream.name: rng.choices(list(says.PROOFS), [4, 12, 1, 1])[0] if rng.random() < 0.7 else stream.proof
        for stream in found.streams.values()
    }
    streams = {name: replace(stream, proof=proofs[name]) for name, stream in found.streams.items()}
    shape = {
        "skew_ms": rng.choice([0, 1, 5, 20, 50]),
        "bucket_ms": rng.choice([1, 2, 7, 20, 50]),
        "transaction_tuples": rng.randint(1, 7),
        "transaction_bytes": rng.choice([1, 202, 404, 406, 606, 900, 1 << 20, 1 << 20]),
        **lanes,
    }
    settings_ = found.lanes.model_copy(update=shape)
    return replace(found, streams=streams, partitions=rng.randint(1, 3), lanes=settings_)


class Writer:
    """Writes the script of a scenario."""

    def __init__(self, rng: random.Random, topology: Topology, flawed: float = 0.25) -> None:
        self.rng, self.topology, self.flawed = rng, topology, flawed
        self.keys: dict[str, list[ProvingKey]] = {}
        self.lines: list[Append] = []
        self.drafts: list[Draft] = []
        self._sequences: Counter[tuple[str, Any]] = Counter()
        self._number = 0
        self._changes: list[bytes] = []
        self._contents = 0

    def draft(self, at: int) -> Draft:
        """A tuple that one of the sources says at this time, flawed or not."""
        rng, topology = self.rng, self.topology
        group = rng.choice(topology.groups)
        source = topology.sources[rng.choice(group.sources)]
        key: ProvingKey | None
        key = rng.choice(self._fitting(source, group) or self.keys[source.name])
        stream = topology.streams[group.stream]
        if stream.proof == "none" and rng.random() < 0.6:
            key = None
        label = ""
        if stream.labelling == "claimed":
            label = rng.choice(self._sayable(source, group))
        content = self._content()
        partition = zlib.crc32(content[0] or b"") % topology.partitions
        if rng.random() < self.flawed / 10:
            partition = rng.randrange(topology.partitions)
        draft = Draft(
            at, group, partition, source.name, key.proof if key else says.Proof.NONE, key,
            label, self._next(source, group, label), content,
        )  # fmt: skip
        if rng.random() < self.flawed:
            self._spoil(draft, source)
        self.drafts.append(draft)
        return draft

    def _fitting(self, source: Source, group: Group) -> list[ProvingKey]:
        asked = says.PROOFS[self.topology.streams[group.stream].proof].strength
        return [key for key in self.keys[source.name] if key.proof.strength >= asked]

    def _sayable(self, source: Source, group: Group) -> list[str]:
        mode, floor = self.topology.mode, self.topology.streams[group.stream].floor
        labels = [(text, mode.parse(text)) for text in LABELS[self.topology.name]]
        found = [text for text, label in labels if source.range is None or mode.within(label, source.range)]
        if floor is None or self.rng.random() < self.flawed / 3:
            return found
        return [text for text in found if mode.dominates(mode.parse(text), floor)]

    def _next(self, source: Source, group: Group, label: str) -> int:
        kind = (f"{source.name} {group.stream}", self.topology.mode.parse(label) if label else None)
        self._sequences[kind] += self.rng.choice([1, 1, 1, 2, 1000])
        return self._sequences[kind]

    def _content(self) -> tuple[bytes | None, bytes | None]:
        self._contents += 1
        text = f"{self._contents}".encode() + b"x" * self.rng.choice([0, 0, 3, 30, 300])
        return self.rng.choice([(None, text), (text, None), (b"k", text), (b"", text), (text, b"")])

    def _spoil(self, draft: Draft, source: Source) -> None:
        """Choose a flaw; what shows in the claim is done here, the rest when the tuple is signed."""
        rng = self.rng
        draft.flaw = rng.choice(
            ["unreadable", "no-says", "two-says", "long", "malformed", "unknown-source", "weak-proof", "unknown-key",
             "other-key", "bad-label", "other-label", "bad-proof", "bad-proof", "bad-proof",
             "replay", "sequence", "other-stream"]
        )  # fmt: skip
        everybody = [*self.topology.sources, "nobody", ""]
        match draft.flaw:
            case "unknown-source":
                draft.source = rng.choice(everybody)
            case "weak-proof":
                draft.proof, draft.key = says.Proof.NONE, None
            case "unknown-key" if draft.key:
                draft.key = replace(draft.key, id=rng.randbytes(8))
            case "other-key":
                draft.key = rng.choice(self.keys[rng.choice(list(self.keys))])
                draft.proof = rng.choice([draft.key.proof, says.Proof.HMAC, says.Proof.ED25519_BATCH])
            case "bad-label":
                bad = ["", "nonsense", "S:", "(", "doctor and", "L", "U", "S", "doctor", " ", "a" * 5000]
                draft.label = rng.choice(bad)
            case "other-label":
                draft.label = rng.choice(LABELS[self.topology.name])
            case "long" if draft.label:  # one byte too long, or not
                draft.label += " " * (1024 + rng.randint(0, 1) - len(draft.claim))
            case "sequence":
                draft.sequence = rng.choice([0, 1, max(draft.sequence - 1, 0), 2**64 - 1 if rng.random() < 0.1 else 1])

    def sign(self) -> None:
        """Sign all drafts, those of a batch together, and put them into the script."""
        batches: dict[bytes, list[Draft]] = {}
        for draft in self.drafts:
            self._prove(draft, batches)
        for batch in batches.values():
            _sign_batch(batch)
        said: list[tuple[tuple[str, bytes | None], ...]] = []
        for draft in self.drafts:
            self.lines.append(self._line(draft, said))
        self.drafts = []
        self.lines.sort(key=lambda line: line.at)

    def _prove(self, draft: Draft, batches: dict[bytes, list[Draft]]) -> None:
        signed = draft.signed
        if draft.flaw == "other-stream":
            signed = signed.replace(draft.group.stream.encode(), b"Other", 1)
        match draft.proof:
            case says.Proof.HMAC:
                assert draft.key is not None
                draft.evidence = hmac.digest(draft.key.secret, signed, "sha256")
            case says.Proof.ED25519:
                assert draft.key is not None
                draft.evidence = _private(draft.key.seed).sign(signed)
            case says.Proof.ED25519_BATCH:
                assert draft.key is not None
                batch = batches.setdefault(draft.key.id, [])
                batch.append(draft)
                if len(batch) == self.rng.randint(1, 6):
                    _sign_batch(batch)
                    del batches[draft.key.id]

    def _line(self, draft: Draft, said: list[tuple[tuple[str, bytes | None], ...]]) -> Append:
        rng, place = self.rng, (f"in.{draft.group.stream}.{draft.group.name}", draft.partition)
        key, value = draft.content
        evidence = draft.evidence
        if draft.flaw == "bad-proof":
            evidence = self._damaged(evidence)
        claim = draft.claim
        header = says.encode_header(claim, draft.sequence, evidence)
        headers: list[tuple[str, bytes | None]] = [("bw-says", header)]
        match draft.flaw:
            case "no-says":
                headers = rng.choice([[], [("bw-stamp", b"x")], [("BW-SAYS", header)], list(UNREADABLE)])
            case "two-says":
                headers = headers * 2
            case "malformed":
                headers, key, value = self._malformed(draft, claim, header, key, value)
            case "replay" if said:
                headers = list(rng.choice(said))
        gap = rng.choice([0] * 9 + [2])
        if draft.flaw == "unreadable":
            return Append(draft.at, self._stamp(draft.at), place, key, value, UNREADABLE, gap)
        said.append(tuple(headers))
        if rng.random() < 0.1:
            headers.insert(rng.randint(0, len(headers)), ("other", rng.choice([None, b"", b"content"])))
        return Append(draft.at, self._stamp(draft.at), place, key, value, tuple(headers), gap)

    def _malformed(
        self, draft: Draft, claim: bytes, header: bytes, key: bytes | None, value: bytes | None
    ) -> tuple[list[tuple[str, bytes | None]], bytes | None, bytes | None]:
        rng, broken = self.rng, bytearray(claim)
        match rng.randrange(9):
            case 0:
                return [("bw-says", None)], key, value
            case 1:
                return [("bw-says", header)], None, None
            case 2:
                return [("bw-says", header[: rng.randrange(len(claim) + 10)])], key, value
            case 3:
                broken[0] = rng.choice([0, 2, 255])  # version
            case 4:
                broken[1] = rng.choice([4, 255])  # proof
            case 5:
                broken[1], broken[2:10] = rng.choice([(0, b"\1" * 8), (1, bytes(8)), (2, bytes(8))])
            case 6:
                broken[10] = 255  # the length of the source
            case 7:
                broken[-1:] = b"\xff"  # no UTF-8
            case 8:
                broken += b" " * 8192
        return [("bw-says", says.encode_header(bytes(broken), draft.sequence, draft.evidence))], key, value

    def _damaged(self, evidence: bytes) -> bytes:
        if not evidence:
            return self.rng.choice([b"\0", bytes(32)])
        flipped = bytearray(evidence)
        flipped[self.rng.randrange(len(evidence))] ^= 1 << self.rng.randrange(8)
        whole = [bytes(flipped), evidence[:-1], evidence + b"\0", b""]
        return self.rng.choice([*whole, evidence + bytes(32), bytes(len(evidence))])

    def _stamp(self, at: int) -> int:
        return at

    # -------------------------------------------------------------------------------------------- policy

    def announce(self, begin: int, end: int) -> None:
        """Keys for all sources, most of them before anything is said."""
        rng = self.rng
        for number, source in enumerate(self.topology.sources, 1):
            keys = self.keys[source] = []
            for which in range(rng.randint(2, 4)):
                proof = rng.choices(list(says.Proof)[1:], [4, 1, 1])[0]
                if which == 0:
                    proof = max(
                        says.PROOFS[self.topology.streams[s].proof] for s in self.topology.sources[source].streams
                    )
                    proof = proof or says.Proof.HMAC
                key = ProvingKey(rng.randbytes(7) + bytes([number]), source, proof, rng.randint(10, 40))
                keys.append(key)
                at = begin if which == 0 or rng.random() < 0.7 else rng.randint(begin, end)
                self.lines.append(self._pending(at, self._key_change(key)))
                if rng.random() < 0.1:
                    later = {"type": "revoke-key", "key_id": key.id.hex()}
                    self.lines.append(self._pending(rng.randint(at, end), later))
            if rng.random() < 0.07:
                self.lines.append(self._pending(rng.randint(begin, end), {"type": "revoke-source", "source": source}))
        self.lines.sort(key=lambda line: line.at)
        lines = []
        for line in self.lines:
            if rng.random() < 0.15:
                lines.append(self._void(line.at))
            lines.append(replace(line, value=self._signed(json.loads(line.value or b""))))
        self.lines = lines

    def _pending(self, at: int, change: Mapping[str, str]) -> Append:
        return Append(at, self._stamp(at), POLICY, None, json.dumps(change).encode())

    def _key_change(self, key: ProvingKey) -> dict[str, str]:
        public = "" if key.proof is says.Proof.HMAC else _public(key.seed).hex()
        proof = next(name for name, proof in says.PROOFS.items() if proof is key.proof)
        return {"type": "key", "source": key.source, "key_id": key.id.hex(), "proof": proof, "public": public}

    def _signed(self, change: Mapping[str, object], signer: int = AUTHORITY) -> bytes:
        if signer == AUTHORITY:
            self._number += self.rng.choice([1, 1, 5])
        text = written({"number": self._number + (signer != AUTHORITY), **change})
        record = policy_record(text, signer)
        if signer == AUTHORITY:
            self._changes.append(record)
        return record

    def _void(self, at: int) -> Append:
        """A policy record that counts for nothing."""
        rng = self.rng
        source = rng.choice(list(self.topology.sources))
        value: bytes | None
        match rng.randrange(6):
            case 0:
                value = self._signed({"type": "revoke-source", "source": source}, IMPOSTOR)
            case 1 if self._changes:
                value = rng.choice(self._changes)
            case 2:
                value = rng.choice([None, b"", b"x", bytes(64), rng.randbytes(100)])
            case 3:
                text = written({"number": 10**9, "type": rng.choice(["unknown", "revoke-source"]), "source": source})
                value = policy_record(text.replace(b"revoke", b" revoke") + rng.choice([b"", b"{", b"\xff"]))
            case 4:
                value = policy_record(written({"number": 0, "type": "revoke-source", "source": source}))
            case _:
                key = rng.choice([key for keys in self.keys.values() for key in keys])
                broken = self._key_change(key) | rng.choice(
                    [{"proof": "none"}, {"public": "00"}, {"key_id": "00" * 8}, {"key_id": "00"}, {"proof": "rsa"}]
                )
                value = policy_record(written({"number": 10**9, **broken}))
        return Append(at, self._stamp(at), POLICY, None, value)


class Jitter(Writer):
    """The same under clocks that are apart, and so go back, by at most so much."""

    most = 0

    def _stamp(self, at: int) -> int:
        return at - self.rng.choice([0, self.rng.randint(0, self.most), self.most])


def written(change: Mapping[str, object]) -> bytes:
    """A change as it must be written."""
    return json.dumps(change, sort_keys=True, separators=(",", ":")).encode()


def policy_record(change: bytes, signer: int = AUTHORITY) -> bytes:
    """A record of the topic `policy`."""
    return _private(signer).sign(b"bellwether policy 1\0" + change) + change


def _sign_batch(batch: Sequence[Draft]) -> None:
    """The evidence of every tuple of a batch."""
    rows = [[says.leaf(draft.signed) for draft in batch]]
    while len(rows[-1]) > 1:
        row = rows[-1] + rows[-1][-1:] * (len(rows[-1]) % 2)
        rows[-1] = row
        rows.append([says.node(row[i], row[i + 1]) for i in range(0, len(row), 2)])
    key = batch[0].key
    assert key is not None
    signature = _private(key.seed).sign(b"bellwether batch 1\0" + rows[-1][0])
    for number, draft in enumerate(batch):
        path = b"".join(row[(number >> depth) ^ 1] for depth, row in enumerate(rows[:-1]))
        draft.evidence = signature + number.to_bytes(4, "big") + path


def _times(rng: random.Random, number: int) -> list[int]:
    """When tuples are said: often in the same millisecond, sometimes after a long silence."""
    times, now = [], BEGIN
    busy = rng.choice([1, 3, 20])
    for _ in range(number):
        now += rng.choices([0, rng.randint(0, busy), rng.randint(0, 50), 1500], [8, 10, 2, 0.2])[0]
        times.append(now)
    return times


def make_scenario(rng: random.Random, name: str, size: int, jitter: bool = False, **lanes: int) -> Scenario:
    """A random scenario on one of the topologies."""
    topology = _topology(rng, name, **lanes)
    writer = Jitter(rng, topology) if jitter else Writer(rng, topology, flawed=rng.choice([0.05, 0.25, 0.6]))
    if isinstance(writer, Jitter):
        writer.most = max(topology.lanes.skew_ms - 1, 0)
    times = _times(rng, size)
    writer.announce(BEGIN - 10, times[-1] + 1)
    for at in times:
        writer.draft(at)
    writer.sign()
    return scenario_of(rng, writer)


def scenario_of(rng: random.Random, writer: Writer) -> Scenario:
    """What a writer wrote."""
    topology = writer.topology
    places = [(f"in.{g.stream}.{g.name}", p) for g in topology.groups for p in range(topology.partitions)]
    bases = {POLICY: 0} | {place: rng.choice([0, 0, 17]) for place in places}
    secrets = {key.id: key.secret for keys in writer.keys.values() for key in keys}
    return Scenario(topology, tuple(writer.lines), bases, secrets)


# ------------------------------------------------------------------------------------------------ running lanes


@dataclass
class Process:
    """A lane with its supervisor: after a crash, or when the cluster was away, it is opened anew."""

    scenario: Scenario
    cluster: SimulatedCluster
    site: Site | None
    rng: random.Random
    faults: Faults
    pace: int = 5
    fetch: int = 8
    lane: Lane | None = None
    client: SimulatedClient | None = None
    restarts: int = 0
    zombies: list[Lane] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.site.name if self.site else QUARANTINE

    def open(self) -> None:
        self.lane = None
        self.client = SimulatedClient(self.cluster, self.name, self.rng, self.faults, self.pace, self.fetch)
        self.lane = self.scenario.lane(self.site, self.client)

    def step(self) -> bool:
        """Whether all is done: everything was read before, the time is over, and the step went well."""
        try:
            if self.lane is None:
                self.open()
            assert self.lane is not None
            assert self.client is not None
            over = self.cluster.finished and self.cluster.clock >= self.scenario.end and self.client.caught_up
            self.lane.step()
        except (Crash, Away):
            self.lane = None
            self.restarts += 1
            return False
        return over

    def drain(self) -> bool:
        """Whether the last words were said."""
        assert self.lane is not None
        try:
            self.lane.drain()
        except (Crash, Away):
            self.lane = None
            self.restarts += 1
            return False
        return True

    def duplicate(self) -> None:
        """A second process of the same lane is started while the first still runs."""
        if self.lane is not None:
            self.zombies.append(self.lane)
            self.lane = None

    def step_zombies(self) -> None:
        """What the first one publishes is refused."""
        assert self.lane is not None, "the second one has begun"
        for zombie in list(self.zombies):
            try:
                zombie.step()
            except (Crash, Away):
                self.zombies.remove(zombie)
            except Fenced:
                self.zombies.remove(zombie)


@contextmanager
def limits(rng: random.Random) -> Iterator[None]:
    """Small limits, so that lanes run into them."""
    progress, held = rng.choice([1, 30, 1_000]), rng.choice([1, 700, 8 << 20])
    with patch.object(lane_module, "PROGRESS_MS", progress), patch.object(strand_module, "MOST_HELD_BYTES", held):
        yield


def play(
    scenario: Scenario,
    rng: random.Random,
    faults: Callable[[Site | None], Faults] = lambda _: NoFaults(),
    sites: Sequence[Site | None] | None = None,
    late: bool | None = None,
    zombies: bool = False,
) -> tuple[SimulatedCluster, list[Process]]:
    """Run lanes until all is done; `late` ones find everything there already."""
    if late is None:
        late = rng.random() < 0.3
    clock = scenario.end + rng.choice([0, 5_000]) if late else BEGIN - 20
    cluster = SimulatedCluster(scenario.script, scenario.bases, clock, rng)
    chosen: Sequence[Site | None] = [*scenario.topology.sites.values(), None] if sites is None else sites
    pace, fetch = rng.choice([0, 1, 5, 40]), rng.choice([1, 3, 20, 1_000])
    processes = [Process(scenario, cluster, site, rng, faults(site), pace, fetch) for site in chosen]
    running = list(processes)
    rounds = 0
    with limits(rng):
        while running:
            rounds += 1
            assert rounds < 20_000, "no progress"
            process = rng.choice(running)
            if process.step() and (rng.random() < 0.5 or process.drain()):
                running.remove(process)
            if zombies and rng.random() < 0.03:
                process.duplicate()
            if process.zombies and process.lane is not None:
                process.step_zombies()
            if rng.random() < 0.2:
                cluster.pass_time(rng.randint(0, 1 + 10 * pace))
            if cluster.finished or rng.random() < 0.02:
                cluster.pass_time(rng.choice([1, 50, 400]))
    return cluster, processes


def _calm(process: Process) -> None:
    if isinstance(process.faults, RandomFaults):
        process.faults.stop()


# ------------------------------------------------------------------------------------------------ comparing


def log_of(cluster: SimulatedCluster, site: Site, partition: int) -> list[Outgoing]:
    """The committed level log of a site."""
    entries = cluster.committed((f"level.{site.name}", partition))
    return [(e.time, e.key, e.value, list(e.headers)) for e in entries]  # type: ignore[misc]


def check_site(scenario: Scenario, cluster: SimulatedCluster, site: Site, expected: Level) -> None:
    """The committed log of a site, and its transactions, are the oracle's."""
    for partition in range(scenario.topology.partitions):
        log = log_of(cluster, site, partition)
        assert log == expected.log[partition], f"level.{site.name} {partition}"
        numbers = [int.from_bytes(headers[1][1], "big") for _, _, _, headers in log]
        assert numbers == list(range(1, len(log) + 1))
        assert cluster.cuts((f"level.{site.name}", partition)) == expected.cuts[partition]


def check_layout(scenario: Scenario, cluster: SimulatedCluster, site: Site, expected: Level) -> None:
    """Without crashes: one marker after each transaction, and nothing else takes an offset."""
    for partition in range(scenario.topology.partitions):
        layout: list[tuple[object, ...]] = []
        tuples = iter(expected.log[partition])
        for number, size in enumerate(expected.cuts[partition]):
            for _ in range(size):
                time, key, value, headers = next(tuples)
                layout.append((len(layout), number, "data", time, key, value, tuple(headers)))
            layout.append((len(layout), number, "COMMIT", 0, None, None, ()))
        assert cluster.layout((f"level.{site.name}", partition)) == layout


def check_quarantine(scenario: Scenario, cluster: SimulatedCluster, oracle: Oracle) -> "Counter[str]":
    """Every refused tuple stands in quarantine once, with its says and the oracle's reason."""
    expected = oracle.quarantine()
    found: dict[Place, list[tuple[str, str, int, int]]] = {place: [] for place in expected}
    reasons: Counter[str] = Counter()
    for partition in range(scenario.topology.partitions):
        for entry in cluster.committed((QUARANTINE, partition)):
            (reason_name, reason), (from_name, where), *headers = entry.headers
            assert (reason_name, from_name) == ("bw-reason", "bw-from")
            topic, input_partition, offset = where.decode().split(" ")
            assert int(input_partition) == partition
            found[topic, partition].append((reason.decode(), topic, partition, int(offset)))
            reasons[reason.decode()] += 1
            record = next(r for r in oracle.inputs[topic, partition] if r[1] == int(offset))
            assert (entry.time, entry.key, entry.value) == (record[0], record[2], record[3] or b"")
            assert headers == [(name, content or b"") for name, content in record[4] if name == "bw-says"][:1]
    assert found == expected
    return reasons


def check_agreement(scenario: Scenario, cluster: SimulatedCluster) -> None:
    """Any two lanes have what they share in the same order."""
    for partition in range(scenario.topology.partitions):
        logs = [
            [(key, value) for _, key, value, _ in log_of(cluster, site, partition)]
            for site in scenario.topology.sites.values()
        ]
        for one in logs:
            assert len(set(one)) == len(one), "nothing stands twice"
            for other in logs:
                shared = set(one) & set(other)
                assert [said for said in one if said in shared] == [said for said in other if said in shared]


def check_isolation(scenario: Scenario, processes: Sequence[Process]) -> None:
    """A lane reads no topic from which its site can have nothing."""
    mode, groups = scenario.topology.mode, scenario.topology.groups
    for process in processes:
        assert process.client is not None
        if process.site is not None:
            possible = {f"in.{g.stream}.{g.name}" for g in groups if mode.admits(process.site.subject, g.possible.low)}
            assert {topic for topic, _ in process.client.positions} == {"policy", *possible}


def check_all(scenario: Scenario, cluster: SimulatedCluster, processes: Sequence[Process]) -> "Counter[str]":
    """All of the above but for the layout."""
    oracle = scenario.oracle()
    for site in scenario.topology.sites.values():
        check_site(scenario, cluster, site, oracle.level(site))
    check_agreement(scenario, cluster)
    check_isolation(scenario, processes)
    return check_quarantine(scenario, cluster, oracle)


TOPOLOGIES = list(LABELS)


# ------------------------------------------------------------------------------------------------ tests


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_without_crashes_logs_and_their_layout_are_the_oracles(name: str) -> None:
    for seed in range(12 * CAMPAIGN):
        rng = random.Random(f"calm {name} {seed}")
        scenario = make_scenario(rng, name, rng.randint(1, 70), jitter=seed % 3 == 2)
        cluster, processes = play(scenario, rng)
        check_all(scenario, cluster, processes)
        oracle = scenario.oracle()
        for site in scenario.topology.sites.values():
            check_layout(scenario, cluster, site, oracle.level(site))


def test_with_crashes_every_tuple_goes_out_once(figure: Figure) -> None:
    crashes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    tuples = runs = 0
    for seed in range(60 * CAMPAIGN):
        rng = random.Random(f"crashes {seed}")
        scenario = make_scenario(rng, TOPOLOGIES[seed % len(TOPOLOGIES)], rng.randint(1, 60), jitter=seed % 3 == 2)
        rate, most = rng.choice([0.002, 0.01, 0.03]), rng.choice([3, 30])
        given_: list[RandomFaults] = []

        def faults(
            _: Site | None,
            rng: random.Random = rng,
            rate: float = rate,
            most: int = most,
            given_: list[RandomFaults] = given_,
        ) -> Faults:
            given_.append(RandomFaults(rng, rate, most))
            return given_[-1]

        cluster, processes = play(scenario, rng, faults, zombies=seed % 2 == 0)
        reasons += check_all(scenario, cluster, processes)
        crashes += sum((faults_.happened for faults_ in given_), Counter())
        tuples += len(scenario.script)
        runs += len(processes)
    figure(
        f"lanes: {tuples:,} tuples and policy records through {runs:,} lanes with {crashes.total():,} crashes at"
        f" {len(crashes)} kinds of points, {reasons.total():,} refused for {len(reasons)} reasons, 0 disagreements"
    )
    assert set(reasons) == set(REASONS)
    for point in ("before", "first written", "some written", "state written", "all written", "committed"):
        assert crashes[f"tuples: {point}"], f"no crash in a transaction: {point}"


@settings(max_examples=25 * CAMPAIGN, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    name=st.sampled_from(TOPOLOGIES),
    size=st.integers(1, 40),
    seed=st.integers(0, 2**32),
    skew=st.integers(0, 50),
    bucket=st.integers(1, 50),
    tuples=st.integers(1, 7),
    size_limit=st.integers(1, 2_000),
    rate=st.sampled_from([0.0, 0.005, 0.03]),
    jitter=st.booleans(),
)
def test_any_settings(
    name: str, size: int, seed: int, skew: int, bucket: int, tuples: int, size_limit: int, rate: float, jitter: bool
) -> None:
    rng = random.Random(seed)
    shape = {"skew_ms": skew, "bucket_ms": bucket, "transaction_tuples": tuples, "transaction_bytes": size_limit}
    scenario = make_scenario(rng, name, size, jitter, **shape)
    cluster, processes = play(scenario, rng, lambda _: RandomFaults(rng, rate, 20))
    check_all(scenario, cluster, processes)


@pytest.mark.parametrize("quarantine", [False, True])
def test_a_crash_at_every_single_point(quarantine: bool, figure: Figure) -> None:
    """The same run again and again, each time with a crash one point later."""
    points: Counter[str] = Counter()
    for seed in range(2 * CAMPAIGN):
        rng = random.Random(f"points {seed}")
        scenario = make_scenario(rng, "crowded", 8, jitter=seed % 2 == 1, transaction_tuples=2 + seed % 3)
        oracle = scenario.oracle()
        site = None if quarantine else scenario.topology.sites["top"]
        expected = oracle.level(site) if site else Level()
        number = 0
        while True:
            fault = NthFault(number)
            cluster, _ = play(scenario, random.Random(seed), lambda _, fault=fault: fault, [site], late=seed % 4 == 0)  # type: ignore[misc]
            if site:
                check_site(scenario, cluster, site, expected)
            else:
                check_quarantine(scenario, cluster, oracle)
            if not fault.point:
                break
            points[fault.point] += 1
            number += 1
    figure(f"lanes: a crash at each of {points.total():,} points of a run ({'quarantine' if quarantine else 'site'})")
    assert points["tuples: some written"] + points["tuples: all written"]


def test_a_log_is_built_again_with_the_same_bytes() -> None:
    for seed in range(10 * CAMPAIGN):
        rng = random.Random(f"again {seed}")
        scenario = make_scenario(rng, TOPOLOGIES[seed % len(TOPOLOGIES)], 50, jitter=seed % 2 == 1)
        live, _ = play(scenario, rng, late=False)
        again, _ = play(scenario, random.Random(seed), late=True)
        for site in scenario.topology.sites.values():
            for partition in range(scenario.topology.partitions):
                place = (f"level.{site.name}", partition)
                assert live.layout(place) == again.layout(place)


def _not_for(scenario: Scenario, site: Site) -> tuple[list[Append], list[Append]]:
    """The script in two parts: the site's own history with the policy, and what the site must not notice."""
    oracle = scenario.oracle()
    own: list[Append] = []
    other: list[Append] = []
    verdicts = {place: iter(oracle.verdicts(place, site)) for place in scenario.bases if place != POLICY}
    for line in scenario.script:
        outcome = PROVEN if line.place == POLICY else next(verdicts[line.place]).outcome
        if outcome != "stale-sequence":  # put before the one that made it stale, it would be the site's
            (own if outcome == PROVEN else other).append(line)
    return own, other


def _altered(rng: random.Random, scenario: Scenario, other: Sequence[Append]) -> list[Append]:
    """Other tuples that the site must not notice: fewer, doubled, broken or with other contents."""
    result = []
    for line in other:
        match rng.randrange(5):
            case 0:
                pass
            case 1:
                result.append(replace(line, value=(line.value or b"") + b"altered"))
            case 2:
                result += [line, replace(line, value=rng.randbytes(rng.choice([0, 5, 500])))]
            case 3:
                result.append(replace(line, headers=()))
            case 4:
                result += [line] * rng.randint(1, 4)
    return result


def _more(rng: random.Random, scenario: Scenario, site: Site, writer: Writer, number: int) -> list[Append]:
    """Tuples, proven and not, whose labels are not for the site; in mixed groups and in those above it."""
    mode = scenario.topology.mode
    last = max(line.at for line in scenario.script)
    for _ in range(number):
        draft = writer.draft(rng.randint(BEGIN, last))
        stream, source = writer.topology.streams[draft.group.stream], writer.topology.sources.get(draft.source)
        if stream.labelling == "claimed":
            labels = [
                text for text in LABELS[scenario.topology.name] if not mode.admits(site.subject, mode.parse(text))
            ]
            if not labels:
                writer.drafts.pop()
                continue
            fitting = [x for x in labels if source and source.range and mode.within(mode.parse(x), source.range)]
            draft.label = rng.choice(fitting or labels)
        elif mode.admits(site.subject, draft.group.possible.low):
            writer.drafts.pop()
    writer.sign()
    return [line for line in writer.lines if line.place != POLICY]


def _noninterference_pair(seed: int) -> tuple[random.Random, Scenario, list[Scenario], Site]:
    rng = random.Random(f"silence {seed}")
    name = [name for name in TOPOLOGIES if name != "stocks"][seed % 4]
    topology = _topology(rng, name)
    jitter = seed % 3 == 2
    writer = Jitter(rng, topology) if jitter else Writer(rng, topology)
    if isinstance(writer, Jitter):
        writer.most = max(topology.lanes.skew_ms - 1, 0)
    times = _times(rng, 50)
    writer.announce(BEGIN - 10, times[-1] + 1)
    for at in times:
        writer.draft(at)
    writer.sign()
    scenario = scenario_of(rng, writer)
    site = rng.choice([site for site in topology.sites.values() if _has_above(topology, site)])
    own, other = _not_for(scenario, site)
    writer.lines = []
    more = _more(rng, scenario, site, writer, 40)
    variants = [own, own + _altered(rng, scenario, other), own + more, own + other + more]
    made = []
    for variant in variants:
        # Python's sort is stable: the site's own tuples of a millisecond stay in order, the others go before or after.
        before = rng.random() < 0.5
        own_ids = {id(line) for line in own}
        lines = sorted(variant, key=lambda line: (line.at, (id(line) in own_ids) == before))
        made.append(replace(scenario, script=tuple(lines)))
    return rng, scenario, made, site


def _has_above(topology: Topology, site: Site) -> bool:
    mode = topology.mode
    return any(not mode.admits(site.subject, group.possible.high) for group in topology.groups)


def _same_history(scenario: Scenario, variants: Sequence[Scenario], site: Site) -> Level:
    """Nothing that a variant has besides is for the site: the oracle's logs are the same."""
    level = scenario.oracle().level(site)
    for variant in variants:
        other = variant.oracle().level(site)
        assert (other.log, other.cuts) == (level.log, level.cuts)
    return level


def test_what_is_above_a_site_never_shows_at_it() -> None:
    """R7, R3: the raw log, with offsets, boundaries and markers, is the same whatever High does."""
    seen = 0
    for seed in range(24 * CAMPAIGN):
        rng, scenario, variants, site = _noninterference_pair(seed)
        level = _same_history(scenario, variants, site)
        seen += sum(map(len, level.log.values()))
        layouts = []
        for variant in [scenario, *variants]:
            cluster, _ = play(variant, rng, sites=[site])
            layouts.append([cluster.layout((f"level.{site.name}", p)) for p in range(scenario.topology.partitions)])
        assert all(layout == layouts[0] for layout in layouts)
    assert seen > 100 * CAMPAIGN


def test_what_is_above_a_site_never_shows_at_it_with_crashes() -> None:
    """The same with crashes in the same transactions of the site's lane: even what was aborted is the same."""
    crashes = 0
    for seed in range(16 * CAMPAIGN):
        rng, scenario, variants, site = _noninterference_pair(1_000 + seed)
        scenario, *variants = (
            replace(each, topology=replace(each.topology, partitions=1), script=_first_partition(each))
            for each in [scenario, *variants]
        )
        _same_history(scenario, variants, site)
        points = ["before", "first written", "some written", "state written", "all written", "committed"]
        steps = {number: f"tuples: {rng.choice(points)}" for number in range(30) if rng.random() < 0.3}
        layouts, contents = [], []
        for variant in [scenario, *variants]:
            faults = PublishFaults(steps)
            cluster, _ = play(variant, rng, lambda _, faults=faults: faults, sites=[site])  # type: ignore[misc]
            layouts.append(cluster.layout((f"level.{site.name}", 0)))
            contents.append(log_of(cluster, site, 0))
            crashes += faults.happened
        assert all(content == contents[0] for content in contents)
        assert all(layout == layouts[0] for layout in layouts)
    assert crashes > 10 * CAMPAIGN


def _first_partition(scenario: Scenario) -> tuple[Append, ...]:
    return tuple(line for line in scenario.script if line.place[1] == 0)


def test_clocks_as_far_apart_as_allowed_change_nothing() -> None:
    """R2: dense traffic on one partition, followed step by step, with clocks that go back by almost the skew."""
    for seed in range(40 * CAMPAIGN):
        rng = random.Random(f"apart {seed}")
        topology = _topology(rng, TOPOLOGIES[seed % 4], skew_ms=50, bucket_ms=rng.choice([1, 10]))
        writer = Jitter(rng, replace(topology, partitions=1), flawed=0.1)
        writer.most = 49
        writer.announce(BEGIN - 10, BEGIN + 200)
        for number in range(100):
            writer.draft(BEGIN + 2 * number)
        writer.sign()
        scenario = scenario_of(rng, writer)
        oracle = scenario.oracle()
        cluster = SimulatedCluster(scenario.script, scenario.bases, BEGIN - 20, rng)
        sites = list(topology.sites.values())
        processes = [Process(scenario, cluster, site, rng, NoFaults(), 1, 1000) for site in sites]
        rounds = 0
        while sum(process.step() for process in processes) < len(processes):
            cluster.pass_time(1)
            rounds += 1
            assert rounds < 20_000, "no progress"
        for site in sites:
            check_site(scenario, cluster, site, oracle.level(site))
        check_agreement(scenario, cluster)


def test_clocks_further_apart_than_allowed_lose_nothing() -> None:
    """R2: late tuples are placed at once; the log is complete, in order of time, and the overrun is audited."""
    overruns = 0
    for seed in range(16 * CAMPAIGN):
        rng = random.Random(f"late {seed}")
        topology = _topology(rng, TOPOLOGIES[seed % len(TOPOLOGIES)], skew_ms=rng.choice([0, 5]))
        writer = Jitter(rng, topology, flawed=0.1)
        times = _times(rng, 50)
        writer.announce(BEGIN - 10, BEGIN - 10)  # policy in time needs the clocks; here it is always the same
        writer.most = 60
        for at in times:
            writer.draft(at + 200)
        writer.sign()
        scenario = scenario_of(rng, writer)
        oracle = scenario.oracle()
        crashing = seed % 2 == 0
        cluster, processes = play(scenario, rng, lambda _, r=rng, c=crashing: RandomFaults(r, 0.01 * c, 10))  # type: ignore[misc]
        check_quarantine(scenario, cluster, oracle)
        for process in processes:
            if process.site is None:
                continue
            _calm(process)
            assert process.lane is not None
            process.lane.drain()
            differs = False
            for partition in range(topology.partitions):
                log = log_of(cluster, process.site, partition)
                expected = oracle.level(process.site).log[partition]
                differs = differs or log != expected
                assert sorted(map(_said, log)) == sorted(map(_said, expected))
                assert [t for t, *_ in log] == sorted(t for t, *_ in log)
                numbers = [int.from_bytes(headers[1][1], "big") for _, _, _, headers in log]
                assert numbers == list(range(1, len(log) + 1))
            audited = [e.value for e in cluster.committed(("audit", 0)) if e.key == process.name]
            overrun = any(isinstance(value, dict) and value["event"] == "overrun" for value in audited)
            overruns += overrun
            if differs and not process.restarts:
                assert overrun
    assert overruns


def _said(tuple_: Outgoing) -> tuple[bytes, bytes, bytes]:
    _, key, value, headers = tuple_
    return key or b"", value or b"", headers[0][1]


def _simple(rng: random.Random) -> tuple[Scenario, Site]:
    topology = replace(_topology(rng, "battlefield", skew_ms=5, bucket_ms=5, transaction_tuples=2), partitions=1)
    writer = Writer(rng, topology, flawed=0)
    writer.announce(BEGIN - 10, BEGIN - 10)
    for number in range(40):
        writer.draft(BEGIN + 10 * number)
    writer.sign()
    return scenario_of(rng, writer), topology.sites["H"]


def test_a_lane_without_its_state_does_not_start_beside_a_log() -> None:
    rng = random.Random(1)
    scenario, site = _simple(rng)
    for lane, log in ((site, "level.H"), (None, QUARANTINE)):
        cluster, _ = play(scenario, rng, sites=[lane])
        name = lane.name if lane else QUARANTINE
        cluster.logs[f"lane.{name}", 0] = []
        if lane is None:  # nothing is refused here
            transaction = cluster.begin(QUARANTINE)
            cluster.write(transaction, (log, 0), 0, b"k", b"v")
            cluster.finish(transaction, "COMMIT")
        before = list(cluster.logs[log, 0])
        with pytest.raises(LaneError) as error:
            scenario.lane(lane, SimulatedClient(cluster, name, rng, NoFaults()))
        assert not isinstance(error.value, Fenced | Away)
        assert cluster.logs[log, 0] == before
        del cluster.logs[log, 0]
        scenario.lane(lane, SimulatedClient(cluster, name, rng, NoFaults()))  # both are gone: from the beginning


def test_the_state_stands_before_the_first_tuple() -> None:
    """R8: so a log with anything in it, even aborted, has a state beside it, wherever the first run crashed."""
    for number in range(400):
        rng = random.Random(2)
        scenario, site = _simple(rng)
        cluster = SimulatedCluster(scenario.script, scenario.bases, BEGIN, rng)
        fault = NthFault(number)
        try:
            lane = scenario.lane(site, SimulatedClient(cluster, site.name, rng, fault))
            while not cluster.logs.get(("level.H", 0)):
                assert cluster.clock < scenario.end + 1_000, "no progress"
                lane.step()
        except Crash:
            pass
        if cluster.logs.get(("level.H", 0)):
            assert cluster.compacted(("lane.H", 0))
        scenario.lane(site, SimulatedClient(cluster, site.name, rng, NoFaults()))
        if not fault.point:
            return
    raise AssertionError("the lane never published")


def test_a_fenced_lane_cannot_publish() -> None:
    rng = random.Random(3)
    scenario, site = _simple(rng)
    cluster = SimulatedCluster(scenario.script, scenario.bases, BEGIN, rng)
    old = scenario.lane(site, SimulatedClient(cluster, site.name, rng, NoFaults()))
    while len(cluster.committed(("level.H", 0))) < 6:
        assert cluster.clock < scenario.end + 1_000, "no progress"
        old.step()
    scenario.lane(site, SimulatedClient(cluster, site.name, rng, NoFaults()))
    before = list(cluster.logs["level.H", 0])
    with pytest.raises(Fenced):
        for _ in range(1_000):
            old.step()
    assert cluster.logs["level.H", 0] == before
    with pytest.raises(Fenced):
        old.drain()


class Steady(random.Random):
    """No chance at all: nothing is late, reads give all there is, and no time passes by itself."""

    def random(self) -> float:
        return 0.5

    def randint(self, a: int, b: int) -> int:
        return b


def _by_hand(**lanes: int) -> tuple[Writer, Callable[..., Draft]]:
    """A writer, and a way to have sources say just this."""
    found = load_example("battlefield")
    topology = replace(found, partitions=1, lanes=found.lanes.model_copy(update=lanes))
    writer = Writer(random.Random(5), topology, flawed=0)
    for number, source in enumerate(topology.sources, 1):
        writer.keys[source] = [
            ProvingKey(bytes([1, number, which] + [9] * 5), source, says.Proof.HMAC, 10 * number + which)
            for which in range(2)
        ]
        for key in writer.keys[source]:
            change = writer._key_change(key)
            writer.lines.append(Append(BEGIN - 500, BEGIN - 500, POLICY, None, writer._signed(change)))

    def say(at: int, source: str, stream: str, label: str, sequence: int, which: int = 0, flaw: str = "") -> Draft:
        group = next(g for g in topology.groups if g.stream == stream and source in g.sources)
        key = writer.keys[source][which]
        content = (None, f"{source} {label} {sequence} {flaw}".encode())
        draft = Draft(at, group, 0, source, key.proof, key, label, sequence, content, flaw)
        writer.drafts.append(draft)
        return draft

    return writer, say


@pytest.mark.parametrize("high", [True, False])
def test_a_tuple_that_waits_to_be_judged_is_not_overtaken(high: bool) -> None:
    """R2, R7: a clock that goes back within its limit behind a tuple from High changes nothing for Low."""
    writer, say = _by_hand(skew_ms=50, bucket_ms=1, transaction_tuples=1)
    say(BEGIN + 948, "patrol", "Vitals", "L", 1)
    if high:
        say(BEGIN + 960, "field-hospital", "Vitals", "H", 1)
    say(BEGIN + 990, "field-hospital", "Vitals", "L", 1)
    say(BEGIN + 1000, "field-hospital", "Vitals", "H", 2)
    writer.sign()
    # The clock of the hospital's broker was 45 ms behind for a moment: less than the 50 that are allowed.
    writer.lines = [replace(x, stamp=BEGIN + 945) if x.at == BEGIN + 990 else x for x in writer.lines]
    rng = Steady()
    scenario = scenario_of(random.Random(6), writer)
    for site in scenario.topology.sites.values():
        cluster = SimulatedCluster(scenario.script, scenario.bases, BEGIN - 600, rng)
        lane = scenario.lane(site, SimulatedClient(cluster, site.name, rng, NoFaults(), pace=0, most=100))
        for clock in (BEGIN + 1000, BEGIN + 1100):
            cluster.pass_time(clock - cluster.clock)
            lane.step()
            lane.step()
        check_site(scenario, cluster, site, scenario.oracle().level(site))


def test_the_last_sequence_of_a_source_is_kept_whatever_key_proved_it() -> None:
    """R2: two claims of one source with one label in turn, the first of which was not proven at first."""
    writer, say = _by_hand(skew_ms=0, bucket_ms=50, transaction_tuples=3)
    say(BEGIN, "field-hospital", "Vitals", "H", 1, 0, "bad-proof")
    for sequence in range(1, 7):
        say(BEGIN, "field-hospital", "Vitals", "H", sequence, sequence % 2)
    writer.sign()
    scenario = scenario_of(random.Random(6), writer)
    site = scenario.topology.sites["H"]
    for steps in ({}, {1: "tuples: before"}, {0: "tuples: committed"}):
        cluster, _ = play(scenario, Steady(), lambda _, s=steps: PublishFaults(s), [site], late=True)  # type: ignore[misc]
        check_site(scenario, cluster, site, scenario.oracle().level(site))


def _history_of_changes(*changes: bytes) -> tuple[SimulatedCluster, Lane]:
    lines = [Append(BEGIN + i, BEGIN + i, POLICY, None, policy_record(change)) for i, change in enumerate(changes)]
    rng = random.Random(4)
    writer = Writer(rng, replace(load_example("battlefield"), partitions=1))
    writer.lines = lines
    scenario = scenario_of(rng, writer)
    cluster = SimulatedCluster(scenario.script, scenario.bases, scenario.end, rng)
    lane = scenario.lane(scenario.topology.sites["L"], SimulatedClient(cluster, "L", rng, NoFaults()))
    lane.step()
    return cluster, lane


GOOD_KEY = {"number": 1, "type": "key", "source": "patrol", "key_id": "0123456789abcdef", "proof": "hmac", "public": ""}


@pytest.mark.parametrize(
    "different",
    [
        {"number": "1"}, {"number": 1.5}, {"number": 2.0}, {"number": True}, {"number": 0}, {"number": None},
        {"source": 5}, {"source": None}, {"source": ["patrol"]},
        {"key_id": "01 23456789abcdef"}, {"key_id": "0123 4567 89ab cdef"}, {"key_id": "00" * 8}, {"key_id": "01"},
        {"key_id": 5}, {"proof": "none"}, {"proof": "HMAC"}, {"proof": 1}, {"proof": "ed25519"}, {"public": "00"},
        {"public": " "}, {"public": None}, {"type": "keys"}, {"type": None}, {"type": []}, {"more": ""},
        {"key_id": "0123456789ABCDEF"},
        {"number": -1},
        {"type": "revoke-source", "source": 5}, {"type": "revoke-key", "key_id": "0123 4567 89ab cdef"},
        {"proof": "ed25519", "public": "00 " * 32},
    ],
    ids=str,
)  # fmt: skip
def test_a_change_that_differs_from_the_specification_counts_for_nothing(different: dict[str, object]) -> None:
    _, lane = _history_of_changes(written(GOOD_KEY | {"number": 7} | different))
    assert (lane.history.number, lane.ignored) == (0, 1)


@pytest.mark.parametrize(
    "change", [json.dumps(GOOD_KEY).encode(), b"\n" + written(GOOD_KEY), b"[]", b"1", b""], ids=str
)
def test_a_change_that_is_written_otherwise_counts_for_nothing(change: bytes) -> None:
    _, lane = _history_of_changes(change)
    assert (lane.history.number, lane.ignored) == (0, 1)


def test_changes_that_count() -> None:
    revoke = {"number": 3, "type": "revoke-source", "source": "patrol"}
    _, lane = _history_of_changes(written(GOOD_KEY), written(revoke))
    assert (lane.history.number, lane.ignored) == (3, 0)
