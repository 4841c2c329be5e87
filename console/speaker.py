"""A client for sources: says tuples, proves them, and waits for the broker's acknowledgement.

    with Speaker(connection, topology, "patrol", key) as patrol:
        patrol.say("Vitals", b'{"sid": "s1", "bp": 120, "pr": 60}', label="L", key=b"s1")

An acknowledgement says that the broker keeps the tuple. Whether it is admitted, and where, no source learns. Sequences
come from the clock: let one speaker at a time speak for a source, on a clock that is not set back, or tuples are stale.
"""

import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from kafka import KafkaProducer
from kafka.errors import KafkaError, MessageSizeTooLargeError, TopicAuthorizationFailedError

from shepherd.says import (
    BATCH_DOMAIN,
    HEADER,
    KEY_ID_BYTES,
    MOST_DEPTH,
    NO_KEY,
    PROOFS,
    SEQUENCE_BYTES,
    Claim,
    Proof,
    encode_header,
    leaf,
    node,
    partition_of,
    prefix,
    rest,
)
from topology import ClusterError, InputError, Topology, UnknownName
from topology.kafka_plan import input_topic
from topology.provisioning.connection import Connection
from topology.provisioning.knock import knock

BATCH_TUPLES = 32  # under one signature, where the proof is by batches
ACKNOWLEDGE_SECONDS = 30
TOO_LARGE = "a tuple is larger than the topology's `kafka.max_tuple_bytes`"


@dataclass(frozen=True)
class SourceKey:
    """A source's own key: an HMAC secret, or an Ed25519 private key."""

    proof: Proof
    key_id: bytes
    secret: bytes = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> "SourceKey":
        """The newest key of a key file."""
        try:
            newest = json.loads(path.read_text())[-1]
            key = cls(PROOFS[newest["proof"]], bytes.fromhex(newest["key_id"]), bytes.fromhex(newest["secret"]))
            if (len(key.key_id), len(key.secret)) != (KEY_ID_BYTES, 32):
                raise ValueError
            return key
        except OSError as error:
            raise InputError(f"`{path}`: {error.strerror}; `bellwether source key` makes one") from None
        except (ValueError, KeyError, TypeError, IndexError):
            raise InputError(f"`{path}` is damaged: it should hold the keys of a source") from None


UNPROVEN = SourceKey(Proof.NONE, NO_KEY, b"")


