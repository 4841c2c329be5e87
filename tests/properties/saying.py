"""Sources, keys, an authority and a slow judge for tests, written from shepherd/SPECIFICATION.md alone.

Nothing here uses the package `shepherd`, so that a fault of the one cannot hide a fault of the other. Labels are
those of `label_model`, and a cluster is a plain table here, of which the topology under test is made too.
"""

import hmac
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tests.properties.label_model import Fault, MlsModel, OxrbacModel, RbacModel

HEADER = "bw-says"
NONE, HMAC, ED25519, BATCH = range(4)
PROOF_NAMES = ("none", "hmac", "ed25519", "ed25519-batch")
STRENGTH = (0, 1, 2, 2)
ZEROS = bytes(8)
MOST_CLAIM = 1024
MOST_PATH = 16
# The reasons that are found before the evidence is looked at, in the order of the checks, and those after.
EARLY = (
    "no-says", "malformed", "unknown-source", "revoked-source", "weak-proof", "unknown-key", "revoked-key",
    "bad-label", "out-of-range", "below-floor",
)  # fmt: skip
REASONS = (*EARLY, "bad-proof", "stale-sequence")

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """What a topic holds of a tuple, but for its time."""

    key: bytes | None
    value: bytes | None
    headers: Headers


# ---- section 1: bytes ----


def claim_bytes(proof: int, key_id: bytes, source: str, label: str, version: int = 1) -> bytes:
    name = source.encode()
    return bytes([version, proof]) + key_id + bytes([len(name)]) + name + label.encode()


def signed_bytes(stream: str, claim: bytes, sequence: int, key: bytes | None, value: bytes | None) -> bytes:
    parts = [b"bellwether says 1\x00", struct.pack(">B", len(stream)), stream.encode()]
    parts += [struct.pack(">H", len(claim)), claim, struct.pack(">Q", sequence)]
    parts += [b"\x00"] if key is None else [b"\x01", struct.pack(">I", len(key)), key]
    parts += [b"\x00"] if value is None else [b"\x01", value]
    return b"".join(parts)


def read_signed(signed: bytes) -> tuple[str, bytes, int, bytes | None, bytes | None]:
    """The tuple that signed bytes stand for: where this gives it back, no other tuple has the same bytes."""
    assert signed.startswith(b"bellwether says 1\x00")
    left = signed[18:]
    stream, left = left[1 : 1 + left[0]], left[1 + left[0] :]
    length = int.from_bytes(left[:2], "big")
    claim, left = left[2 : 2 + length], left[2 + length :]
    sequence, left = int.from_bytes(left[:8], "big"), left[8:]
    key = None
    if left[0]:
        length = int.from_bytes(left[1:5], "big")
        key, left = left[5 : 5 + length], left[5 + length :]
    else:
        left = left[1:]
    assert left[0] or len(left) == 1
    return stream.decode(), claim, sequence, key, left[1:] if left[0] else None


def header_bytes(claim: bytes, sequence: int, evidence: bytes) -> bytes:
    return struct.pack(">H", len(claim)) + claim + struct.pack(">Q", sequence) + evidence


def leaf_of(signed: bytes) -> bytes:
    return sha256(b"\x00" + signed).digest()


def node_of(left: bytes, right: bytes) -> bytes:
    return sha256(b"\x01" + left + right).digest()


