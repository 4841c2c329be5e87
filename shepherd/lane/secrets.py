"""The keys that a lane holds in files."""

from pathlib import Path

from shepherd.lane.client import LaneError
from shepherd.lane.judge import Secrets
from topology.embedded.private_files import read_secret


def authority_key(path: Path) -> bytes:
    """The login authority's public key."""
    key = _hex(path, 32)
    if len(key) != 32:
        raise LaneError(f"`{path}` holds no public key: that would be 64 hex digits")
    return key


def hmac_secrets(directory: Path) -> Secrets:
    """HMAC secrets by key id. One that is missing ends the lane: to refuse its tuples would lose them for ever."""
    return lambda key_id: _hex(directory / f"{key_id.hex()}.secret", 16)


def _hex(path: Path, least: int) -> bytes:
    try:
        content = bytes.fromhex(read_secret(path))
    except ValueError:
        content = b""
    if len(content) < least:
        raise LaneError(f"`{path}` is damaged: it should hold at least {least * 2} hex digits")
    return content
