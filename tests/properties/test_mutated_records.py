"""No record that was tampered with is ever admitted, and each is refused for the right reason, by every lane.

Valid records of every proof, on streams of every labelling in all three modes, are mutated and judged among valid
ones by the judges of the quarantine lane and of every site. What must come of each is worked out by the slow judge of
`saying`, and where the mutation is aimed at one check, by the mutation too.

Three places exist where a record can be changed and stays valid, because nothing there means anything: other headers;
the index bit of a batch where a node is its own companion (the tuple is the same, and fresh only once); and records of
proof `none`, of which nothing is protected but by the broker. They are recognised, counted, and nothing else passes.

BELLWETHER_CAMPAIGN in the environment makes a campaign of a million out of the sample.
"""

import os
import random
import time as clock
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import permutations
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from shepherd import says
from shepherd.lane.client import LaneError
from shepherd.lane.judge import Judge
from shepherd.policy import History, PolicyError, encode_change, signed_part
from tests.conftest import Figure
from tests.properties.saying import (
    BATCH,
    EARLY,
    ED25519,
    HEADER,
    HMAC,
    MOST_CLAIM,
    NONE,
    PROOF_NAMES,
    REASONS,
    STRENGTH,
    ZEROS,
    Authority,
    Cluster,
    Key,
    Opinion,
    Record,
    Said,
    SlowJudge,
    SlowPolicy,
    Speaker,
    batch_evidence,
    claim_bytes,
    header_bytes,
    leaf_of,
    mls_cluster,
    node_of,
    oxrbac_cluster,
    path_to_root,
    rbac_cluster,
    read_signed,
    root_part,
    signed_bytes,
    tree_rows,
)
from topology import check
from topology.yaml_file import parse_yaml

CAMPAIGN = "BELLWETHER_CAMPAIGN" in os.environ
MUTATED = 1_000_000 if CAMPAIGN else 20_000
SHARES = 200 if CAMPAIGN else 8  # pieces of work, each with its own seed
KEYS_AT, REVOKED_AT, LATE_AT = 1_000, 50_000, 90_000  # when the policy changes
EPOCHS = ((KEYS_AT + 1, REVOKED_AT), (REVOKED_AT + 1, LATE_AT), (LATE_AT + 1, LATE_AT + 50_000))
GONE = "gone"  # a source that is revoked
WORN = 1 << 62  # a flipped bit of an unprotected sequence can use up all that are left: then the lane starts anew


# ---- lanes ----


