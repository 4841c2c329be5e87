"""The judge of one input partition: is a tuple proven (R5), and may the site have it (R1)? Pure.

The checks and their order, which decides the reason of a refusal, are section 3 of SPECIFICATION.md.
A tuple that the site may not have is skipped before its proof is looked at: it costs Low nothing to skip, and what
it proves is for the lanes that may have it to find out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from security_lattice import LabelSyntaxError
from shepherd.policy import History
from shepherd.says import (
    HEADER,
    PROOFS,
    SEQUENCE_BYTES,
    Malformed,
    Proof,
    Verify,
    decode_claim,
    partition_of,
    prefix,
    rest,
    verifier,
)
from topology.cluster import Group, Topology

MOST_CLAIMS = 4_096  # remembered at a time, and their bytes: hostile sources can make up any number
MOST_CLAIM_BYTES = 1_024
Headers = Sequence[tuple[str, bytes | None]]
UNREADABLE: Headers = [("unreadable", None)]  # instead of headers: the batch is not what Kafka's format says
Secrets = Callable[[bytes], bytes]  # the HMAC secret of a key id; raises if it is not at hand


@dataclass(slots=True, eq=False)
class Last:
    """R5: the last admitted tuple of a source with one label in this partition."""

    name: str  # of the record in `lane.<site>` that keeps it
    sequence: int = 0
    time: int = 0  # its place in time: tuples of one source with one label stay in order (R2)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a claim means under one policy: refused, skipped, or to be verified."""

    refusal: str = ""
    admitted: bool = False  # if it is proven
    stamp: tuple[str, bytes] = ("bw-stamp", b"")
    verify: Verify = lambda _, __: False
    last: Last = Last("")  # noqa: RUF009  (never written: only what is admitted has one of its own)


SKIPPED = Meaning()
Verdict = tuple[Meaning, int, int]  # with the sequence and the place in time of a proven tuple


class Judge:
    """Judges the tuples of one input partition in the order of their offsets."""

    def __init__(
        self,
        topology: Topology,
        group: Group,
        subject: Any,
        history: History,
        secrets: Secrets,
        saved: Mapping[str, Last],
        partition: int = 0,
    ) -> None:
        """`subject` is the site's; None sees all, for the quarantine lane. `saved` is what a run before knew."""
        self._mode = topology.mode
        self._partitions, self._partition = topology.partitions, partition
        self._stream = topology.streams[group.stream]
        self._sources = {name: topology.sources[name] for name in group.sources}
        self._subject = subject
        self._history = history
        self._secrets = secrets
        self.lasts = dict(saved)
        self._epoch = 0  # of the policy that the meanings hold under
        self._meanings: dict[bytes, Meaning] = {}

    def judge(self, time: int, key: bytes | None, value: bytes | None, headers: Headers) -> Verdict:
        """The verdict on one tuple; if it is proven and the site may have it, the last one of its kind is now this."""
        if headers is UNREADABLE:
            return _UNREADABLE
        if len(headers) != 1:
            headers = [header for header in headers if header[0] == HEADER]
            if len(headers) != 1:
                return _NO_SAYS
        name, header = headers[0]
        if name != HEADER:
            return _NO_SAYS
        if header is None or len(header) < 2 or (key is None and value is None):
            return _MALFORMED
        if (epoch := self._history.epoch(time)) != self._epoch:
            self._epoch, self._meanings = epoch, {}
        end = (header[0] << 8 | header[1]) + 2
        claim, sequence = header[2:end], header[end : end + SEQUENCE_BYTES]
        if len(sequence) < SEQUENCE_BYTES:
            return _MALFORMED
        meaning = self._meanings.get(claim)
        if meaning is None:
            if len(claim) > MOST_CLAIM_BYTES:
                return _MALFORMED
            meaning = self._remember(claim, time)
        if not meaning.admitted:
            return meaning, 0, 0
        if self._partitions > 1 and partition_of(key, self._partitions) != self._partition:
            return _WRONG_PARTITION  # or it could be said again in each of them
        if not meaning.verify(rest(sequence, key, value), header[end + SEQUENCE_BYTES :]):
            return _BAD_PROOF
        number, last = int.from_bytes(sequence, "big"), meaning.last
        if not last.sequence:  # only what was proven is kept: claims alone could be made up without end
            last = self.lasts.setdefault(last.name, last)
        if number <= last.sequence:
            return _STALE
        last.sequence = number
        if time > last.time:
            last.time = time
        return meaning, number, last.time

    def _remember(self, claim: bytes, time: int) -> Meaning:
        if len(self._meanings) >= MOST_CLAIMS:
            self._meanings.clear()
        meaning = self._meanings[claim] = self._meaning(claim, time)
        return meaning

    def _meaning(self, encoded: bytes, time: int) -> Meaning:
        try:
            claim = decode_claim(encoded)
        except Malformed:
            return Meaning("malformed")
        source, stream, mode = self._sources.get(claim.source), self._stream, self._mode
        if source is None:
            return Meaning("unknown-source")
        if self._history.source_is_revoked(source.name, time):
            return Meaning("revoked-source")
        if claim.proof.strength < PROOFS[stream.proof].strength:
            return Meaning("weak-proof")
        key = self._history.key(claim.key_id, time)
        if claim.proof is not Proof.NONE:
            if key is None or (key.source, key.proof) != (source.name, claim.proof):
                return Meaning("unknown-key")
            if self._history.key_is_revoked(claim.key_id, time):
                return Meaning("revoked-key")
        if (stream.labelling == "claimed") != bool(claim.label):
            return Meaning("bad-label")
        try:
            label = mode.parse(claim.label) if claim.label else stream.fixed or source.range.low  # type: ignore[union-attr]
        except LabelSyntaxError:
            return Meaning("bad-label")
        if source.range is not None and not mode.within(label, source.range):
            return Meaning("out-of-range")
        if stream.floor is not None and not mode.dominates(label, stream.floor):
            return Meaning("below-floor")
        if self._subject is not None:
            if not mode.admits(self._subject, label):
                return SKIPPED  # R1
            seen = mode.format(mode.seen_by(self._subject, label))
        else:
            seen = mode.format(label)
        material = b"" if key is None else self._secrets(claim.key_id) if key.proof is Proof.HMAC else key.public
        signed_prefix = prefix(stream.name, encoded)
        # By the label itself, not by what the site sees of it: lanes of different sites must agree.
        name = f"{stream.name} {source.name} {mode.format(label)}"
        last = self.lasts.get(name) or Last(name)
        stamp = ("bw-stamp", "\0".join((stream.name, seen, source.name)).encode())
        return Meaning("", True, stamp, verifier(claim.proof, material, signed_prefix), last)


_UNREADABLE, _NO_SAYS, _MALFORMED, _WRONG_PARTITION, _BAD_PROOF, _STALE = (
    (Meaning(refusal), 0, 0)
    for refusal in ("unreadable", "no-says", "malformed", "wrong-partition", "bad-proof", "stale-sequence")
)
