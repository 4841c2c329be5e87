"""The policy in time: which keys and sources were in force when a tuple was appended.

The topology declares streams, sources and ranges. The topic `policy` says what has changed since: keys that
came, keys and sources that were revoked. Only what the login authority signed counts, in the order of its
numbers; anything else has no effect but to be audited. SPECIFICATION.md section 2 defines the records.
"""

import json
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shepherd.says import KEY_ID_BYTES, NO_KEY, PROOFS, Proof, holds_ed25519

_DOMAIN = b"bellwether policy 1\0"
_SIGNATURE_BYTES = 64
_FIELDS = {
    "key": {"number", "type", "source", "key_id", "proof", "public"},
    "revoke-key": {"number", "type", "key_id"},
    "revoke-source": {"number", "type", "source"},
}


@dataclass(frozen=True, slots=True)
class Key:
    """A key of one source: what it proves with, and the public key (an HMAC secret never stands here)."""

    source: str
    proof: Proof
    public: bytes
    since: int  # the millisecond after which it is in force


class PolicyError(ValueError):
    """A policy record that counts for nothing."""


def encode_change(number: int, change: Mapping[str, object]) -> bytes:
    """A change as it is written; the login authority's signature goes before it."""
    return json.dumps({**change, "number": number}, sort_keys=True, separators=(",", ":")).encode()


def signed_part(change: bytes) -> bytes:
    """The bytes under the signature."""
    return _DOMAIN + change


class History:
    """All that the policy ever said, and when."""

    def __init__(self, authority: bytes) -> None:
        """`authority` is the login authority's public key."""
        self.number = 0  # of the last change; a lower or equal number is a replay
        self._authority = authority
        self._times: list[int] = []
        self._newest = -1
        self._keys: dict[bytes, Key] = {}
        self._revoked_keys: dict[bytes, int] = {}  # for good: a revoked id never comes back
        self._revoked_sources: dict[str, int] = {}

    def add(self, time: int, record: bytes) -> None:
        """A record of the topic `policy`, appended at `time`; PolicyError if it counts for nothing."""
        signature, change = record[:_SIGNATURE_BYTES], record[_SIGNATURE_BYTES:]
        if not holds_ed25519(self._authority, signed_part(change), signature):
            raise PolicyError("is not signed by the login authority")
        said = _read(change)
        if said["number"] <= self.number:
            raise PolicyError("has a number that was used before")
        # Should the broker's clock run backwards, a change is not in force before the one ahead of it.
        since = max(time, self._newest)
        match said["type"]:
            case "key":
                key_id = _hex(said["key_id"], KEY_ID_BYTES)
                key = Key(said["source"], PROOFS[said["proof"]], _hex(said["public"], 0, 32), since)
                if key_id in self._keys or key_id in self._revoked_keys or key_id == NO_KEY:
                    raise PolicyError("has a key id that was used before")
                if key.proof is Proof.NONE or (key.proof is Proof.HMAC) == bool(key.public):
                    raise PolicyError("has no key that fits its proof")
                self._keys[key_id] = key
            case "revoke-key":
                self._revoked_keys.setdefault(_hex(said["key_id"], KEY_ID_BYTES), since)
            case "revoke-source":
                self._revoked_sources.setdefault(said["source"], since)
        self.number, self._newest = said["number"], since
        self._times.append(since)

    def epoch(self, time: int) -> int:
        """R6: how many changes are in force for a tuple appended at `time`: those of an earlier millisecond."""
        return len(self._times) if time > self._newest else bisect_left(self._times, time)

    def key(self, key_id: bytes, time: int) -> Key | None:
        """The key with this id, if it had come by then."""
        key = self._keys.get(key_id)
        return key if key and key.since < time else None

    def knows_key(self, key_id: str) -> bool:
        """Whether a key with this id (in hex) ever came."""
        return key_id in {known.hex() for known in self._keys}

    def key_is_revoked(self, key_id: bytes, time: int) -> bool:
        """Whether the key had been revoked by then."""
        return self._revoked_keys.get(key_id, time) < time

    def source_is_revoked(self, source: str, time: int) -> bool:
        """Whether the source had been revoked by then."""
        return self._revoked_sources.get(source, time) < time


def _read(change: bytes) -> dict[str, Any]:
    """The fields of a change, if it is written exactly as changes are."""
    try:
        said: dict[str, Any] = json.loads(change)
        right = set(said) == _FIELDS[said["type"]] and type(said["number"]) is int
        right = right and all(isinstance(said[name], str) for name in said if name != "number")
        right = right and said.get("proof", "none") in PROOFS and encode_change(said["number"], said) == change
    except (ValueError, KeyError, TypeError, RecursionError):
        right = False
    if not right:
        raise PolicyError("is malformed")
    return said


def _hex(text: str, *sizes: int) -> bytes:
    try:
        content = bytes.fromhex(text)
    except ValueError:
        content = b""
    if content.hex() != text or len(content) not in sizes:
        raise PolicyError("is malformed")
    return content