class World:
    """A cluster with keys and a policy in time, for the judges under test and for the slow one."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self.cluster = cluster
        self.topology = check(parse_yaml(cluster.document(), cluster.name))
        self.authority, stranger = Authority(rng), Authority(rng)
        self.keys: dict[bytes, Key] = {}
        self.speakers: dict[str, Speaker] = {}
        for source in cluster.sources:
            keys = {
                (use, proof): Key(rng.randbytes(8), source, proof, rng.randbytes(32))
                for use in ("good", "spare", "revoked", "late")
                for proof in (HMAC, ED25519, BATCH)
            }
            self.speakers[source] = Speaker(source, keys)
            self.keys |= {key.key_id: key for key in keys.values()}
        self.secrets = {key.key_id: key.secret for key in self.keys.values() if key.proof == HMAC}
        records = list(self._policy(stranger))
        self.slow_policy = SlowPolicy(records, self.authority.public)
        self.history = history_of(records, self.authority.public)
        self.lanes = [Lane(self, stream, sources) for stream, sources in cluster.groups()]
        by_proof = {proof: [lane for lane in self.lanes if lane.asked == proof] for proof in range(4)}
        self.by_proof = {proof: lanes for proof, lanes in by_proof.items() if lanes}

    def _policy(self, stranger: Authority) -> Iterator[tuple[int, bytes]]:
        number = 0
        late, revoked = [], []
        for speaker in self.speakers.values():
            for (use, _), key in speaker.keys.items():
                if use == "late":
                    late.append(key)
                    yield KEYS_AT, stranger.key(number + 1, key)  # nobody's
                    continue
                number += 1
                yield KEYS_AT, self.authority.key(number, key)
                if use == "revoked":
                    revoked.append(key)
                if use == "good":
                    yield KEYS_AT, stranger.change(number + 1, type="revoke-key", key_id=key.key_id.hex())
                    yield KEYS_AT, self.authority.change(number, type="revoke-key", key_id=key.key_id.hex())  # replayed
        for key in revoked:
            number += 1
            yield REVOKED_AT, self.authority.change(number, type="revoke-key", key_id=key.key_id.hex())
        yield REVOKED_AT, self.authority.change(number + 1, type="revoke-source", source=GONE)
        for key in late:
            number += 1
            yield LATE_AT, self.authority.key(number + 1, key)

    def secret(self, key_id: bytes) -> bytes:
        if key_id not in self.secrets:
            raise LaneError("there is no secret for this key")
        return self.secrets[key_id]


def history_of(records: Sequence[tuple[int, bytes]], authority: bytes) -> History:
    """The history that lanes make of the records of `policy`."""
    history = History(authority)
    for time, record in records:
        try:
            history.add(time, record)
        except PolicyError:
            continue
    return history


class Lane:
    """The judges of one input partition: of quarantine, of every site, and the slow one."""

    def __init__(self, world: World, stream: str, sources: tuple[str, ...]) -> None:
        self.world, self.stream, self.sources = world, stream, sources
        self.plan = world.cluster.streams[stream]
        self.asked = PROOF_NAMES.index(self.plan.proof)
        topology = world.topology
        (self.group,) = (g for g in topology.groups if g.stream == stream and set(g.sources) == set(sources))
        self.labels = {
            source: [text for text in ("", *world.cluster.texts) if not world.cluster.fault(source, stream, text)]
            for source in sources
        }
        self.begin()

    def begin(self) -> None:
        world, subjects = self.world, {None: None} | {n: site.subject for n, site in self.world.topology.sites.items()}
        self.judges: dict[str | None, Judge] = {
            name: Judge(world.topology, self.group, subject, world.history, world.secret, {})
            for name, subject in subjects.items()
        }
        self.slow = SlowJudge(world.cluster, self.stream, self.sources, world.slow_policy, world.secrets)

    def present(self, time: int, record: Record) -> Opinion:
        """Every judge must say what the slow one says."""
        opinion = self.slow.judge(time, record)
        for site, judge in self.judges.items():
            meaning, sequence, place = judge.judge(time, record.key, record.value, list(record.headers))
            found = (meaning.refusal, meaning.admitted, sequence, place, meaning.stamp[1] if sequence else b"")
            wanted = self._wanted(site, opinion)
            assert found == wanted, f"{self.stream} at {site}, {time}: {found} instead of {wanted} for {record}"
        return opinion

    def _wanted(self, site: str | None, opinion: Opinion) -> tuple[str, bool, int, int, bytes]:
        cluster = self.world.cluster
        skipped = site is not None and opinion.reason not in EARLY and not cluster.admits(site, opinion.label)
        if skipped or opinion.reason:
            return "" if skipped else opinion.reason, False, 0, 0, b""
        stamp = "\0".join((self.stream, cluster.seen_by(site, opinion.label), opinion.source)).encode()
        return "", True, opinion.sequence, opinion.place, stamp

    def next(self, source: str, said: str) -> int:
        label = self.world.cluster.label_of(source, self.stream, said)[1]
        return self.slow.lasts.get((source, label), (0, 0))[0] + 1

    @property
    def worn(self) -> bool:
        return any(last > WORN for last, _ in self.slow.lasts.values())


# ---- mutations ----


@dataclass(frozen=True)
class Case:
    """A valid tuple that was not presented yet, to be mutated."""

    rng: random.Random
    world: World
    lane: Lane
    said: Said
    batch: list[Said]
    time: int

    @property
    def speaker(self) -> Speaker:
        return self.world.speakers[self.said.source]

    @property
    def key(self) -> Key | None:
        return self.world.keys.get(self.said.key_id)

    @property
    def unproven(self) -> str | None:
        """The reason for what a signature covers; nothing covers anything without proof."""
        return "bad-proof" if self.said.proof else None

    def honest(self, **changes: Any) -> Said:
        """The same tuple with changes, and evidence that fits them under the key it names."""
        said = replace(self.said, **changes)
        return said.proven(self.world.keys.get(said.key_id))


@dataclass(frozen=True)
class Mutant:
    """A mutated record; the reason is None where the mutation is blind and only the slow judge can tell."""

    record: Record
    reason: str | None = None
    lane: Lane | None = None  # if not that of the case
    time: int | None = None  # if not that of the case
    same: bool = False  # the record is as it was on purpose: it is the circumstances that make it wrong


Mutation = Callable[[Case], Mutant | None]
MUTATIONS: list[Mutation] = []
AFTERWARDS: list[Mutation] = []  # on a tuple that was presented


def mutation(function: Mutation) -> Mutation:
    MUTATIONS.append(function)
    return function


def afterwards(function: Mutation) -> Mutation:
    AFTERWARDS.append(function)
    return function


def flipped(rng: random.Random, content: bytes, times: int = 1) -> bytes:
    number = int.from_bytes(content, "big")
    for _ in range(times):
        number ^= 1 << rng.randrange(8 * len(content))
    return number.to_bytes(len(content), "big")


def other(rng: random.Random, content: bytes) -> bytes:
    """Truncated or extended, at either end or within."""
    at = rng.randint(0, len(content))
    match rng.randrange(4):
        case 0:
            return content[:at]
        case 1:
            return content[at:]
        case 2:
            return content[:at] + rng.randbytes(rng.choice((1, 1, 2, 8, 32))) + content[at:]
        case _:
            return content[:at] + content[at + 1 :]


def with_header(case: Case, header: bytes | None, **record: Any) -> Record:
    return case.said.record._replace(headers=(*case.said.others, (HEADER, header)), **record)


def raw(case: Case, reason: str | None, claim: bytes | None = None, evidence: bytes | None = None) -> Mutant:
    """The record with another claim or other evidence, and nothing signed anew."""
    said = case.said
    claim, evidence = said.claim if claim is None else claim, said.evidence if evidence is None else evidence
    return Mutant(with_header(case, header_bytes(claim, said.sequence, evidence)), reason)


@mutation
def flip_header(case: Case) -> Mutant | None:
    return Mutant(with_header(case, flipped(case.rng, case.said.header)))


@mutation
def flip_claim_or_sequence(case: Case) -> Mutant | None:
    said = case.said
    head = header_bytes(said.claim, said.sequence, b"")
    return Mutant(with_header(case, flipped(case.rng, head) + said.evidence))


@mutation
def flip_two_bits_of_the_index_or_none(case: Case) -> Mutant | None:
    evidence = case.said.evidence
    if case.said.proof != BATCH:
        return None
    return raw(case, None, evidence=evidence[:64] + flipped(case.rng, evidence[64:68], 2) + evidence[68:])


@mutation
def flip_and_maybe_back(case: Case) -> Mutant | None:
    header = case.said.header
    return Mutant(with_header(case, header[:-1] + flipped(case.rng, header[-1:], 2)))


@mutation
def flip_evidence(case: Case) -> Mutant | None:
    if case.said.proof in (NONE, BATCH):
        return None
    return raw(case, "bad-proof", evidence=flipped(case.rng, case.said.evidence))


@mutation
def flip_key(case: Case) -> Mutant | None:
    key = case.said.key
    return Mutant(case.said.record._replace(key=flipped(case.rng, key)), case.unproven) if key else None


@mutation
def flip_value(case: Case) -> Mutant | None:
    value = case.said.value
    return Mutant(case.said.record._replace(value=flipped(case.rng, value)), case.unproven) if value else None


@mutation
def resize_header(case: Case) -> Mutant | None:
    return Mutant(with_header(case, other(case.rng, case.said.header)))


@mutation
def resize_evidence(case: Case) -> Mutant | None:
    evidence = other(case.rng, case.said.evidence)
    return raw(case, "bad-proof", evidence=evidence) if evidence != case.said.evidence else None


@mutation
def resize_key(case: Case) -> Mutant | None:
    key = other(case.rng, case.said.key or b"")
    return Mutant(case.said.record._replace(key=key), case.unproven) if key != case.said.key else None


@mutation
def resize_value(case: Case) -> Mutant | None:
    value = other(case.rng, case.said.value or b"")
    return Mutant(case.said.record._replace(value=value), case.unproven) if value != case.said.value else None


@mutation
def resize_claim(case: Case) -> Mutant | None:
    return raw(case, None, other(case.rng, case.said.claim))


@mutation
def resize_source(case: Case) -> Mutant | None:
    said, name = case.said, other(case.rng, case.said.source.encode())
    claim = bytes([1, said.proof]) + said.key_id + bytes([len(name)]) + name + said.label.encode()
    return raw(case, None, claim)


@mutation
def resize_label(case: Case) -> Mutant | None:
    said, label = case.said, other(case.rng, case.said.label.encode())
    return raw(case, None, claim_bytes(said.proof, said.key_id, said.source, "") + label)


@mutation
def claim_length_lies(case: Case) -> Mutant | None:
    length = case.rng.choice(
        (0, 1, 10, 11, case.rng.randrange(1 << 16), len(case.said.claim) + case.rng.randint(-9, 9))
    )
    return Mutant(with_header(case, max(0, length).to_bytes(2, "big") + case.said.header[2:]))


@mutation
def header_of_another_tuple(case: Case) -> Mutant | None:
    mate = case.rng.choice(case.batch)
    if (mate.key, mate.value) == (case.said.key, case.said.value):
        return None
    return Mutant(case.said.record._replace(headers=mate.record.headers), case.unproven)


@mutation
def header_of_another_saying(case: Case) -> Mutant | None:
    mate = case.honest(value=case.rng.randbytes(9), sequence=case.said.sequence + case.rng.randrange(3))
    return Mutant(case.said.record._replace(headers=mate.record.headers), case.unproven)


@mutation
def headers_missing_or_too_many(case: Case) -> Mutant | None:
    says: tuple[str, bytes | None] = (HEADER, case.said.header)
    headers = case.rng.choice([
        (), (says, says), (says, ("x", b"y"), says), (("x", b"y"),), (says, (HEADER, None)), ((HEADER, b""), says),
        ((HEADER.upper(), says[1]),), ((HEADER + "\0", says[1]),), (("", says[1]), ("x", says[1])),
    ])  # fmt: skip
    return Mutant(case.said.record._replace(headers=headers), "no-says")


@mutation
def other_headers(case: Case) -> Mutant | None:
    says = (HEADER, case.said.header)
    headers = case.rng.choice(
        [(says, ("x", None)), (("", b""), says), (("bw-stamp", b"S"), says, ("bw-seq", bytes(8)))]
    )
    return Mutant(case.said.record._replace(headers=headers))


@mutation
def header_is_null_or_empty(case: Case) -> Mutant | None:
    return Mutant(with_header(case, case.rng.choice((None, b"", b"\0", bytes(2), bytes(10), bytes(200)))), "malformed")


@mutation
def key_and_value_null(case: Case) -> Mutant | None:
    said = case.honest(key=None, value=None)
    return Mutant(said.record, "malformed")


@mutation
def null_for_empty(case: Case) -> Mutant | None:
    """Every way to mistake nothing for an empty text, with the proof of the other."""
    values = (case.said.value, b"") if case.said.value else (case.said.value,)
    said = case.honest(key=case.rng.choice((None, b"")), value=case.rng.choice(values))
    record = said.record
    if case.rng.random() < 0.5 or said.value:
        record = record._replace(key=None if said.key == b"" else b"")
    else:
        record = record._replace(value=None if said.value == b"" else b"")
    if (said.key is None and said.value is None) or record[:2] == (None, None):
        return Mutant(record, "malformed" if record[:2] == (None, None) else case.unproven)
    return Mutant(record, case.unproven)


@mutation
def bytes_moved_between_key_and_value(case: Case) -> Mutant | None:
    key, value = case.said.key or b"", case.said.value or b""
    both, at = key + value, case.rng.randint(0, len(key + value))
    moved = case.said.record._replace(key=both[:at], value=both[at:])
    return Mutant(moved, case.unproven) if moved != case.said.record else None


@mutation
def wrong_version_or_proof(case: Case) -> Mutant | None:
    claim = bytearray(case.said.claim)
    if case.rng.random() < 0.5:
        claim[0] = case.rng.choice((0, 2, 255))
    else:
        claim[1] = case.rng.choice((4, 5, 128, 255))
    said = replace(case.said, evidence=b"")
    evidence = case.key.proofs([signed_bytes(said.stream, bytes(claim), said.sequence, said.key, said.value)])[0] if (
        case.key
    ) else b""  # fmt: skip
    return raw(case, "malformed", bytes(claim), evidence)


@mutation
def no_utf8(case: Case) -> Mutant | None:
    said, wrong = case.said, case.rng.choice((b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82"))
    if case.rng.random() < 0.5:
        return raw(case, "malformed", said.claim + wrong)
    name = said.source.encode() + wrong
    claim = bytes([1, said.proof]) + said.key_id + bytes([len(name)]) + name + said.label.encode()
    return raw(case, "malformed", claim)


@mutation
def claim_too_long(case: Case) -> Mutant | None:
    if case.rng.random() > 0.1:
        return None  # it takes its time
    spaces = MOST_CLAIM - len(case.said.claim) + case.rng.choice((1, 2, 500))
    said = case.honest(label=case.said.label + " " * spaces)
    return Mutant(said.record, "malformed")


@mutation
def unknown_source(case: Case) -> Mutant | None:
    elsewhere = [name for name in case.world.cluster.sources if name not in case.lane.sources]
    source = case.rng.choice(["nobody", "", case.said.source.upper(), case.said.source + " ", *elsewhere])
    said = case.honest(source=source)
    return Mutant(said.record, "unknown-source")


@mutation
def another_source_s_name(case: Case) -> Mutant | None:
    """Honestly signed under its own key, in the name of another source of the group."""
    mates = [name for name in case.lane.sources if name not in (case.said.source, GONE)]
    if not mates or not case.said.proof:
        return None
    return Mutant(case.honest(source=case.rng.choice(mates)).record, "unknown-key")


@mutation
def key_of_another_source(case: Case) -> Mutant | None:
    """In its own name, honestly signed under the key of another."""
    owner = case.rng.choice([name for name in case.world.speakers if name != case.said.source])
    if not case.said.proof:
        return None
    return Mutant(
        case.honest(key_id=case.world.speakers[owner].keys["good", case.said.proof].key_id).record, "unknown-key"
    )


@mutation
def wrong_key(case: Case) -> Mutant | None:
    if not case.said.proof:
        return None
    uses = ("spare", "revoked", "late", "good")
    keys = [case.speaker.keys[use, case.said.proof] for use in uses]
    keys.append(Key(ZEROS, "", case.said.proof, case.rng.randbytes(32)))
    key = case.rng.choice([key for key in keys if key.key_id != case.said.key_id])
    return Mutant(case.said.proven(key).record, "bad-proof")


@mutation
def key_id_exchanged(case: Case) -> Mutant | None:
    said = case.said
    if not said.proof:
        claim = claim_bytes(NONE, case.rng.randbytes(8), said.source, said.label)
        return raw(case, "malformed", claim)
    spare = case.speaker.keys["spare", said.proof].key_id
    choices = [(ZEROS, "malformed"), (case.rng.randbytes(8), "unknown-key")]
    if said.key_id != spare:
        choices.append((spare, "bad-proof"))
    key_id, reason = case.rng.choice(choices)
    return raw(case, reason, claim_bytes(said.proof, key_id, said.source, said.label))


@mutation
def weak_proof(case: Case) -> Mutant | None:
    """Honestly proven, but with less than the stream asks."""
    weaker = [proof for proof in range(4) if STRENGTH[proof] < STRENGTH[case.lane.asked]]
    if not weaker:
        return None
    proof = case.rng.choice(weaker)
    key_id = case.speaker.keys["good", proof].key_id if proof else ZEROS
    return Mutant(case.honest(proof=proof, key_id=key_id).record, "weak-proof")


@mutation
def proof_downgraded(case: Case) -> Mutant | None:
    """Another number for the proof, with the evidence kept, or none, or one made of what everybody knows."""
    said = case.said
    proof = case.rng.choice([proof for proof in range(4) if proof != said.proof])
    key_id = case.rng.choice((said.key_id, ZEROS, case.rng.randbytes(8)))
    claim = claim_bytes(proof, key_id, said.source, said.label)
    signed = signed_bytes(said.stream, claim, said.sequence, said.key, said.value)
    public = case.key.public if case.key else b""
    evidence = case.rng.choice((said.evidence, b"", Key(ZEROS, "", HMAC, public).proofs([signed])[0]))
    reason = None  # a stream that asks nothing takes a record of proof `none`
    if (proof == NONE) != (key_id == ZEROS):
        reason = "malformed"
    elif STRENGTH[proof] < STRENGTH[case.lane.asked]:
        reason = "weak-proof"
    elif proof:
        reason = "unknown-key"
    elif evidence:
        reason = "bad-proof"
    return raw(case, reason, claim, evidence)


@mutation
def sequence_changed(case: Case) -> Mutant | None:
    sequence = case.rng.choice(
        (case.said.sequence + 1, case.said.sequence + 1000, case.said.sequence - 1, 0, (1 << 61) + 1)
    )
    return Mutant(with_header(case, header_bytes(case.said.claim, sequence, case.said.evidence)), case.unproven or None)


@mutation
def label_refused(case: Case) -> Mutant | None:
    """A label that the source may not say here, honestly signed, or put in the place of the one that was."""
    faults: dict[str, list[str]] = {}
    for text in ("", *case.world.cluster.texts):
        faults.setdefault(case.world.cluster.fault(case.said.source, case.said.stream, text), []).append(text)
    reason = case.rng.choice(sorted(fault for fault in faults if fault))
    label = case.rng.choice(faults[reason])
    if case.rng.random() < 0.5:
        return Mutant(case.honest(label=label).record, reason)
    return raw(case, reason, replace(case.said, label=label).claim)


@mutation
def label_outside_the_range_or_below_the_floor(case: Case) -> Mutant | None:
    for label in case.rng.sample(case.world.cluster.texts, len(case.world.cluster.texts)):
        reason = case.world.cluster.fault(case.said.source, case.said.stream, label)
        if reason in ("out-of-range", "below-floor"):
            honest = case.rng.random() < 0.5
            claim = replace(case.said, label=label).claim
            return Mutant(case.honest(label=label).record, reason) if honest else raw(case, reason, claim)
    return None


@mutation
def label_exchanged(case: Case) -> Mutant | None:
    """A label that the source may say, and did not."""
    label = case.rng.choice(case.lane.labels[case.said.source])
    return raw(case, case.unproven, replace(case.said, label=label).claim) if label != case.said.label else None


@mutation
def revoked_key(case: Case) -> Mutant | None:
    if not case.said.proof or case.said.source == GONE:
        return None
    said = case.honest(key_id=case.speaker.keys["revoked", case.said.proof].key_id)
    when = case.rng.choice((REVOKED_AT + 1, LATE_AT, LATE_AT + case.rng.randrange(1, 10**6)))
    return Mutant(said.record, "revoked-key", time=when, same=True)


@mutation
def revoked_source(case: Case) -> Mutant | None:
    if GONE not in case.lane.sources:
        return None
    key_id = case.world.speakers[GONE].keys["good", case.said.proof].key_id if case.said.proof else ZEROS
    said = case.honest(source=GONE, key_id=key_id)
    return Mutant(said.record, "revoked-source", time=REVOKED_AT + case.rng.choice((1, 1, 10**5)), same=True)


@mutation
def key_before_its_time(case: Case) -> Mutant | None:
    if not case.said.proof:
        return None
    if case.rng.random() < 0.5 or case.said.source == GONE:
        return Mutant(case.said.record, "unknown-key", time=case.rng.choice((0, 1, KEYS_AT - 1, KEYS_AT)), same=True)
    said = case.honest(key_id=case.speaker.keys["late", case.said.proof].key_id)
    return Mutant(said.record, "unknown-key", time=case.rng.choice((KEYS_AT + 1, REVOKED_AT + 1, LATE_AT)), same=True)


@mutation
def moved_elsewhere(case: Case) -> Mutant | None:
    """To another stream or group. Only without proof can it mean anything there."""
    lane = case.rng.choice(case.world.lanes)
    if lane is case.lane:
        return None
    reason = None
    if case.said.source not in lane.sources:
        reason = "unknown-source"
    elif STRENGTH[case.said.proof] < STRENGTH[lane.asked]:
        reason = "weak-proof"
    else:
        reason = case.world.cluster.fault(case.said.source, lane.stream, case.said.label) or case.unproven
    return Mutant(case.said.record, reason, lane=lane, same=True)


@mutation
def batch_of_another_kind(case: Case) -> Mutant | None:
    """A signed tree that is not built as it must be: without the first bytes, or with them exchanged."""
    if case.said.proof != BATCH or case.key is None:
        return None
    first, second = case.rng.choice(((b"", b""), (b"\1", b"\0"), (b"\0", b"\0"), (b"", b"\1")))
    mine, mate = (sha256(first + said.signed).digest() for said in (case.said, case.rng.choice(case.batch)))
    if (first, second) in ((b"\1", b"\0"), (b"", b""), (b"", b"\1")) and case.rng.random() < 0.3:
        return raw(case, "bad-proof", evidence=batch_evidence(case.key.private.sign(root_part(mine)), 0, []))
    root = sha256(second + mine + mate).digest()
    if (first, second) == (b"\0", b"\1"):
        return None
    return raw(case, "bad-proof", evidence=batch_evidence(case.key.private.sign(root_part(root)), 0, [mate]))


@mutation
def batch_signature(case: Case) -> Mutant | None:
    """The signature of another root, of a leaf, of the bytes themselves, or under another domain."""
    if case.said.proof != BATCH or case.key is None:
        return None
    said, sign = case.said, case.key.private.sign
    rows = tree_rows([leaf_of(each.signed) for each in case.batch])
    wrong = [leaf_of(said.signed + b"x"), said.signed, b""]
    wrong += [rows[0][0]] if len(rows) > 1 else []
    signature = sign(root_part(case.rng.choice(wrong)))
    if case.rng.random() < 0.3:
        signature = sign(case.rng.choice((said.signed, rows[-1][0], b"bellwether says 1\0" + rows[-1][0])))
    return raw(case, "bad-proof", evidence=signature + said.evidence[64:])


@mutation
def batch_path(case: Case) -> Mutant | None:
    """A wrong companion, one too few or too many, in another order, and the path of another leaf."""
    if case.said.proof != BATCH or len(case.batch) < 2:
        return None
    rng, said = case.rng, case.said
    signature, bits = said.evidence[:64], int.from_bytes(said.evidence[64:68], "big")
    path = [said.evidence[at : at + 32] for at in range(68, len(said.evidence), 32)]
    at = rng.randrange(len(path))
    mate = rng.choice(case.batch)
    match rng.randrange(8):
        case 0:
            path[at] = flipped(rng, path[at])
        case 1:  # a node in the place of the leaf
            path, bits = path[1:], bits >> 1
        case 2:
            path, bits = path[:-1], bits & (1 << (len(path) - 1)) - 1
        case 3:
            path = [*path, rng.choice((path[-1], bytes(32)))]
        case 4:
            path = [*path[:at], leaf_of(said.signed), *path[at:]]
        case 5:
            bits |= 1 << rng.randrange(len(path), 32)
        case 6:
            path += [bytes(32)] * (17 - len(path))
        case _:
            if mate.evidence == said.evidence:
                return None
            rows = tree_rows([leaf_of(each.signed) for each in case.batch])
            if leaf_of(mate.signed) == leaf_of(said.signed):
                return None
            bits, path = path_to_root(rows, case.batch.index(mate))
    return raw(case, "bad-proof", evidence=batch_evidence(signature, bits, path))


def deep_evidence(rng: random.Random, key: Key, signed: bytes, depth: int) -> bytes:
    """A root so far above the tuple, honestly signed."""
    bits, path, top = rng.randrange(1 << depth), [rng.randbytes(32) for _ in range(depth)], leaf_of(signed)
    for level, companion in enumerate(path):
        top = node_of(companion, top) if bits >> level & 1 else node_of(top, companion)
    return batch_evidence(key.private.sign(root_part(top)), bits, path)


@mutation
def batch_too_deep(case: Case) -> Mutant | None:
    if case.said.proof != BATCH or case.key is None:
        return None
    depth = case.rng.choice((17, 17, 18, 31))
    return raw(case, "bad-proof", evidence=deep_evidence(case.rng, case.key, case.said.signed, depth))


@mutation
def index_bit(case: Case) -> Mutant | None:
    """On the wrong side of a companion: wrong, unless the companion is the node itself."""
    if case.said.proof != BATCH or len(case.batch) < 2:
        return None
    evidence = case.said.evidence
    bit = case.rng.randrange((len(evidence) - 68) // 32)
    bits = int.from_bytes(evidence[64:68], "big") ^ 1 << bit
    return raw(case, None, evidence=evidence[:64] + bits.to_bytes(4, "big") + evidence[68:])


@afterwards
def replayed(case: Case) -> Mutant | None:
    time = case.time + case.rng.choice((0, 0, 1)) if case.time not in (REVOKED_AT, LATE_AT) else case.time
    return Mutant(case.said.record, "stale-sequence", time=time, same=True)


@afterwards
def replayed_with_other_headers(case: Case) -> Mutant | None:
    record = case.said.record
    return Mutant(record._replace(headers=(("x", b"y"), *record.headers)), "stale-sequence")


@afterwards
def rolled_back(case: Case) -> Mutant | None:
    said = case.honest(sequence=case.rng.choice((0, case.rng.randint(0, case.said.sequence), case.said.sequence)))
    return Mutant(said.record, "stale-sequence", same=True)


@afterwards
def rolled_back_with_another_key_or_spelling(case: Case) -> Mutant | None:
    """Freshness is of the source and the label, whatever proves it and however the label is written."""
    cluster, said = case.world.cluster, case.said
    label = cluster.label_of(said.source, said.stream, said.label)[1]
    same = [t for t in case.lane.labels[said.source] if cluster.label_of(said.source, said.stream, t)[1] == label]
    proof = case.rng.choice([p for p in range(4) if STRENGTH[p] >= STRENGTH[case.lane.asked]])
    key_id = case.speaker.keys[case.rng.choice(("good", "spare")), proof].key_id if proof else ZEROS
    again = case.honest(label=case.rng.choice(same), proof=proof, key_id=key_id, value=case.rng.randbytes(3))
    return Mutant(again.record, "stale-sequence", same=True)


# ---- the campaign ----


def harmless(case: Case, record: Record) -> str:
    """Why a record that was changed is still valid; "" if there is no excuse."""
    (header,) = (content for name, content in record.headers if name == HEADER)
    assert header is not None
    if header[3] == NONE:
        return "unprotected"
    said = case.said
    if record[:2] != (said.key, said.value) or not header.startswith(header_bytes(said.claim, said.sequence, b"")):
        return ""
    evidence = header[len(header) - len(said.evidence) :]
    if evidence == said.evidence:
        return "other headers"
    if said.proof != BATCH or evidence[:64] + evidence[68:] != said.evidence[:64] + said.evidence[68:]:
        return ""
    bits, top = int.from_bytes(said.evidence[64:68], "big"), leaf_of(said.signed)
    changed = bits ^ int.from_bytes(evidence[64:68], "big")
    for level in range((len(evidence) - 68) // 32):
        companion = evidence[68 + 32 * level : 100 + 32 * level]
        if changed >> level & 1 and companion != top:
            return ""
        top = node_of(companion, top) if bits >> level & 1 else node_of(top, companion)
    return "own companion" if changed >> (len(evidence) - 68) // 32 == 0 else ""


@cache
def worlds() -> list[World]:
    rng = random.Random("the same in every process")
    return [World(make(), rng) for make in (mls_cluster, rbac_cluster, oxrbac_cluster)]


class Campaign:
    """One share of the mutated records."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self.epoch = 0
        for world in worlds():
            for lane in world.lanes:
                lane.begin()

    def run(self, mutated: int) -> "Counter[str]":
        while self.counts["mutated"] < mutated:
            self._step(mutated)
        return self.counts

    def _step(self, mutated: int) -> None:
        rng, counts = self.rng, self.counts
        case = self._case()
        place = case.batch.index(case.said)
        for said in case.batch[max(0, place - rng.randrange(3)) : place]:
            self._valid(case, said)
        for change in rng.sample(MUTATIONS, 6):
            self._mutated(change, case, mutated)
        if not case.lane.worn and case.said.sequence >= case.lane.next(case.said.source, case.said.label):
            self._valid(case, case.said)
            for change in rng.sample(AFTERWARDS, 1):
                self._mutated(change, case, mutated)
            for said in case.batch[place + 1 : place + 2]:
                self._valid(case, said)
        else:
            counts["used up"] += 1  # by a changed record that is as good
        if case.lane.worn:
            case.lane.begin()
        for lane in case.world.by_proof.get(NONE, ()):
            if lane.worn:
                lane.begin()

    def _case(self) -> Case:
        rng = self.rng
        if rng.random() < 0.05:
            self.epoch = rng.randrange(3)
        world = rng.choice(worlds())
        asked = rng.choices(range(4), (2, 5, 2, 3))[0]
        lane = rng.choice(world.by_proof[asked])
        source = rng.choice([source for source in lane.sources if source != GONE or self.epoch == 0])
        strong = [proof for proof in range(4) if STRENGTH[proof] >= STRENGTH[asked]]
        proof = asked if rng.random() < 0.7 else rng.choice(strong)
        use = rng.choice(("good", "good", "spare", ("revoked", "good", "late")[self.epoch]))
        size = rng.choice((1, 2, 3, 4, 5, 7, 8, 13, 33)) if proof == BATCH else 1
        numbers: dict[str, int] = {}
        tuples = []
        for _ in range(size):
            label = rng.choice(lane.labels[source])
            name = world.cluster.label_of(source, lane.stream, label)[1]
            numbers[name] = numbers.get(name, lane.next(source, label) - 1) + rng.randint(1, 3)
            key = rng.choice((None, b"", rng.randbytes(rng.randrange(1, 12))))
            value = rng.choice((b"", rng.randbytes(rng.randrange(1, 40)), rng.randbytes(8)))
            tuples.append((label, numbers[name], key, None if key and rng.random() < 0.1 else value))
        batch = world.speakers[source].say(lane.stream, proof, tuples, use)
        if rng.random() < 0.2:
            batch = [replace(said, others=(("trace", rng.randbytes(4)),)) for said in batch]
        first, last = EPOCHS[self.epoch]
        time = rng.choice((first, last, rng.randint(first, last)))
        return Case(rng, world, lane, rng.choice(batch), batch, time)

    def _valid(self, case: Case, said: Said) -> None:
        opinion = case.lane.present(case.time, said.record)
        assert opinion.reason == "", f"a valid record was refused: {opinion} for {said}"
        self.counts["valid"] += 1
        self.counts[f"valid {PROOF_NAMES[said.proof]} {case.lane.plan.labelling} {bool(case.lane.plan.floor)}"] += 1

    def _mutated(self, change: Mutation, case: Case, mutated: int) -> None:
        counts = self.counts
        mutant = change(case) if counts["mutated"] < mutated else None
        if mutant is None:
            return
        if mutant.record == case.said.record and not mutant.same:
            counts["identical"] += 1
            return
        lane = mutant.lane or case.lane
        opinion = lane.present(case.time if mutant.time is None else mutant.time, mutant.record)
        name = change.__name__
        assert mutant.reason in (None, opinion.reason), f"{name}: {mutant.reason} expected, {opinion}, {mutant.record}"
        if opinion.reason:
            counts["mutated"] += 1
            counts[f"reason {opinion.reason}"] += 1
            counts[f"by {name}"] += 1
            return
        excuse = harmless(case, mutant.record)
        assert excuse == "unprotected" or (excuse and not mutant.same), (
            f"{name}: a mutated record was admitted: {mutant.record} from {case.said}"
        )
        counts[excuse] += 1


