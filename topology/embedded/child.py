"""Child processes that never outlive their parent."""

import ctypes
import os
import signal
import subprocess
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def start(command: list[str], log: Path, lock: int) -> "subprocess.Popen[bytes]":
    """Start a command that gets SIGTERM when this process dies, however it dies; its output goes to `log`.

    The child gets a session of its own, so that Ctrl-C reaches this process alone, which then stops the
    child in order. It also holds the open file `lock`, so that a lock on it lasts until both have ended.
    """
    parent = os.getpid()

    def die_with_parent() -> None:
        # Runs in the child between fork and exec. Linux only; elsewhere a killed parent leaves the child.
        if _libc is not None:
            _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # the parent died before the line above
                os._exit(1)

    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=handle, stderr=handle,
            start_new_session=True, pass_fds=(lock,), umask=0o077, preexec_fn=die_with_parent,  # noqa: PLW1509
        )  # fmt: skip
    finally:
        os.close(handle)


def stop(process: "subprocess.Popen[bytes]", grace_seconds: float) -> bool:
    """Ask a child to end, then make it; say whether it ended by itself."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(grace_seconds)
        return True
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False


def started(pid: int) -> str:
    """When a process started, in a form that tells it from a later one with the same id; empty if it is gone."""
    try:
        # Field 22 of /proc/<pid>/stat; the name before it is in parentheses and may hold anything.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except FileNotFoundError:
        return ""
    except OSError:
        return "unknown"
