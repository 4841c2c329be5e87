"""Reaching a Kafka cluster as one principal, with errors that say which door was closed."""

import logging
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from topology.errors import ClusterError, LoginRefused

CONNECT_SECONDS = 10  # for one TCP connection and TLS handshake
TURN_SECONDS = 2.0  # between looks at why the client is not in yet


@dataclass(frozen=True)
class Connection:
    """Where a cluster is, whom we trust to be it, and who we are. SCRAM over TLS always."""

    bootstrap: str  # host:port
    authority: Path
    username: str
    password: str = field(repr=False)

    def client_settings(self) -> dict[str, Any]:
        """The settings for any client of kafka-python."""
        return {
            "bootstrap_servers": self.bootstrap,
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(self.authority),
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }


@contextmanager
def connect(connection: Connection, seconds: float = 30) -> Iterator[KafkaAdminClient]:
    """An admin client for the block; whatever keeps it from the cluster is a ClusterError."""
    _check_tls(connection)
    with _overheard() as errors:
        client = _bootstrap(connection, seconds, errors)
        try:
            yield client
        finally:
            client.close()


def _bootstrap(connection: Connection, seconds: float, errors: "_Errors") -> KafkaAdminClient:
    """Try in short turns: the client goes on trying a refused password until its time is up."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return KafkaAdminClient(**connection.client_settings(), bootstrap_timeout_ms=int(TURN_SECONDS * 1000))
        except KafkaError as error:
            if errors.refused:
                raise LoginRefused(
                    f"`{connection.bootstrap}` does not accept user `{connection.username}` with this password"
                ) from None
            if time.monotonic() > deadline:
                last = errors.last or f"{type(error).__name__}: {error}"
                raise ClusterError(f"`{connection.bootstrap}` does not answer as a Kafka broker: {last}") from None


class _Errors(logging.Handler):
    """What the client logs instead of raising."""

    refused = False
    last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what matters of a log record."""
        message = record.getMessage()
        self.refused = self.refused or "SaslAuthenticationFailed" in message
        if record.levelno >= logging.ERROR:
            self.last = message


@contextmanager
def _overheard() -> Iterator[_Errors]:
    """Listen to the client's log in the block, and keep it off the terminal."""
    logger = logging.getLogger("kafka")
    errors, propagate = _Errors(), logger.propagate
    logger.addHandler(errors)
    logger.propagate = False
    try:
        yield errors
    finally:
        logger.removeHandler(errors)
        logger.propagate = propagate


def _check_tls(connection: Connection) -> None:
    """Open and close one TLS connection, to tell apart what a Kafka client reports as one error."""
    host, _, port = connection.bootstrap.rpartition(":")
    if not host or not port.isdigit():
        raise ClusterError(f"`{connection.bootstrap}` is no address: expected `host:port`")
    try:
        context = ssl.create_default_context(cafile=connection.authority)
    except OSError as error:
        raise ClusterError(f"the certificate authority `{connection.authority}` cannot be read: {error}") from None
    where = f"`{connection.bootstrap}`"
    try:
        with socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS) as plain:
            context.wrap_socket(plain, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        if "expired" in error.verify_message:
            advice = "start the embedded broker again, which renews it, or renew it by hand"
            raise ClusterError(f"the certificate of {where} has expired: {advice}") from None
        raise ClusterError(
            f"the certificate of {where} is not one of `{connection.authority}` for this host: {error.verify_message}"
        ) from None
    except ssl.SSLError as error:
        raise ClusterError(f"{where} does not speak TLS ({error.reason}): is it a plaintext listener?") from None
    except OSError as error:
        raise ClusterError(f"{where} cannot be reached: {error.strerror or error}") from None