def run_share(seed: int) -> "Counter[str]":
    return Campaign(seed).run(MUTATED // SHARES)


def test_no_mutated_record_is_admitted_and_no_valid_one_refused(figure: Figure) -> None:
    started = clock.monotonic()
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        counts = sum(pool.map(run_share, range(SHARES)), Counter())
    seconds = clock.monotonic() - started
    reasons = ", ".join(f"{reason} {counts[f'reason {reason}']:,}" for reason in REASONS)
    figure(
        f"mutated records: {counts['mutated']:,} judged by quarantine and every site in {seconds:.0f} s, 0 accepted, "
        f"0 of {counts['valid']:,} valid ones refused"
    )
    figure(f"mutated records, by reason: {reasons}")
    figure(
        f"changed records that stay valid: {counts['unprotected']:,} of proof none, {counts['other headers']:,} with "
        f"other headers, {counts['own companion']:,} with a node that is its own companion; "
        f"{counts['identical']:,} mutations changed nothing"
    )
    assert counts["mutated"] == MUTATED
    assert counts["valid"] > MUTATED / 8
    assert all(counts[f"reason {reason}"] > MUTATED / 2_000 for reason in REASONS)
    assert all(counts[excuse] for excuse in ("unprotected", "other headers", "own companion", "identical"))
    aimless = {"other_headers"}  # never refused
    assert all(
        counts[f"by {change.__name__}"] for change in (*MUTATIONS, *AFTERWARDS) if change.__name__ not in aimless
    )
    for proof in PROOF_NAMES:
        for labelling in ("claimed", "source", "fixed"):
            for floor in (True, False):
                assert counts[f"valid {proof} {labelling} {floor}"]


def test_a_missing_secret_stops_the_lane_and_nothing_else_does() -> None:
    (world, *_), rng = worlds(), random.Random(0)
    (lane, *_) = (lane for lane in world.lanes if lane.stream == "ClaimedHmac" and "alpha" in lane.sources)
    key = Key(b"unwanted", "alpha", HMAC, rng.randbytes(32))
    history = history_of([(0, world.authority.key(1, key))], world.authority.public)
    said = Said(lane.stream, "alpha", "U", HMAC, key.key_id, 1, b"k", b"v").proven(key)
    judge = Judge(world.topology, lane.group, None, history, world.secret, {})
    with pytest.raises(LaneError):
        judge.judge(1, said.key, said.value, list(said.record.headers))


@given(st.binary(max_size=120), st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=9), st.booleans())
@settings(max_examples=500, deadline=None)
def test_no_bytes_make_a_judge_fail(noise: bytes, key: bytes | None, value: bytes | None, sound: bool) -> None:
    for world in worlds():
        for lane in world.lanes[:6]:
            header = noise
            if sound:
                claim = claim_bytes(len(noise) % 4, ZEROS if len(noise) % 4 == 0 else noise[:8].ljust(8), "alpha", "U")
                header = header_bytes(claim, 1, noise)
            lane.begin()
            lane.present(KEYS_AT + 1, Record(key, value, ((HEADER, header),)))


