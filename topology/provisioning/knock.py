"""One login over a plain socket, to tell apart what a Kafka client reports as one error or not at all.

kafka-python goes on trying a refused password until its time is up, and can miss the broker's answer when
the connection is closed right behind it. Here each step is taken once, and its answer read to the end.
"""

import re
import socket
import ssl
import struct
from typing import TYPE_CHECKING

from kafka.net.sasl.scram import ScramClient

from topology.errors import ClusterError, InputError, LoginRefused

if TYPE_CHECKING:
    from topology.provisioning.connection import Connection

SECONDS = 20  # for each step; a second is usual
MECHANISM = "SCRAM-SHA-512"
_SASL_HANDSHAKE, _SASL_AUTHENTICATE = 17, 36  # Kafka's numbers for the two requests, both used in version 1
_MOST_ANSWER_BYTES = 1 << 16


def knock(connection: "Connection") -> None:
    """Reach the broker, hold it to its certificate, log in, and go away again."""
    host, port = _address(connection)
    context = _context(connection)
    where = f"`{connection.bootstrap}`"
    try:
        with (
            socket.create_connection((host, port), timeout=SECONDS) as plain,
            context.wrap_socket(plain, server_hostname=host) as secure,
        ):
            _log_in(secure, connection)
    except ssl.SSLCertVerificationError as error:
        if "expired" in error.verify_message:
            advice = "start the embedded broker again, which renews it, or renew it by hand"
            raise ClusterError(f"the certificate of {where} has expired: {advice}") from None
        raise ClusterError(
            f"the certificate of {where} is not one of `{connection.authority}` for this host: {error.verify_message}"
        ) from None
    except ssl.SSLError as error:
        raise ClusterError(f"{where} does not speak TLS ({error.reason}): is it a plaintext listener?") from None
    except (OSError, UnicodeError, OverflowError) as error:
        raise ClusterError(f"{where} cannot be reached: {getattr(error, 'strerror', None) or error}") from None
    except (struct.error, KeyError, ValueError):
        raise ClusterError(f"{where} does not answer as a Kafka broker with SASL") from None


def _address(connection: "Connection") -> tuple[str, int]:
    host, _, port = connection.bootstrap.rpartition(":")
    if not re.fullmatch(r"[A-Za-z0-9.:-]{1,253}", host) or not re.fullmatch(r"[0-9]{1,5}", port):
        raise InputError(f"`{connection.bootstrap}` is no address: expected `host:port`")
    if not connection.username or not connection.username.isprintable():
        raise InputError("the user name is empty or not printable")
    return host, int(port)


def _context(connection: "Connection") -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=connection.authority)
    except OSError as error:
        reason = "it is no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise InputError(f"the certificate authority `{connection.authority}` cannot be read: {reason}") from None


def _log_in(broker: ssl.SSLSocket, connection: "Connection") -> None:
    answer = _ask(broker, _SASL_HANDSHAKE, _text(MECHANISM.encode()))
    if struct.unpack_from(">h", answer)[0]:
        raise ClusterError(f"`{connection.bootstrap}` does not offer {MECHANISM}")
    client = ScramClient(connection.username, connection.password, MECHANISM)
    client.process_server_first_message(_authenticate(broker, connection, client.first_message()))
    client.process_server_final_message(_authenticate(broker, connection, client.final_message()))


def _authenticate(broker: ssl.SSLSocket, connection: "Connection", message: bytes) -> bytes:
    answer = _ask(broker, _SASL_AUTHENTICATE, struct.pack(">i", len(message)) + message)
    code, length = struct.unpack_from(">hh", answer)
    if code:
        raise LoginRefused(f"`{connection.bootstrap}` does not accept user `{connection.username}` with this password")
    start = 4 + max(0, length)
    (size,) = struct.unpack_from(">i", answer, start)
    return answer[start + 4 : start + 4 + size]


def _ask(broker: ssl.SSLSocket, request: int, body: bytes) -> bytes:
    """Send a request in version 1 and return its answer, without the header."""
    message = struct.pack(">hhi", request, 1, 0) + _text(b"bellwether") + body
    broker.sendall(struct.pack(">i", len(message)) + message)
    (size,) = struct.unpack(">i", _read(broker, 4))
    if not 4 <= size <= _MOST_ANSWER_BYTES:
        raise ValueError
    return _read(broker, size)[4:]


def _read(broker: ssl.SSLSocket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = broker.recv(size - len(data))
        if not part:
            raise ConnectionError("the connection was closed half-way")
        data += part
    return data


def _text(data: bytes) -> bytes:
    return struct.pack(">h", len(data)) + data
