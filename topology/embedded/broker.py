"""A real Kafka broker on this machine: TLS, SCRAM, the authorizer, secrets of its own, data that lasts.

One directory holds everything. Starting is safe at any time: what is missing is made, what is whole is
kept, what was left half done by a crash is done again.
"""

import base64
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from topology.embedded import child, jars
from topology.embedded.home import ADMINISTRATOR, Home
from topology.embedded.java import java
from topology.embedded.private_files import kept_secret, private_directory, read_secret, write_private
from topology.embedded.server_properties import server_properties
from topology.errors import BrokerError, InputError
from topology.provisioning.connection import answers

HOSTS = ["localhost", "127.0.0.1", "::1"]
LEAST_FREE_BYTES = 256 << 20  # a broker that meets a full disk halts; better not to start it
# Configuration values must not be able to read files or the environment.
NO_PROVIDERS = "-Dorg.apache.kafka.automatic.config.providers=none"
FULL_BYTES = 64 << 10  # less than this is too little to write even a reason
START_SECONDS = 120  # ten on a quiet machine; a loaded one takes longer
STOP_SECONDS = 40  # a controlled stop takes two; past this the broker is killed and recovers at next start
FORMAT_SECONDS = 120

Say = Callable[[str], None]


def _silently(_: str) -> None: ...


class Broker:
    """A running broker; make one with `running`."""

    def __init__(self, home: Home, process: "subprocess.Popen[bytes]") -> None:
        self.home = home
        self.process = process

    def wait(self) -> int:
        """Wait for the broker to end, and say how it did."""
        return self.process.wait()


@contextmanager
def running(directory: Path, port: int | None = None, say: Say = _silently) -> Iterator[Broker]:
    """A broker that is ready inside the block and stopped after it."""
    home = Home(_checked_path(directory))
    with _prepared(home, port, say) as lock:
        process = child.start(_command(home), home.output, lock)
        try:
            _wait_until_ready(home, process, say)
            yield Broker(home, process)
        finally:
            if not child.stop(process, STOP_SECONDS):
                say(f"the broker did not stop in {STOP_SECONDS} seconds and was killed; it recovers at its next start")


def _checked_path(directory: Path) -> Path:
    """The path in full. Kafka's settings and Java's argument files would read some characters as something else."""
    path = directory.resolve()
    if not re.fullmatch(r"[ !#-+./0-9:;=@A-Z\[\]^_`a-z{|}~-]+", str(path)):
        raise InputError(f'`{path}` cannot hold a broker: use plain ASCII without `,`, `"` or `\\`')
    return path


@contextmanager
def _prepared(home: Home, port: int | None, say: Say) -> Iterator[int]:
    """Everything a broker needs before it starts, and the lock that keeps a second one away."""
    try:
        private_directory(home.directory)
        with _locked(home, say) as lock:
            free = shutil.disk_usage(home.directory).free
            if free < LEAST_FREE_BYTES:
                raise BrokerError(
                    f"the disk of `{home.directory}` has {free >> 20} MiB free, and a broker needs "
                    f"{LEAST_FREE_BYTES >> 20}: free some, nothing was changed"
                )
            private_directory(home.secrets)
            if home.data.exists() and not (home.secrets / "admin.password").exists():
                raise BrokerError(f"`{home.secrets / 'admin.password'}` is missing beside existing data: restore it")
            if home.certificates.ensure(HOSTS):
                say(f"issued a certificate for the broker, valid until {home.certificates.expiry():%Y-%m-%d}")
            _write_state(home, _choose_ports(home, port))
            write_private(home.properties, server_properties(home, home.data))
            _format_once(home, lock, say)
            yield lock
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise BrokerError(f"the disk of `{home.directory}` is full: free some space and start again") from None
        raise BrokerError(f"`{error.filename or home.directory}`: {error.strerror}") from None


@contextmanager
def _locked(home: Home, say: Say) -> Iterator[int]:
    # The lock goes with the processes that hold it, so a killed broker never leaves a stale one.
    with home.lock.open("a+") as lock:
        deadline = time.monotonic() + STOP_SECONDS
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                keeper = home.keeper()
                if keeper is not None or time.monotonic() > deadline:
                    raise BrokerError(f"a broker runs in `{home.directory}` already (process {keeper})") from None
                say("waiting for the last broker to end, whose parent was killed")
                time.sleep(1)
        lock.truncate(0)
        lock.write(f"{os.getpid()} {child.started(os.getpid())}")
        lock.flush()
        yield lock.fileno()


def _choose_ports(home: Home, wanted: int | None) -> dict[str, int]:
    """The wanted port, else the one of the last run (clients know it), else a free one."""
    last = home.ports() if home.state.exists() else {}
    client = last.get("client", 0) if wanted is None else wanted
    controller = last.get("controller", 0)
    return {
        "client": _free_port(client, "choose another with `--port`, or any free one with `--port 0`"),
        "controller": _free_port(controller if _is_free(controller) else 0, ""),
    }


def _is_free(port: int) -> bool:
    try:
        _free_port(port, "")
        return True
    except BrokerError:
        return False


