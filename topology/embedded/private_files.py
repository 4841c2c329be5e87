"""Files that hold secrets: readable by their owner alone from the first byte, and never half written."""

import os
import secrets
import stat
import tempfile
from pathlib import Path

from topology.errors import InputError

MOST_SECRET_BYTES = 4096  # of a password file; keeps a device or a wrong file from being read for ever


def private_directory(path: Path) -> Path:
    """Make a directory that its owner alone can enter, or check that an existing one is that."""
    try:
        path.mkdir(parents=True, mode=0o700)
    except FileExistsError:
        there = path.lstat()
        # Changing the mode of what others rely on, or trusting what others can swap, would both be wrong.
        if not stat.S_ISDIR(there.st_mode) or there.st_uid != os.geteuid() or there.st_mode & 0o077:
            raise InputError(f"`{path}` must be a directory of yours that nobody else can enter (chmod 700)") from None
    return path


def write_private(path: Path, content: str | bytes) -> None:
    """Write a file as a whole or not at all: a crash or a full disk leaves what was there before."""
    data = content.encode() if isinstance(content, str) else content
    # mkstemp makes the file 0600 before anything is in it.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_secret(path: Path) -> str:
    """The secret in a file: one line of text."""
    try:
        with path.open("rb") as file:
            secret = file.read(MOST_SECRET_BYTES + 1).decode("ascii").strip()
    except OSError as error:
        raise InputError(f"`{path}` cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"`{path}` is damaged: it should hold a password of plain characters") from None
    if not secret or len(secret) > MOST_SECRET_BYTES or not secret.isprintable():
        raise InputError(f"`{path}` is damaged: it should hold one password")
    return secret


def kept_secret(path: Path) -> str:
    """The secret in a file; the first time one is made up and kept there."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32) + "\n")
    return read_secret(path)