def tree_rows(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """The rows of a tree, leaves first, root last; what has no companion is its own."""
    rows = [list(leaves)]
    while len(rows[-1]) > 1:
        row = rows[-1]
        rows.append([node_of(row[i], row[min(i + 1, len(row) - 1)]) for i in range(0, len(row), 2)])
    return rows


def path_to_root(rows: Sequence[Sequence[bytes]], place: int) -> tuple[int, list[bytes]]:
    """The index bits of a leaf and its companions."""
    bits, path = 0, []
    for level, row in enumerate(rows[:-1]):
        companion = place ^ 1
        path.append(row[companion] if companion < len(row) else row[place])
        bits |= (place & 1) << level
        place >>= 1
    return bits, path


def batch_evidence(signature: bytes, bits: int, path: Iterable[bytes]) -> bytes:
    return signature + struct.pack(">I", bits) + b"".join(path)


def root_part(root: bytes) -> bytes:
    return b"bellwether batch 1\x00" + root


# ---- keys and speakers ----


@dataclass(frozen=True)
class Key:
    """A source's key of any kind: `secret` is the HMAC secret or the seed of an Ed25519 key."""

    key_id: bytes
    source: str
    proof: int
    secret: bytes

    @cached_property
    def private(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)

    @cached_property
    def public(self) -> bytes:
        return b"" if self.proof == HMAC else self.private.public_key().public_bytes_raw()

    def proofs(self, signed: Sequence[bytes]) -> list[bytes]:
        """Evidence for each of these: all under one signature if it is a key for batches."""
        if self.proof == HMAC:
            return [hmac.digest(self.secret, each, "sha256") for each in signed]
        if self.proof == ED25519:
            return [self.private.sign(each) for each in signed]
        rows = tree_rows([leaf_of(each) for each in signed])
        signature = self.private.sign(root_part(rows[-1][0]))
        return [batch_evidence(signature, *path_to_root(rows, place)) for place in range(len(signed))]


@dataclass(frozen=True)
class Said:
    """A tuple that a source said, with all that went into it."""

    stream: str
    source: str
    label: str  # as claimed: empty where the stream gives it
    proof: int
    key_id: bytes
    sequence: int
    key: bytes | None
    value: bytes | None
    evidence: bytes = b""
    others: Headers = ()

    @property
    def claim(self) -> bytes:
        return claim_bytes(self.proof, self.key_id, self.source, self.label)

    @property
    def signed(self) -> bytes:
        return signed_bytes(self.stream, self.claim, self.sequence, self.key, self.value)

    @property
    def header(self) -> bytes:
        return header_bytes(self.claim, self.sequence, self.evidence)

    @property
    def record(self) -> Record:
        return Record(self.key, self.value, (*self.others, (HEADER, self.header)))

    def proven(self, key: Key | None) -> "Said":
        """The same with evidence under this key, whatever key it names."""
        return replace(self, evidence=key.proofs([self.signed])[0] if key else b"")


@dataclass(frozen=True)
class Speaker:
    """A source and its keys, by name of use and proof."""

    source: str
    keys: Mapping[tuple[str, int], Key]

    def say(
        self, stream: str, proof: int, tuples: Iterable[tuple[str, int, bytes | None, bytes | None]], use: str = "good"
    ) -> list[Said]:
        """Say tuples of (label, sequence, key, value), in one batch if the proof is for batches."""
        key = self.keys[use, proof] if proof != NONE else None
        key_id = key.key_id if key else ZEROS
        said = [Said(stream, self.source, label, proof, key_id, *rest) for label, *rest in tuples]  # type: ignore[arg-type]
        if key is None:
            return said
        proofs = key.proofs([each.signed for each in said])
        return [replace(each, evidence=evidence) for each, evidence in zip(said, proofs, strict=True)]


def written(change: Mapping[str, object]) -> bytes:
    """The one way to write a change: keys sorted, no blanks."""
    return json.dumps(change, sort_keys=True, separators=(",", ":")).encode()


class Authority:
    """Signs changes of the policy, and anything else that a test wants signed."""

    def __init__(self, rng: Random) -> None:
        self.private = Ed25519PrivateKey.from_private_bytes(rng.randbytes(32))
        self.public = self.private.public_key().public_bytes_raw()

    def sign(self, change: bytes) -> bytes:
        return self.private.sign(b"bellwether policy 1\x00" + change) + change

    def change(self, number: object, **fields: object) -> bytes:
        return self.sign(written({"number": number, **fields}))

    def key(self, number: int, key: Key) -> bytes:
        about = {"source": key.source, "key_id": key.key_id.hex(), "proof": PROOF_NAMES[key.proof]}
        return self.change(number, type="key", public=key.public.hex(), **about)


# ---- section 2: the policy in time ----


def holds(public: bytes, signed: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, signed)
    except InvalidSignature:
        return False
    return True


@dataclass(frozen=True)
class InForce:
    """What the changes up to some moment come to."""

    keys: Mapping[str, Mapping[str, Any]]  # by id in hex
    revoked_keys: frozenset[str]
    revoked_sources: frozenset[str]


class SlowPolicy:
    """All records of `policy`, looked through anew for every moment that is asked for."""

    def __init__(self, records: Iterable[tuple[int, bytes]], authority: bytes) -> None:
        self._changes: list[tuple[int, dict[str, Any]]] = []
        for time, record in records:
            change = self._counts(record, authority)
            if change is not None:
                self._changes.append((max([time, *(before for before, _ in self._changes)]), change))
        self.at = lru_cache(maxsize=10_000)(self._at)

    @property
    def number(self) -> int:
        return max((change["number"] for _, change in self._changes), default=0)

    def _at(self, time: int) -> InForce:
        changes = [change for since, change in self._changes if since < time]
        return InForce(
            {change["key_id"].lower(): change for change in changes if change["type"] == "key"},
            frozenset(change["key_id"].lower() for change in changes if change["type"] == "revoke-key"),
            frozenset(change["source"] for change in changes if change["type"] == "revoke-source"),
        )

    def _counts(self, record: bytes, authority: bytes) -> dict[str, Any] | None:
        if len(record) < 64 or not holds(authority, b"bellwether policy 1\x00" + record[64:], record[:64]):
            return None
        try:
            change = json.loads(record[64:].decode())
        except ValueError:
            return None
        fields = {
            "key": {"source", "key_id", "proof", "public"},
            "revoke-key": {"key_id"},
            "revoke-source": {"source"},
        }
        if not isinstance(change, dict) or change.get("type") not in fields or written(change) != record[64:]:
            return None
        if set(change) != {"number", "type"} | fields[change["type"]]:
            return None
        if type(change["number"]) is not int or change["number"] <= self.number:
            return None
        if any(not isinstance(change[name], str) for name in fields[change["type"]]):
            return None
        if "key_id" in change and (not _is_hex(change["key_id"], 8) or change["key_id"] != change["key_id"].lower()):
            return None
        if change["type"] == "key":
            used = [earlier["key_id"].lower() for _, earlier in self._changes if "key_id" in earlier]
            public = 0 if change["proof"] == "hmac" else 32
            if (
                change["proof"] not in PROOF_NAMES[1:]
                or not _is_hex(change["public"], public)
                or change["public"] != change["public"].lower()
            ):
                return None
            if change["key_id"].lower() in used or not int(change["key_id"], 16):
                return None
        return change


def _is_hex(text: str, size: int) -> bool:
    return len(text) == 2 * size and set(text) <= set("0123456789abcdefABCDEF")


# ---- clusters ----


@dataclass(frozen=True)
class StreamPlan:
    """A stream: the label is fixed if `fixed` is given."""

    proof: str
    labelling: str = "claimed"
    fixed: str = ""
    floor: str = ""


@dataclass(frozen=True)
class SourcePlan:
    """A source; no range in the mode oxrbac."""

    streams: Sequence[str]
    low: str = ""
    high: str = ""


@dataclass(frozen=True)
class Cluster:
    """A cluster as a table, and its labels by the model."""

    name: str
    mode: str
    head: Mapping[str, Any]  # what else its document says
    sites: Mapping[str, Any]  # the document's
    subjects: Mapping[str, Any]  # the model's
    streams: Mapping[str, StreamPlan]
    sources: Mapping[str, SourcePlan]
    texts: Sequence[str]  # labels, right and wrong, written in many ways
    model: Any = field(compare=False)

    def document(self) -> str:
        """The topology file; every JSON text is YAML too."""
        streams: dict[str, Any] = {}
        for name, stream in self.streams.items():
            streams[name] = {"fields": {"n": "integer"}, "proof": stream.proof}
            if self.mode != "oxrbac":
                streams[name]["label"] = {"fixed": stream.fixed} if stream.fixed else stream.labelling
            if stream.floor:
                streams[name]["floor"] = stream.floor
        sources: dict[str, Any] = {name: {"streams": list(source.streams)} for name, source in self.sources.items()}
        for name, source in self.sources.items():
            if source.low:
                sources[name]["range"] = {"low": source.low, "high": source.high}
        parts = {"version": "1", "name": self.name, "mode": self.mode, "sites": self.sites}
        return json.dumps({**parts, **self.head, "streams": streams, "sources": sources})

    def groups(self) -> list[tuple[str, tuple[str, ...]]]:
        """Each stream with the sources that share a range."""
        found: dict[tuple[str, str, str], list[str]] = {}
        for name in sorted(self.sources):
            source = self.sources[name]
            ends = [self.canonical(end) if end else "" for end in (source.low, source.high)]
            for stream in source.streams:
                found.setdefault((stream, ends[0] or "", ends[1] or ""), []).append(name)
        return [(stream, tuple(names)) for (stream, _, _), names in found.items()]

    def canonical(self, text: str) -> str | None:
        """The canonical text, or None if it is no label."""
        return _canonical(self.model, text)

    def dominates(self, high: str, low: str) -> bool:
        return _dominates(self.model, high, low)

    def admits(self, site: str, label: str) -> bool:
        return bool(self.model.admits(self.subjects[site], label))

    def seen_by(self, site: str | None, label: str) -> str:
        return label if site is None or self.mode != "rbac" else str(self.model.seen_by(self.subjects[site], label))

    def fault(self, source: str, stream: str, label: str) -> str:
        """What is wrong with a source's saying this, as far as labels go; "" if nothing."""
        return self.label_of(source, stream, label)[0]

    def label_of(self, source: str, stream: str, said: str) -> tuple[str, str]:
        """The reason that refuses a label, or "" and the canonical label."""
        plan, who = self.streams[stream], self.sources[source]
        if (plan.labelling == "claimed") != (said != ""):
            return "bad-label", ""
        label = self.canonical(said or plan.fixed or who.low)
        if label is None:
            return "bad-label", ""
        if who.low and not (self.dominates(who.high, label) and self.dominates(label, who.low)):
            return "out-of-range", ""
        if plan.floor and not self.dominates(label, plan.floor):
            return "below-floor", ""
        return "", label


@lru_cache(maxsize=20_000)
def _canonical(model: Any, text: str) -> str | None:
    try:
        return str(model.canonical(text))
    except Fault:
        return None


@lru_cache(maxsize=20_000)
def _dominates(model: Any, high: str, low: str) -> bool:
    return model.compare(high, low) in ("equal", "dominates")


_SHORT = {"none": "None", "hmac": "Hmac", "ed25519": "Ed", "ed25519-batch": "Batch"}


def _every_proof(**plans: StreamPlan) -> dict[str, StreamPlan]:
    return {name + short: replace(plan, proof=proof) for name, plan in plans.items() for proof, short in _SHORT.items()}


def _named(streams: Iterable[str], *starts: str) -> tuple[str, ...]:
    return tuple(name for name in streams if name.startswith(starts))


def mls_cluster() -> Cluster:
    streams = _every_proof(
        Claimed=StreamPlan(""),
        Floored=StreamPlan("", floor="S"),
        Own=StreamPlan("", "source", floor="U"),
        Fixed=StreamPlan("", "fixed", fixed="S", floor="U"),
    )
    wide = _named(streams, "Claimed", "Floored", "Fixed")
    single = _named(streams, "Own", "Claimed")
    levels = {"low": "U", "army": "S:ARMY", "navy": "S:NAVY", "joint": "S:ARMY,NAVY"}
    return Cluster(
        "levels", "mls", {"lattice": {"classifications": ["U", "S"], "compartments": ["ARMY", "NAVY"]}},
        {name: {"level": level} for name, level in levels.items()}, levels, streams,
        {
            "alpha": SourcePlan(wide, "U", "S:ARMY"),
            "bravo": SourcePlan(wide, "U", "S:ARMY"),
            "gone": SourcePlan(wide, "U", "S:ARMY"),
            "charlie": SourcePlan(wide, "U", "S:ARMY,NAVY"),
            "delta": SourcePlan(single, "S:ARMY", "S:ARMY"),
            "echo": SourcePlan(single, "S:ARMY", "S:ARMY"),
            "foxtrot": SourcePlan(single, "U", "U"),
        },
        ["U", "S", "S:ARMY", "S:NAVY", "S:ARMY,NAVY", "S:NAVY,ARMY", " S : ARMY ", "U:ARMY", "U:NAVY", "U ",
         "T", "s", "S:", "S:ARMY,ARMY", "S:GOLD", "S ARMY", "\u0405", "S\0", " ", "U" * 70],
        MlsModel({"U": [], "S": ["U"]}, ["ARMY", "NAVY"]),
    )  # fmt: skip


def rbac_cluster() -> Cluster:
    streams = _every_proof(
        Pulse=StreamPlan(""),
        Drugs=StreamPlan("", floor="nurse"),
        Bed=StreamPlan("", "fixed", fixed="administrator"),
        Desk=StreamPlan("", "source"),
    )
    patient, office = _named(streams, "Pulse", "Drugs"), _named(streams, "Bed", "Desk", "Pulse")
    roles = {"doctors": {"doctor"}, "nurses": {"nurse"}, "ward": {"doctor", "nurse"}, "office": {"administrator"}}
    return Cluster(
        "roles", "rbac", {"roles": ["doctor", "nurse", "administrator"]},
        {name: {"roles": sorted(served)} for name, served in roles.items()}, roles, streams,
        {
            "patient-1": SourcePlan(patient, "doctor or nurse", "doctor and nurse"),
            "patient-2": SourcePlan(patient, "nurse or doctor", "nurse and doctor"),
            "patient-3": SourcePlan(patient, "nurse", "doctor and nurse"),
            "gone": SourcePlan(patient, "nurse or doctor", "nurse and doctor"),
            "desk": SourcePlan(office, "administrator", "administrator"),
            "desk-2": SourcePlan(office, "administrator", "administrator"),
        },
        ["doctor", "nurse", "doctor or nurse", "nurse or doctor", "doctor and nurse", "(nurse and doctor) or nurse",
         "(doctor) or (nurse)", "administrator", "administrator or nurse", "administrator and nurse", "or", "nurse or",
         "doctor and nurse or nurse", "surgeon", "(nurse", "nurse)", "Nurse", "doctor  and  nurse"],
        RbacModel(["doctor", "nurse", "administrator"]),
    )  # fmt: skip


def oxrbac_cluster() -> Cluster:
    proofs = {"Rome": "none", "NewYork": "hmac", "Paris": "ed25519", "London": "ed25519-batch"}
    streams = {name: StreamPlan(proof, "fixed", fixed=name) for name, proof in proofs.items()}
    holds = {"all": ["Rome", "NewYork", "Paris", "London"], "west": ["NewYork", "Rome"], "east": ["London"]}
    return Cluster(
        "markets", "oxrbac", {"roles": ["ADMIN", "USER"], "rights": {"USER": {"read": ["NewYork"]}}},
        {name: {"roles": ["USER"], "streams": held} for name, held in holds.items()},
        {name: (set(held), {}) for name, held in holds.items()}, streams,
        {name: SourcePlan(tuple(proofs)) for name in ("feed", "second-feed", "gone")},
        [*proofs, "Rome,Paris", "NewYork/20", "Tokyo"],
        OxrbacModel(list(proofs), weak=False),
    )  # fmt: skip


# ---- section 3: judging ----


@dataclass(frozen=True)
class Opinion:
    """The slow judge's verdict: the reason, or "" for a proven tuple; `label` is known once the evidence counts."""

    reason: str
    source: str = ""
    label: str = ""
    sequence: int = 0
    place: int = 0


class SlowJudge:
    """Judges one input partition for somebody who sees all; remembers nothing but sequences and places in time."""

    def __init__(
        self,
        cluster: Cluster,
        stream: str,
        sources: Sequence[str],
        policy: SlowPolicy,
        secrets: Mapping[bytes, bytes],
    ) -> None:
        self._cluster, self._stream, self._sources = cluster, stream, sources
        self._policy, self._secrets = policy, secrets
        self.lasts: dict[tuple[str, str], tuple[int, int]] = {}

    def judge(self, time: int, record: Record) -> Opinion:
        contents = [content for name, content in record.headers if name == HEADER]
        if len(contents) != 1:
            return Opinion("no-says")
        read = _read_header(contents[0])
        if read is None or (record.key is None and record.value is None):
            return Opinion("malformed")
        claim, proof, key_id, source, said, sequence, evidence = read
        if source not in self._sources:
            return Opinion("unknown-source")
        force = self._policy.at(time)
        if source in force.revoked_sources:
            return Opinion("revoked-source")
        if STRENGTH[proof] < STRENGTH[PROOF_NAMES.index(self._cluster.streams[self._stream].proof)]:
            return Opinion("weak-proof")
        public = b""
        if proof != NONE:
            key = force.keys.get(key_id.hex())
            if key is None or key["source"] != source or key["proof"] != PROOF_NAMES[proof]:
                return Opinion("unknown-key")
            if key_id.hex() in force.revoked_keys:
                return Opinion("revoked-key")
            public = bytes.fromhex(key["public"])
        reason, label = self._cluster.label_of(source, self._stream, said)
        if reason:
            return Opinion(reason)
        signed = signed_bytes(self._stream, claim, sequence, record.key, record.value)
        if not self._proves(proof, key_id, public, signed, evidence):
            return Opinion("bad-proof", source, label)
        last, place = self.lasts.get((source, label), (0, 0))
        if sequence <= last:
            return Opinion("stale-sequence", source, label)
        self.lasts[source, label] = sequence, max(place, time)
        return Opinion("", source, label, sequence, max(place, time))

    def _proves(self, proof: int, key_id: bytes, public: bytes, signed: bytes, evidence: bytes) -> bool:
        if proof == NONE:
            return evidence == b""
        if proof == HMAC:
            return evidence == hmac.digest(self._secrets[key_id], signed, "sha256")
        if proof == ED25519:
            return holds(public, signed, evidence)
        if len(evidence) < 68 or (len(evidence) - 68) % 32:
            return False
        path = [evidence[at : at + 32] for at in range(68, len(evidence), 32)]
        bits = int.from_bytes(evidence[64:68], "big")
        if len(path) > MOST_PATH or bits >= 2 ** len(path):
            return False
        top = leaf_of(signed)
        for level, companion in enumerate(path):
            top = node_of(companion, top) if (bits >> level) % 2 else node_of(top, companion)
        return holds(public, root_part(top), evidence[:64])


def _read_header(header: bytes | None) -> tuple[bytes, int, bytes, str, str, int, bytes] | None:
    """The parts of a header, or None if it is not what section 1 says."""
    if header is None or len(header) < 2:
        return None
    (length,) = struct.unpack(">H", header[:2])
    claim, left = header[2 : 2 + length], header[2 + length :]
    if not 11 <= length <= MOST_CLAIM or len(claim) != length or len(left) < 8:
        return None
    version, proof, key_id, size = claim[0], claim[1], claim[2:10], claim[10]
    if version != 1 or proof > BATCH or len(claim) < 11 + size or (proof == NONE) != (key_id == ZEROS):
        return None
    try:
        source, label = claim[11 : 11 + size].decode(), claim[11 + size :].decode()
    except UnicodeDecodeError:
        return None
    return claim, proof, key_id, source, label, int.from_bytes(left[:8], "big"), left[8:]