# ---- says ----

some_bytes = st.none() | st.binary(max_size=6)
sequences = st.integers(1, 2**64 - 1) | st.integers(1, 3)
names = st.text("ab\u00e9", max_size=4)
claims = st.builds(
    says.Claim,
    st.sampled_from([says.Proof.HMAC, says.Proof.ED25519, says.Proof.ED25519_BATCH]),
    st.binary(min_size=8, max_size=8).filter(lambda key_id: key_id != ZEROS),
    st.text(max_size=60),
    st.text(max_size=60),
) | st.builds(says.Claim, st.just(says.Proof.NONE), st.just(ZEROS), names, names)
tuples = st.tuples(st.text("AB", min_size=1, max_size=3), claims, sequences, some_bytes, some_bytes)


def signed_by_says(stream: str, claim: bytes, sequence: int, key: bytes | None, value: bytes | None) -> bytes:
    return says.prefix(stream, claim) + says.rest(sequence.to_bytes(8, "big"), key, value)


@given(claims)
def test_a_claim_is_read_as_it_was_written(claim: says.Claim) -> None:
    encoded = claim.encode()
    assert encoded == claim_bytes(claim.proof, claim.key_id, claim.source, claim.label)
    assert says.decode_claim(encoded) == claim
    assert says.encode_header(encoded, 7, b"e") == header_bytes(encoded, 7, b"e")


