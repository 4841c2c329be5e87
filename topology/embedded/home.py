"""Where the files of an embedded broker are, and who holds them."""

import fcntl
import json
from dataclasses import dataclass
from pathlib import Path

from topology.embedded import child
from topology.embedded.certificates import Certificates
from topology.embedded.private_files import read_secret
from topology.errors import BrokerError
from topology.provisioning.connection import Connection

ADMINISTRATOR = "admin"


@dataclass(frozen=True)
class Home:
    """Where the files of one embedded broker are."""

    directory: Path

    @property
    def secrets(self) -> Path:
        """Keys and passwords."""
        return self.directory / "secrets"

    @property
    def data(self) -> Path:
        """The log segments: what must never be lost."""
        return self.directory / "data"

    @property
    def properties(self) -> Path:
        """The broker's settings; holds a password, so it is private."""
        return self.directory / "server.properties"

    @property
    def log(self) -> Path:
        """What the broker has to say; kept from growing without end."""
        return self.directory / "broker.log"

    @property
    def output(self) -> Path:
        """What its process printed by itself: little, unless it cannot even begin."""
        return self.directory / "broker.out"

    @property
    def state(self) -> Path:
        """Ports and process ids of the run under way, and the ports of the last one."""
        return self.directory / "broker.json"

    @property
    def certificates(self) -> Certificates:
        """TLS files."""
        return Certificates(self.secrets)

    def connection(self) -> Connection:
        """How the administrator reaches the broker."""
        bootstrap = f"127.0.0.1:{self.ports()['client']}"
        password = read_secret(self.secrets / "admin.password")
        return Connection(bootstrap, self.certificates.authority, ADMINISTRATOR, password)

    def ports(self) -> dict[str, int]:
        """The ports of the run under way or the last one."""
        try:
            ports = json.loads(self.state.read_text())["ports"]
            found = {"client": int(ports["client"]), "controller": int(ports["controller"])}
            if not all(0 < port < 65536 for port in found.values()):
                raise ValueError
            return found
        except FileNotFoundError:
            raise BrokerError(
                f"no broker has run in `{self.directory}`: start one with `bellwether broker start`"
            ) from None
        except (ValueError, KeyError, TypeError):
            raise BrokerError(f"`{self.state}` is damaged: remove it, then start the broker again") from None

    @property
    def lock(self) -> Path:
        """Held while a broker runs here, by it and by the process that started it; names the latter."""
        return self.directory / "lock"

    def is_held(self) -> bool:
        """Whether a broker runs here, or is about to, or is about to have ended."""
        try:
            with self.lock.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                return False
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True

    def keeper(self) -> int | None:
        """The process that keeps the broker here, or None if it is gone, even if the broker is not yet."""
        try:
            pid, started = self.lock.read_text().split()
            return int(pid) if child.started(int(pid)) == started else None
        except (FileNotFoundError, ValueError):
            return None
