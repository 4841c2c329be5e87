"""`says`: what a source signs, how it is proven, and how a proof is checked.

SPECIFICATION.md section 1 defines the bytes. The claim comes first in a header because a source repeats it: a lane
makes sense of each claim once.
"""

import hmac
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from hashlib import sha256
from zlib import crc32

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

HEADER = "bw-says"
VERSION = 1
KEY_ID_BYTES = 8
NO_KEY = bytes(KEY_ID_BYTES)  # the key id of the proof `none`
SEQUENCE_BYTES = 8
MOST_DEPTH = 16  # of a batch: 65,536 tuples under one signature
REMEMBERED_ROOTS = 4096  # a root that is in use costs one check of its signature, however many tuples are under it
DOMAIN = b"bellwether says 1\0"
BATCH_DOMAIN = b"bellwether batch 1\0"
_FIXED = struct.Struct(f">BB{KEY_ID_BYTES}sB")
_SIGNATURE_BYTES, _DIGEST_BYTES, _INDEX_BYTES = 64, 32, 4

Verify = Callable[[bytes, bytes], bool]  # the signed bytes after the prefix, the evidence


class Malformed(ValueError):
    """A header that says nothing."""


class Proof(IntEnum):
    """The kinds of proof; the numbers are on the wire."""

    NONE = 0
    HMAC = 1
    ED25519 = 2
    ED25519_BATCH = 3

    @property
    def strength(self) -> int:
        """A stream takes every proof of at least the strength it asks for."""
        return min(self, Proof.ED25519)


PROOFS = {"none": Proof.NONE, "hmac": Proof.HMAC, "ed25519": Proof.ED25519, "ed25519-batch": Proof.ED25519_BATCH}


@dataclass(frozen=True, slots=True)
class Claim:
    """Who says it, with which label (empty where the stream does not let sources choose), proven by what."""

    proof: Proof
    key_id: bytes
    source: str
    label: str

    def encode(self) -> bytes:
        """The bytes of the claim; `decode_claim` gives the same back."""
        source = self.source.encode()
        return _FIXED.pack(VERSION, self.proof, self.key_id, len(source)) + source + self.label.encode()


def decode_claim(claim: bytes) -> Claim:
    """Read a claim; anything but exactly what `encode` writes is malformed."""
    try:
        version, proof, key_id, length = _FIXED.unpack_from(claim)
        end = _FIXED.size + length
        if version != VERSION or len(claim) < end:
            raise Malformed
        found = Claim(Proof(proof), key_id, claim[_FIXED.size : end].decode(), claim[end:].decode())
    except (struct.error, ValueError):
        raise Malformed from None
    if (found.proof is Proof.NONE) != (key_id == NO_KEY):
        raise Malformed
    return found


def partition_of(key: bytes | None, partitions: int) -> int:
    """The one partition in which a tuple with this key can be said."""
    return crc32(key or b"") % partitions


def encode_header(claim: bytes, sequence: int, evidence: bytes) -> bytes:
    """The value of a `bw-says` header."""
    return len(claim).to_bytes(2, "big") + claim + sequence.to_bytes(SEQUENCE_BYTES, "big") + evidence


def prefix(stream: str, claim: bytes) -> bytes:
    """The first part of what is signed: the same for every tuple with this claim."""
    return DOMAIN + bytes([len(stream)]) + stream.encode() + len(claim).to_bytes(2, "big") + claim


def rest(sequence: bytes, key: bytes | None, value: bytes | None) -> bytes:
    """The second part of what is signed."""
    said_key = b"\0" if key is None else b"\1" + len(key).to_bytes(4, "big") + key
    return sequence + said_key + (b"\0" if value is None else b"\1" + value)


def verifier(proof: Proof, material: bytes, signed_prefix: bytes) -> Verify:
    """The check of one claim's proofs. `material` is the HMAC secret or the public key."""
    match proof:
        case Proof.NONE:
            return lambda _, evidence: evidence == b""
        case Proof.HMAC:
            keyed = HMAC(material, SHA256())
            keyed.update(signed_prefix)

            def verify_hmac(signed_rest: bytes, evidence: bytes) -> bool:
                mac = keyed.copy()
                mac.update(signed_rest)
                return hmac.compare_digest(mac.finalize(), evidence)

            return verify_hmac
        case Proof.ED25519:
            return lambda signed_rest, evidence: holds_ed25519(material, signed_prefix + signed_rest, evidence)
        case Proof.ED25519_BATCH:
            return lambda signed_rest, evidence: _holds_batch(material, signed_prefix + signed_rest, evidence)


def holds_ed25519(public: bytes, signed: bytes, signature: bytes) -> bool:
    """Whether this is a signature of the bytes under the key."""
    try:
        _public_key(public).verify(signature, signed)
        return True
    except (InvalidSignature, ValueError):
        return False


def leaf(signed: bytes) -> bytes:
    """A tuple's place in a batch."""
    return sha256(b"\0" + signed).digest()


def node(left: bytes, right: bytes) -> bytes:
    """Two places under one; the first byte tells it from a leaf."""
    return sha256(b"\1" + left + right).digest()


def _holds_batch(public: bytes, signed: bytes, evidence: bytes) -> bool:
    depth, left_over = divmod(len(evidence) - _SIGNATURE_BYTES - _INDEX_BYTES, _DIGEST_BYTES)
    index = int.from_bytes(evidence[_SIGNATURE_BYTES : _SIGNATURE_BYTES + _INDEX_BYTES], "big")
    if left_over or not 0 <= depth <= MOST_DEPTH or index >> depth:
        return False
    top = leaf(signed)
    start = _SIGNATURE_BYTES + _INDEX_BYTES
    for level in range(depth):
        other = evidence[start + level * _DIGEST_BYTES : start + (level + 1) * _DIGEST_BYTES]
        top = node(other, top) if index >> level & 1 else node(top, other)
    # The signature is part of what is remembered: a wrong one is wrong whether or not a right one came before.
    return _holds_root(public, top, evidence[:_SIGNATURE_BYTES])


@lru_cache(maxsize=REMEMBERED_ROOTS)
def _holds_root(public: bytes, root: bytes, signature: bytes) -> bool:
    return holds_ed25519(public, BATCH_DOMAIN + root, signature)


@lru_cache(maxsize=1024)
def _public_key(raw: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(raw)