@given(st.binary(max_size=40) | st.builds(lambda head, rest: bytes([1, head]) + rest, st.integers(0, 5), st.binary()))
def test_what_is_read_as_a_claim_is_written_just_so(noise: bytes) -> None:
    try:
        claim = says.decode_claim(noise)
    except says.Malformed:
        return
    assert claim.encode() == noise


@given(tuples, tuples)
@settings(max_examples=500)
def test_no_two_tuples_have_the_same_signed_bytes(one: Any, two: Any) -> None:
    both = []
    for stream, claim, *rest in (one, two):
        said = (stream, claim.encode(), *rest)
        signed = signed_by_says(*said)
        assert signed == signed_bytes(*said)
        assert read_signed(signed) == said
        both.append((said, signed))
    assert (both[0][0] == both[1][0]) == (both[0][1] == both[1][1])


@given(tuples, st.integers(0, 12), st.integers(0, 12))
def test_moving_bytes_about_never_gives_the_same_signed_bytes(said: Any, a: int, b: int) -> None:
    stream, claim, sequence, key, value = said
    encoded = claim.encode()
    both = (key or b"") + (value or b"")
    other_ways = [
        (stream, encoded, sequence, both[:a], both[a:]),
        (stream, encoded, sequence, None, both),
        (stream, encoded, sequence, both, None),
        (stream, encoded[:-b] if b else encoded, sequence, (encoded[-b:] if b else b"") + (key or b""), value),
        (stream + "A", encoded[1:], sequence, key, value),
    ]
    for way in other_ways:
        assert (signed_by_says(*way) == signed_by_says(stream, encoded, sequence, key, value)) == (
            way == (stream, encoded, sequence, key, value)
        )