def _free_port(port: int, advice: str) -> int:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            return int(probe.getsockname()[1])
        except OSError as error:
            raise BrokerError(f"port {port} cannot be had ({error.strerror}): {advice}") from None


def _write_state(home: Home, ports: dict[str, int]) -> None:
    write_private(home.state, json.dumps({"ports": ports}) + "\n")


def _format_once(home: Home, lock: int, say: Say) -> None:
    """Format the data directory beside its place and move it there whole, so that no crash leaves half of one."""
    fresh, log = home.directory / "data.new", home.directory / "format.log"
    properties, arguments = home.directory / "format.properties", home.directory / "format.arguments"
    for left in (log, properties, arguments):
        left.unlink(missing_ok=True)
    if home.data.exists():
        return
    say("formatting a new data directory")
    shutil.rmtree(fresh, ignore_errors=True)
    write_private(properties, server_properties(home, fresh))
    # The first bits of such a UUID are random, and an id that began with `-` would be read as an option.
    cluster_id = "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")[1:]
    password = kept_secret(home.secrets / "admin.password")
    # Through a file: a command line can be read by every user of the machine.
    write_private(
        arguments,
        f'{NO_PROVIDERS} -cp "{_class_path()}" kafka.tools.StorageTool format --standalone -t {cluster_id} '
        f'-c "{properties}" --add-scram "SCRAM-SHA-512=[name={ADMINISTRATOR},password={password}]"\n',
    )
    process = child.start([java(), "-Xmx256m", f"@{arguments}"], log, lock)
    try:
        code = process.wait(FORMAT_SECONDS)
        if code < 0:
            raise BrokerError(f"the data directory cannot be formatted: the tool was ended by signal {-code}")
        if code or not _is_whole(fresh):  # on a full disk the tool can leave an empty file and call it success
            words = _disk_hint(home) or _last_words(home, log)
            raise BrokerError(f"the data directory cannot be formatted: {words}")
        fresh.rename(home.data)
    except subprocess.TimeoutExpired:
        raise BrokerError(f"formatting the data directory took more than {FORMAT_SECONDS} seconds") from None
    finally:
        child.stop(process, grace_seconds=0)
        for left in (log, properties, arguments):
            left.unlink(missing_ok=True)


def _is_whole(data: Path) -> bool:
    meta, bootstrap = data / "meta.properties", data / "bootstrap.checkpoint"
    if not meta.exists() or not bootstrap.exists():
        return False
    return "node.id=" in meta.read_text() and "cluster.id=" in meta.read_text() and bootstrap.stat().st_size > 0


def _disk_hint(home: Home) -> str:
    """The likeliest reason for a JVM to fail without a word: it could not even write its log."""
    free = shutil.disk_usage(home.directory).free
    return f"the disk of `{home.directory}` is full" if free < FULL_BYTES else ""


def _class_path() -> str:
    return ":".join(str(path) for path in jars.class_path("broker"))


def _command(home: Home) -> list[str]:
    # No -XX:+ExitOnOutOfMemoryError: a batch of 100 bytes that claims to unpack to 2 GB would end the broker, where
    # Kafka without it refuses the batch and goes on.
    return [
        java(), "-Xmx512m", "-Djava.awt.headless=true",
        NO_PROVIDERS, f"-Dbellwether.log={home.log}",
        f"-Dlog4j2.configurationFile={Path(__file__).parent / 'log4j2.properties'}",
        "-cp", _class_path(), "kafka.Kafka", str(home.properties),
    ]  # fmt: skip


def _wait_until_ready(home: Home, process: "subprocess.Popen[bytes]", say: Say) -> None:
    """Ready means that an authenticated client can really work."""
    say("waiting for the broker to answer an authenticated client")
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            how = f"signal {-process.returncode}" if process.returncode < 0 else f"exit code {process.returncode}"
            words = _disk_hint(home) or _last_words(home, home.log, home.output)
            raise BrokerError(f"the broker ended while starting ({how}): {words}; all of it in `{home.log}`")
        if answers(home.connection()):
            return
        time.sleep(0.3)
    raise BrokerError(f"the broker did not answer within {START_SECONDS} seconds; see `{home.log}`")


def _last_words(home: Home, *logs: Path) -> str:
    """The line that says best why a JVM gave up, without any secret that stands in it."""
    text = "".join(log.read_text(errors="replace")[-20_000:] for log in logs if log.exists())
    for secret in home.secrets.glob("*.password"):
        text = text.replace(read_secret(secret), "(secret)")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    causes = [line for line in lines if re.search(r"Exception|Error|FATAL|No space left", line)]
    return re.sub(r"^.*?((?:[\w.]+)?(?:Exception|Error)\b)", r"\1", (causes or lines or ["no reason given"])[-1])[:300]


def stop(directory: Path) -> bool:
    """Stop the broker that runs in a directory, and wait for it; False if none did."""
    home = Home(directory.resolve())
    if not home.is_held():
        return False
    keeper = home.keeper()
    if keeper is not None:
        os.kill(keeper, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECONDS + 10
    while home.is_held():
        if time.monotonic() > deadline:
            raise BrokerError(f"the broker does not stop (process {keeper}); see `{home.log}`")
        time.sleep(0.1)
    return True
