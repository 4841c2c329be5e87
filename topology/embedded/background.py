"""A broker in the background: a small process that keeps it, and outlives whoever started it.

Until the broker is ready the starter and the keeper hang together: what the keeper has to say goes
through one pipe, and if the starter dies, or is stopped by Ctrl-C, the other pipe ends and the keeper stops.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from topology.embedded.broker import running
from topology.embedded.home import Home
from topology.errors import BrokerError, InputError, TopologyError

Say = Callable[[str], None]


def start(directory: Path, port: int | None, say: Say) -> int:
    """Start a broker that stays, return when it is ready; the process id of its keeper is returned."""
    words_out, words_in = os.pipe()
    life_out, life_in = os.pipe()
    # -P: what lies in the current directory must not be imported in place of what is installed.
    command = [sys.executable, "-P", "-m", "topology.embedded.background", str(directory), str(port)]
    keeper = subprocess.Popen(
        [*command, str(words_in), str(life_out)],
        pass_fds=(words_in, life_out), start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(words_in)
    os.close(life_out)
    try:
        with os.fdopen(words_out) as words:
            for line in words:
                word = json.loads(line)
                if "error" in word:
                    raise (InputError if word["input"] else BrokerError)(word["error"])
                if "ready" in word:
                    os.write(life_in, b"!")
                    return keeper.pid
                say(word["say"])
        raise BrokerError(f"the broker's keeper ended at once (exit code {keeper.wait()})")
    except BaseException:
        os.close(life_in)  # the keeper sees the end and stops the broker
        keeper.wait()
        raise


def keep(directory: Path, port: int | None, words: int, life: int) -> None:
    """Keep a broker until it ends or somebody stops it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    threading.Thread(target=_end_with_starter, args=(life,), daemon=True).start()

    def tell(word: dict[str, object]) -> None:
        os.write(words, json.dumps(word).encode() + b"\n")

    try:
        with running(directory, port, lambda text: tell({"say": text})) as broker:
            tell({"ready": True})
            os.close(words)
            code = broker.wait()
            with Home(directory).log.open("a") as log:
                log.write(f"the broker ended by itself with exit code {code}\n")
    except TopologyError as error:
        tell({"error": str(error), "input": isinstance(error, InputError)})


def _end_with_starter(life: int) -> None:
    if not os.read(life, 1):
        os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    _, _directory, _port, _words, _life = sys.argv
    keep(Path(_directory), None if _port == "None" else int(_port), int(_words), int(_life))