@given(st.integers(1, 200), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_each_tuple_of_a_batch_verifies_alone_and_with_no_other_s_evidence(size: int, seed: int) -> None:
    rng = random.Random(seed)
    key = Key(b"batchkey", "alpha", BATCH, rng.randbytes(32))
    signed = [b"%d " % place + rng.randbytes(3) for place in range(size)]
    evidence = key.proofs(signed)
    verify = says.verifier(says.Proof.ED25519_BATCH, key.public, b"")
    assert all(verify(*pair) for pair in zip(signed, evidence, strict=True))
    for _ in range(200):
        place, mate = rng.randrange(size), rng.randrange(size)
        assert verify(signed[place], evidence[mate]) == (place == mate)
    assert not any(verify(each, evidence[0][:64]) or verify(each, b"") for each in signed)


def test_a_path_has_sixteen_companions_at_most() -> None:
    rng = random.Random(16)
    key = Key(b"batchkey", "alpha", BATCH, rng.randbytes(32))
    verify = says.verifier(says.Proof.ED25519_BATCH, key.public, b"")
    held = [verify(b"said", deep_evidence(rng, key, b"said", depth)) for depth in range(32)]
    assert held == [depth <= 16 for depth in range(32)]


@given(st.integers(0, 2**32), st.booleans())
@settings(max_examples=40, deadline=None)
def test_verdicts_do_not_depend_on_which_roots_are_remembered(seed: int, forget: bool) -> None:
    """Good and bad signatures for the same root, under the right key and another, in every order."""
    rng = random.Random(seed)
    key, stranger = (Key(rng.randbytes(8), "alpha", BATCH, rng.randbytes(32)) for _ in range(2))
    signed = [rng.randbytes(9) for _ in range(rng.randint(1, 5))]
    rows = tree_rows([leaf_of(each) for each in signed])
    path = path_to_root(rows, 0)
    good = key.private.sign(root_part(rows[-1][0]))
    bad = [flipped(rng, good), stranger.private.sign(root_part(rows[-1][0])), bytes(64)]
    cases = [
        (key, good, True),
        *((key, each, False) for each in bad),
        (stranger, good, False),
        (stranger, bad[1], True),
    ]
    for order in rng.sample(list(permutations(cases)), 20):
        if forget:
            says._holds_root.cache_clear()
        for owner, signature, right in order:
            verify = says.verifier(says.Proof.ED25519_BATCH, owner.public, b"")
            assert verify(signed[0], batch_evidence(signature, *path)) == right


# ---- policy ----

AUTHORITY, STRANGER = Authority(random.Random(1)), Authority(random.Random(2))
KEY_IDS = [bytes([n]).ljust(8, b"k") for n in range(4)]
hex_ids = st.sampled_from([key_id.hex() for key_id in KEY_IDS] + [KEY_IDS[0].hex().upper()])
keys_and_proofs = st.sampled_from([("hmac", ""), ("ed25519", "ab" * 32), ("ed25519-batch", "AB" * 32)])
sound_keys = st.builds(
    lambda source, key_id, proof: {
        "type": "key", "source": source, "key_id": key_id, "proof": proof[0], "public": proof[1],
    },
    st.sampled_from(["alpha", "bravo"]), hex_ids | st.just("00" * 8), keys_and_proofs,
)  # fmt: skip
changes: st.SearchStrategy[dict[str, str]] = st.one_of(
    sound_keys,
    sound_keys,
    st.builds(
        lambda change, name, text: change | {name: text},
        sound_keys,
        st.sampled_from(["proof", "public", "key_id"]),
        st.sampled_from(["none", "hmac", "ed25519", "rot13", "", "ab" * 32, "ab" * 31, "zz", "12"]),
    ),
    st.fixed_dictionaries({"type": st.just("revoke-key"), "key_id": hex_ids | st.sampled_from(["", "12", "xy" * 8])}),
    st.fixed_dictionaries({"type": st.just("revoke-source"), "source": st.sampled_from(["alpha", "bravo"])}),
    st.fixed_dictionaries({"type": st.sampled_from(["grant", "", "KEY"]), "source": st.just("alpha")}),
    st.just({}),
)
signers: st.SearchStrategy[Callable[[int, dict[str, str]], bytes]] = st.sampled_from([
    lambda number, change: AUTHORITY.change(number, **change),
    lambda number, change: AUTHORITY.change(number, **change),
    lambda number, change: AUTHORITY.change(number, **change),
    lambda number, change: AUTHORITY.sign(encode_change(number, change)),
    lambda number, change: STRANGER.change(number, **change),
    lambda number, change: bytes(64) + encode_change(number, change),
    lambda number, change: AUTHORITY.change(number, **change)[:-1],
    lambda number, change: AUTHORITY.private.sign(encode_change(number, change)) + encode_change(number, change),
    lambda number, change: AUTHORITY.sign(encode_change(number, change)[:-1]),
    lambda number, change: AUTHORITY.sign(b"[]" if change else b"\xff\xfe"),
])  # fmt: skip
policy_records = st.builds(lambda number, change, sign: sign(number, change), st.integers(1, 30), changes, signers)
# Numbers mostly rise: else hardly any change would count.
policies = st.lists(
    st.tuples(st.integers(0, 12), changes, signers, st.sampled_from([0, 0, 0, 0, -1, -2, 3])), max_size=25
).map(
    lambda drafts: [
        (time, sign(max(0, place + 1 + off), change)) for place, (time, change, sign, off) in enumerate(drafts)
    ]
)


def in_force(history: History, time: int) -> tuple[dict[str, tuple[str, str, str]], set[str], set[str]]:
    """The keys, revoked keys and revoked sources of a moment."""
    asked = {key_id.hex(): history.key(key_id, time) for key_id in (*KEY_IDS, ZEROS)}
    return (
        {key_id: (key.source, PROOF_NAMES[key.proof], key.public.hex()) for key_id, key in asked.items() if key},
        {key_id.hex() for key_id in KEY_IDS if history.key_is_revoked(key_id, time)},
        {source for source in ("alpha", "bravo") if history.source_is_revoked(source, time)},
    )


@given(policies)
@settings(max_examples=400, deadline=None)
def test_the_policy_of_every_moment_is_that_of_the_model(records: list[tuple[int, bytes]]) -> None:
    history = history_of(records, AUTHORITY.public)
    slow = SlowPolicy(records, AUTHORITY.public)
    assert history.number == slow.number
    for time in range(-1, 15):
        wanted = slow.at(time)
        keys = {key_id: (key["source"], key["proof"], key["public"]) for key_id, key in wanted.keys.items()}
        assert in_force(history, time) == (keys, set(wanted.revoked_keys), set(wanted.revoked_sources)), time


@given(policies)
@settings(max_examples=200, deadline=None)
def test_moments_of_one_epoch_have_one_policy(records: list[tuple[int, bytes]]) -> None:
    """Judges remember what claims mean for as long as the epoch is the same."""
    history = history_of(records, AUTHORITY.public)
    by_epoch: dict[int, object] = {}
    for time in range(-1, 15):
        assert by_epoch.setdefault(history.epoch(time), in_force(history, time)) == in_force(history, time)


@given(policies, st.data())
@settings(max_examples=200, deadline=None)
def test_a_policy_that_is_still_to_come_changes_nothing_before(records: list[tuple[int, bytes]], data: Any) -> None:
    """What a lane was told of a moment that was over stays so, however many changes follow."""
    assume(records)
    records = sorted(records, key=lambda record: record[0])
    cut = data.draw(st.integers(0, len(records)))
    early, whole = history_of(records[:cut], AUTHORITY.public), history_of(records, AUTHORITY.public)
    over = records[cut][0] if cut < len(records) else 13
    for time in range(-1, over + 1):
        assert in_force(early, time) == in_force(whole, time)


def history_with(*records: bytes) -> History:
    history = History(AUTHORITY.public)
    for record in records:
        history.add(0, record)
    return history


@given(policy_records, st.integers(0, 2**16))
@settings(max_examples=300, deadline=None)
def test_a_policy_record_with_any_bit_flipped_counts_for_nothing(record: bytes, seed: int) -> None:
    with pytest.raises(PolicyError):
        history_with(flipped(random.Random(seed), record))


def test_a_key_id_is_used_once_for_ever() -> None:
    key, other_key = (Key(KEY_IDS[0], source, HMAC, bytes(32)) for source in ("alpha", "bravo"))
    revoke = {"type": "revoke-key", "key_id": KEY_IDS[0].hex()}
    registered = [AUTHORITY.key(1, key)]
    revoked = [*registered, AUTHORITY.change(2, **revoke)]
    before = [AUTHORITY.change(1, **revoke)]
    for records in (registered, revoked, before):
        for again in (key, other_key):
            with pytest.raises(PolicyError):
                history_with(*records).add(0, AUTHORITY.key(9, again))
    with pytest.raises(PolicyError):
        history_with(AUTHORITY.key(1, Key(ZEROS, "alpha", HMAC, bytes(32))))


def test_what_is_replayed_or_signed_for_another_purpose_counts_for_nothing() -> None:
    first = AUTHORITY.change(1, type="revoke-source", source="alpha")
    change = encode_change(2, {"type": "revoke-source", "source": "bravo"})
    assert history_with(first, AUTHORITY.private.sign(signed_part(change)) + change).number == 2
    for record in (
        first,
        AUTHORITY.change(0, type="revoke-source", source="bravo"),
        AUTHORITY.change(-1, type="revoke-source", source="bravo"),
        AUTHORITY.private.sign(change) + change,
        AUTHORITY.private.sign(b"bellwether says 1\0" + change) + change,
        AUTHORITY.private.sign(b"bellwether batch 1\0" + change) + change,
        b"",
        b"x" * 63,
    ):
        with pytest.raises(PolicyError):
            history_with(first).add(0, record)


@pytest.mark.parametrize(
    "change",
    [
        b'{"number":Infinity,"source":"alpha","type":"revoke-source"}',
        b'{"number":1e999,"source":"alpha","type":"revoke-source"}',
        b'{"number":7.0,"source":"alpha","type":"revoke-source"}',
        b'{"number":"7","source":"alpha","type":"revoke-source"}',
        b'{"number":true,"source":"alpha","type":"revoke-source"}',
        b'{"number":7,"source":5,"type":"revoke-source"}',
        b'{"number":7,"source":"alpha","type":"revoke-source","x":1}',
        b'{"number":7,"number":7,"source":"alpha","type":"revoke-source"}',
        b'{"number":7, "source":"alpha","type":"revoke-source"}',
        b'{"key_id":"01 02030405060708","number":7,"type":"revoke-key"}',
        '{"number":7,"source":"alpha","type":"revoke-source"}'.encode("utf-16"),
        b"[" * 100_000,
    ],
)
def test_what_is_signed_but_not_written_as_changes_are_counts_for_nothing(change: bytes) -> None:
    with pytest.raises(PolicyError):
        history_with(AUTHORITY.sign(change))