class Speaker:
    """Says the tuples of one source."""

    def __init__(
        self,
        connection: Connection,
        topology: Topology,
        source: str,
        key: SourceKey = UNPROVEN,
    ) -> None:
        if source not in topology.sources:
            raise UnknownName(f"unknown source `{source}`")
        knock(connection)
        self.source, self.acknowledged = source, 0
        self._partitions = topology.partitions
        self._topics = {group.stream: input_topic(group) for group in topology.groups if source in group.sources}
        self._claims = {name: topology.streams[name].labelling == "claimed" for name in self._topics}
        self._asked = {name: PROOFS[topology.streams[name].proof] for name in self._topics}
        self._key = key
        self._ed25519 = Ed25519PrivateKey.from_private_bytes(key.secret) if key.proof >= Proof.ED25519 else None
        self._sequence = 0
        self._batch: list[tuple[str, bytes, int, bytes | None, bytes | None, bytes]] = []
        self._waiting: list[Any] = []
        self._producer = KafkaProducer(
            **connection.client_settings(),
            acks="all",
            enable_idempotence=False,
            max_in_flight_requests_per_connection=1,  # so that a retry cannot overtake, which would make it stale
            max_request_size=topology.kafka.max_tuple_bytes + (1 << 16),
            linger_ms=5,
            delivery_timeout_ms=ACKNOWLEDGE_SECONDS * 1000,
            request_timeout_ms=ACKNOWLEDGE_SECONDS * 500,
        )

    def say(self, stream: str, value: bytes | None, label: str = "", key: bytes | None = None) -> None:
        """Say a tuple; `flush` sees it acknowledged. The label is for streams that let sources claim one."""
        if stream not in self._topics:
            raise UnknownName(f"`{self.source}` has no stream `{stream}`; it has {', '.join(sorted(self._topics))}")
        if self._claims[stream] != bool(label):
            wanted = "needs a label" if self._claims[stream] else "gives its tuples their label: leave it out"
            raise InputError(f"stream `{stream}` {wanted}")
        if self._key.proof.strength < self._asked[stream].strength:
            wanted = "`bellwether source key` makes one"
            raise InputError(f"stream `{stream}` asks for a stronger proof than this key gives: {wanted}")
        # Greater than ever before, also after a restart on a machine whose clock moves forward.
        self._sequence = max(self._sequence + 1, time.time_ns())
        claim = Claim(self._key.proof, self._key.key_id, self.source, label).encode()
        signed = prefix(stream, claim) + rest(self._sequence.to_bytes(SEQUENCE_BYTES, "big"), key, value)
        if self._key.proof is Proof.ED25519_BATCH:
            self._batch.append((stream, claim, self._sequence, key, value, signed))
            if len(self._batch) == BATCH_TUPLES:
                self._send_batch()
        else:
            self._send(stream, claim, self._sequence, key, value, self._evidence(signed))

    def flush(self) -> int:
        """Wait until the broker has acknowledged all that was said; how many there were in all."""
        self._send_batch()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            try:
                future.get(timeout=ACKNOWLEDGE_SECONDS + 1)
            except TopicAuthorizationFailedError:
                raise ClusterError(f"the broker does not let `{self.source}` write there") from None
            except MessageSizeTooLargeError:
                raise InputError(TOO_LARGE) from None
            except KafkaError as error:
                why = f"{type(error).__name__}: {error}"
                raise ClusterError(f"not acknowledged after the first {self.acknowledged}: {why}") from None
            self.acknowledged += 1
        return self.acknowledged

    def close(self) -> None:
        """Flush, and let go of the cluster."""
        try:
            self.flush()
        finally:
            self._producer.close()

    def __enter__(self) -> "Speaker":
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            with suppress(KafkaError):
                self._producer.close(timeout=1)

    def _evidence(self, signed: bytes) -> bytes:
        if self._key.proof is Proof.HMAC:
            mac = HMAC(self._key.secret, SHA256())
            mac.update(signed)
            return mac.finalize()
        return self._ed25519.sign(signed) if self._ed25519 else b""

    def _send_batch(self) -> None:
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        assert self._ed25519 is not None
        evidence = prove_batch([signed for *_, signed in batch], self._ed25519.sign)
        for (stream, claim, sequence, key, value, _), proof in zip(batch, evidence, strict=True):
            self._send(stream, claim, sequence, key, value, proof)

    def _send(
        self, stream: str, claim: bytes, sequence: int, key: bytes | None, value: bytes | None, evidence: bytes
    ) -> None:
        headers = [(HEADER, encode_header(claim, sequence, evidence))]
        partition = partition_of(key, self._partitions)
        try:
            self._waiting.append(self._producer.send(self._topics[stream], value, key, headers, partition))
        except MessageSizeTooLargeError:
            raise InputError(TOO_LARGE) from None


def prove_batch(messages: Sequence[bytes], sign: Callable[[bytes], bytes]) -> list[bytes]:
    """Evidence for each message, with one signature for all."""
    if not 0 < len(messages) <= 1 << MOST_DEPTH:
        raise ValueError(f"a batch has 1 to {1 << MOST_DEPTH} tuples")
    rows = [[leaf(message) for message in messages]]
    while len(rows[-1]) > 1:
        row = rows[-1] + rows[-1][-1:] * (len(rows[-1]) % 2)  # an odd one out is its own companion
        rows.append([node(left, right) for left, right in zip(row[::2], row[1::2], strict=True)])
    signature = sign(BATCH_DOMAIN + rows[-1][0])
    evidence = []
    for index in range(len(messages)):
        path = [row[min(index >> level ^ 1, len(row) - 1)] for level, row in enumerate(rows[:-1])]
        evidence.append(signature + index.to_bytes(4, "big") + b"".join(path))
    return evidence
