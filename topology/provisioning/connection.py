"""Reaching a Kafka cluster as one principal, with errors that say which door was closed."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from topology.errors import ClusterError
from topology.provisioning.knock import MECHANISM, knock


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
            "sasl_mechanism": MECHANISM,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }


@contextmanager
def connect(connection: Connection, seconds: float = 30) -> Iterator[KafkaAdminClient]:
    """An admin client for the block; whatever keeps it from the cluster is a ClusterError."""
    knock(connection)
    with _quiet():
        try:
            client = KafkaAdminClient(**connection.client_settings(), bootstrap_timeout_ms=int(seconds * 1000))
        except KafkaError as error:
            reason = f"{type(error).__name__}: {error}"
            raise ClusterError(f"`{connection.bootstrap}` let us in and then failed us: {reason}") from None
        try:
            yield client
        finally:
            client.close()


def answers(connection: Connection) -> bool:
    """Whether an authenticated client can really work there."""
    try:
        with connect(connection, seconds=10) as admin:
            admin.list_topics()
        return True
    except (ClusterError, KafkaError):
        return False


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the client's log off the terminal: what matters of it is raised."""
    logger = logging.getLogger("kafka")
    handler, propagate = logging.NullHandler(), logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
