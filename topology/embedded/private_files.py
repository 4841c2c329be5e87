"""Files that hold secrets: readable by their owner alone from the first byte, and never half written."""

import os
import secrets
import tempfile
from pathlib import Path


def private_directory(path: Path) -> Path:
    """Make a directory that its owner alone can enter."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
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


def kept_secret(path: Path) -> str:
    """The secret in a file; the first time one is made up and kept there."""
    if not path.exists():
        write_private(path, secrets.token_urlsafe(32) + "\n")
    return path.read_text().strip()
