"""What lanes should make of their inputs: SPECIFICATION.md read word by word, slowly, from whole inputs at once.

It shares no code with the lanes: headers, evidence and policy are read here in their own way. Only the label modes
are the same, which have a model of their own.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from security_lattice import LabelSyntaxError
from topology.cluster import Group, Site, Topology

Headers = Sequence[tuple[str, bytes | None]]
Place = tuple[str, int]
Record = tuple[int, int, bytes | None, bytes | None, Headers]  # append time, offset, key, value, headers
Outgoing = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes]]]  # time, key, value, headers
Refusal = tuple[str, str, int, int]  # reason, topic, partition, offset

SKIPPED = "skipped"
PROVEN = "proven"
PROOF_NAMES = ["none", "hmac", "ed25519", "ed25519-batch"]
STRENGTHS = {"none": 0, "hmac": 1, "ed25519": 2, "ed25519-batch": 2}


@dataclass(frozen=True)
class Verdict:
    """What becomes of one tuple of an input partition."""

    outcome: str  # PROVEN, SKIPPED or the reason of the refusal
    place_in_time: int = 0
    source: str = ""
    label: Any = None


@dataclass
class Level:
    """The log of one site by partition, and the sizes of its transactions."""

    log: dict[int, list[Outgoing]] = field(default_factory=dict)
    origins: dict[int, list[tuple[str, int]]] = field(default_factory=dict)  # topic and offset of each
    cuts: dict[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Said:
    """A header that is what section 1 says."""

    proof: str
    key_id: bytes
    source: str
    label: str
    claim: bytes
    sequence: int
    evidence: bytes


@dataclass
class Rules:
    """The policy at one moment."""

    keys: dict[str, tuple[str, str, bytes]] = field(default_factory=dict)  # by hex id: source, proof, public key
    revoked_keys: set[str] = field(default_factory=set)
    revoked_sources: set[str] = field(default_factory=set)


class Oracle:
    """The expected outcome of whole inputs."""

    def __init__(
        self,
        topology: Topology,
        inputs: Mapping[Place, Sequence[Record]],
        authority: bytes,
        secrets: Mapping[bytes, bytes],
        unreadable: Headers,
    ) -> None:
        """`unreadable` stands in the place of the headers of a batch that is not what Kafka's format says."""
        self.topology, self.inputs, self.secrets, self.unreadable = topology, inputs, secrets, unreadable
        self.changes = _changes_that_count(inputs["policy", 0], authority)
        self.groups: dict[str, Group] = {f"in.{group.stream}.{group.name}": group for group in topology.groups}

    def level(self, site: Site) -> Level:
        """Section 4."""
        result = Level()
        for partition in range(self.topology.partitions):
            found = []
            for topic in self.groups:
                verdicts = self.verdicts((topic, partition), site)
                for record, verdict in zip(self.inputs[topic, partition], verdicts, strict=True):
                    if verdict.outcome == PROVEN:
                        found.append(((verdict.place_in_time, topic, record[1]), record, verdict))
            found.sort(key=lambda item: item[0])
            log: list[Outgoing] = []
            for number, ((place_in_time, topic, _), (_, _, key, value, _), verdict) in enumerate(found, 1):
                seen = self.topology.mode.seen_by(site.subject, verdict.label)
                stamp = [self.groups[topic].stream, self.topology.mode.format(seen), verdict.source]
                headers = [("bw-stamp", "\0".join(stamp).encode()), ("bw-seq", number.to_bytes(8, "big"))]
                log.append((place_in_time, key, value, headers))
            result.log[partition] = log
            result.origins[partition] = [(topic, offset) for (_, topic, offset), _, _ in found]
            result.cuts[partition] = self._cuts(log)
        return result

    def quarantine(self) -> dict[Place, list[Refusal]]:
        """What the quarantine lane says, by input partition."""
        result: dict[Place, list[Refusal]] = {}
        for topic in self.groups:
            for partition in range(self.topology.partitions):
                verdicts = self.verdicts((topic, partition), None)
                result[topic, partition] = [
                    (verdict.outcome, topic, partition, record[1])
                    for record, verdict in zip(self.inputs[topic, partition], verdicts, strict=True)
                    if verdict.outcome != PROVEN
                ]
        return result

    def verdicts(self, place: Place, site: Site | None) -> list[Verdict]:
        """Section 3, for one input partition; no site is the quarantine lane."""
        proven: dict[tuple[str, Any], tuple[int, int]] = {}  # source and label: the last sequence and place in time
        verdicts = []
        for time, _, key, value, headers in self.inputs[place]:
            outcome, said, label = self._outcome(place, site, time, key, value, headers)
            place_in_time = 0
            if outcome == PROVEN:
                assert said is not None
                last_sequence, last_time = proven.get((said.source, label), (0, 0))
                if said.sequence <= last_sequence:
                    outcome = "stale-sequence"
                else:
                    place_in_time = time if time > last_time else last_time
                    proven[said.source, label] = (said.sequence, place_in_time)
            verdicts.append(Verdict(outcome, place_in_time, said.source if said else "", label))
        return verdicts

    def _outcome(
        self, place: Place, site: Site | None, time: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> tuple[str, Said | None, Any]:
        """The first check that fails, but for the last one."""
        group = self.groups[place[0]]
        topology, mode = self.topology, self.topology.mode
        stream = topology.streams[group.stream]
        if headers is self.unreadable:
            return "unreadable", None, None
        mine = [content for name, content in headers if name == "bw-says"]
        if len(mine) != 1:
            return "no-says", None, None
        said = _read_header(mine[0])
        if said is None or (key is None and value is None):
            return "malformed", None, None
        if said.source not in group.sources:
            return "unknown-source", said, None
        source = topology.sources[said.source]
        rules = self._rules(time)
        if said.source in rules.revoked_sources:
            return "revoked-source", said, None
        if STRENGTHS[said.proof] < STRENGTHS[stream.proof]:
            return "weak-proof", said, None
        public = b""
        if said.proof != "none":
            found = rules.keys.get(said.key_id.hex())
            if found is None or found[0] != said.source or found[1] != said.proof:
                return "unknown-key", said, None
            if said.key_id.hex() in rules.revoked_keys:
                return "revoked-key", said, None
            public = found[2]
        if stream.labelling == "claimed":
            if said.label == "":
                return "bad-label", said, None
            try:
                label = mode.parse(said.label)
            except LabelSyntaxError:
                return "bad-label", said, None
        else:
            if said.label != "":
                return "bad-label", said, None
            if stream.labelling == "fixed":
                label = stream.fixed
            else:
                assert source.range is not None
                label = source.range.low
        if source.range is not None and not mode.within(label, source.range):
            return "out-of-range", said, label
        if stream.floor is not None and not mode.dominates(label, stream.floor):
            return "below-floor", said, label
        if site is not None and not mode.admits(site.subject, label):
            return SKIPPED, said, label
        if binascii.crc32(b"" if key is None else key) % topology.partitions != place[1]:
            return "wrong-partition", said, label
        if not self._holds(said, stream.name, key, value, public):
            return "bad-proof", said, label
        return PROVEN, said, label

    def _rules(self, time: int) -> Rules:
        """Section 2: the changes before this millisecond."""
        rules = Rules()
        for effective, change in self.changes:
            if effective >= time:
                break
            if change["type"] == "key":
                public = bytes.fromhex(change["public"])
                rules.keys[change["key_id"]] = (change["source"], change["proof"], public)
            elif change["type"] == "revoke-key":
                rules.revoked_keys.add(change["key_id"])
            else:
                rules.revoked_sources.add(change["source"])
        return rules

    def _holds(self, said: Said, stream: str, key: bytes | None, value: bytes | None, public: bytes) -> bool:
        """Section 1: whether the evidence is what it must be."""
        signed = b"bellwether says 1\x00"
        signed += bytes([len(stream.encode())]) + stream.encode()
        signed += len(said.claim).to_bytes(2, "big") + said.claim + said.sequence.to_bytes(8, "big")
        signed += b"\x00" if key is None else b"\x01" + len(key).to_bytes(4, "big") + key
        signed += b"\x00" if value is None else b"\x01" + value
        if said.proof == "none":
            return said.evidence == b""
        if said.proof == "hmac":
            return said.evidence == hmac.new(self.secrets[said.key_id], signed, hashlib.sha256).digest()
        if said.proof == "ed25519":
            return _is_signature(public, signed, said.evidence)
        signature, index_bytes, path = said.evidence[:64], said.evidence[64:68], said.evidence[68:]
        if len(index_bytes) != 4 or len(path) % 32 != 0 or len(path) > 16 * 32:
            return False
        bits = int.from_bytes(index_bytes, "big")
        top = hashlib.sha256(b"\x00" + signed).digest()
        while path:
            companion, path = path[:32], path[32:]
            pair = companion + top if bits % 2 == 1 else top + companion
            top = hashlib.sha256(b"\x01" + pair).digest()
            bits //= 2
        return bits == 0 and _is_signature(public, b"bellwether batch 1\x00" + top, signature)

    def _cuts(self, log: Sequence[Outgoing]) -> list[int]:
        """Section 4, shape: the number of tuples of each transaction."""
        lanes = self.topology.lanes
        cuts: list[int] = []
        tuples = size = 0
        for number, (time, key, value, _) in enumerate(log):
            tuples += 1
            size += 200 + len(key or b"") + len(value or b"")
            full = tuples == lanes.transaction_tuples or size >= lanes.transaction_bytes
            last = number + 1 == len(log)
            if full or last or log[number + 1][0] // lanes.bucket_ms != time // lanes.bucket_ms:
                cuts.append(tuples)
                tuples = size = 0
        return cuts


def _read_header(header: bytes | None) -> Said | None:
    """A header by section 1, or None if it is not what that says."""
    if header is None or len(header) < 2:
        return None
    length = header[0] * 256 + header[1]
    if length > 1024 or len(header) < 2 + length + 8:
        return None
    claim = header[2 : 2 + length]
    if len(claim) < 11 or claim[0] != 1 or claim[1] >= len(PROOF_NAMES) or len(claim) < 11 + claim[10]:
        return None
    key_id = claim[2:10]
    try:
        source, label = claim[11 : 11 + claim[10]].decode("utf-8"), claim[11 + claim[10] :].decode("utf-8")
    except UnicodeDecodeError:
        return None
    if (claim[1] == 0) != (key_id == b"\x00" * 8):
        return None
    sequence = int.from_bytes(header[2 + length : 10 + length], "big")
    return Said(PROOF_NAMES[claim[1]], key_id, source, label, claim, sequence, header[10 + length :])


def _changes_that_count(records: Sequence[Record], authority: bytes) -> list[tuple[int, dict[str, Any]]]:
    """Section 2: the changes of the topic `policy` with the millisecond after which each is in force."""
    changes: list[tuple[int, dict[str, Any]]] = []
    used: set[str] = set()
    number = effective = 0
    for time, _, _, value, _ in records:
        if value is None or not _is_signature(authority, b"bellwether policy 1\x00" + value[64:], value[:64]):
            continue
        try:
            change = json.loads(value[64:].decode("utf-8"))
        except ValueError:
            continue
        if not _is_change(change) or _written(change) != value[64:] or change["number"] <= number:
            continue
        if change["type"] == "key":
            if change["key_id"] in used:
                continue
            used.add(change["key_id"])
        number = change["number"]
        effective = max(effective, time)
        changes.append((effective, change))
    return changes


def _written(change: dict[str, Any]) -> bytes:
    """The one way to write a change: keys sorted, no blanks."""
    return ("{" + ",".join(f"{json.dumps(k)}:{json.dumps(change[k])}" for k in sorted(change)) + "}").encode()


FIELDS = {"key": "key_id number proof public source type", "revoke-key": "key_id number type"}


def _is_change(change: Any) -> bool:
    """Whether it has the fields of its type and no others, each as it should be."""
    if not isinstance(change, dict) or type(change.get("number")) is not int or change["number"] <= 0:
        return False
    if not isinstance(change.get("type"), str):
        return False
    if " ".join(sorted(change)) != FIELDS.get(change["type"], "number source type"):
        return False
    if change.get("type") == "key":
        public, proof = change.get("public"), change.get("proof")
        if proof not in PROOF_NAMES[1:] or not _is_hex(public, 0 if proof == "hmac" else 64):
            return False
        return isinstance(change.get("source"), str) and _is_key_id(change.get("key_id"))
    if change.get("type") == "revoke-key":
        return _is_key_id(change.get("key_id"))
    return change.get("type") == "revoke-source" and isinstance(change.get("source"), str)


def _is_key_id(text: Any) -> bool:
    return _is_hex(text, 16) and text != "0" * 16


def _is_hex(text: Any, digits: int) -> bool:
    return isinstance(text, str) and len(text) == digits and all(c in "0123456789abcdef" for c in text)


@lru_cache(maxsize=10_000)
def _is_signature(public: bytes, signed: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, signed)
    except InvalidSignature:
        return False
    return True
