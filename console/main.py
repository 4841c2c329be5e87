"""The entry of the `bellwether` command."""

import os
import signal
import sys
from types import FrameType

TERMINATED = 143  # as a shell reports a process that SIGTERM ended


def main() -> None:
    """Run one command; whatever happens, people get one line and programs an exit code."""
    try:
        signal.signal(signal.SIGTERM, _end)  # so that what was begun is cleared up, as with Ctrl-C
        from console.commands import run

        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = 0
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or the interpreter complains once more at its end
    sys.exit(code)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(TERMINATED)


if __name__ == "__main__":
    main()
