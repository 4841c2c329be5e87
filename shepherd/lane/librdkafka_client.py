"""A lane's client that publishes by librdkafka, for a fraction of the cost: `bellwether[librdkafka]`.

It reads as the other one does, because only that leaves batches to be read by us (`batches.py`).
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from shepherd.lane.client import Away, Fenced, LaneError, encode_audit
from shepherd.lane.kafka_client import BATCH_BYTES, TIMEOUT_MS, KafkaPythonClient
from shepherd.lane.strand import Chunk, Place

SECONDS = TIMEOUT_MS / 1000


@contextmanager
def translated() -> Iterator[None]:
    """The errors of librdkafka as a lane's."""
    try:
        yield
    except KafkaException as error:
        told = error.args[0]
        kind = Fenced if told.fatal() else LaneError if told.code() == KafkaError._INVALID_ARG else Away
        raise kind(f"{told.name()}: {told.str()}") from None
    except BufferError:
        raise LaneError("a transaction does not fit into librdkafka's queue") from None


class LibrdkafkaClient(KafkaPythonClient):
    """See `Client`."""

    def _start_producer(self) -> Any:
        settings = self._settings
        with translated():
            producer = Producer({
                "bootstrap.servers": settings["bootstrap_servers"],
                "security.protocol": settings["security_protocol"],
                "ssl.ca.location": settings["ssl_cafile"],
                "sasl.mechanism": settings["sasl_mechanism"],
                "sasl.username": settings["sasl_plain_username"],
                "sasl.password": settings["sasl_plain_password"],
                "transactional.id": self._lane,
                "linger.ms": 2 * TIMEOUT_MS,  # longer than a transaction can take: batches go when full or flushed
                "batch.size": min(BATCH_BYTES, self._most_bytes),
                "batch.num.messages": 1_000_000,
                "message.max.bytes": self._most_bytes,
                "queue.buffering.max.messages": 1_000_000,
                "message.timeout.ms": 4 * TIMEOUT_MS,
                "transaction.timeout.ms": 4 * TIMEOUT_MS,
                "log_level": 2,
            })  # fmt: skip
            producer.init_transactions(SECONDS)
            return producer

    def publish(self, chunk: Chunk) -> None:
        """See `Client`."""
        with translated():
            produce = self._producer.produce
            self._producer.begin_transaction()
            for at, key, value, headers in chunk.tuples:
                produce(self._log, value, key, chunk.partition, timestamp=at, headers=headers)
            for name, text in chunk.state.items():
                produce(self._lane, text.encode(), name.encode(), 0)
            for record in chunk.audit:
                produce("audit", encode_audit(record), None, 0)
            self._producer.commit_transaction(SECONDS)

    def _sweep(self, places: Sequence[Place]) -> None:
        with translated():
            self._producer.begin_transaction()
            for topic, partition in places:
                self._producer.produce(topic, b"", b"sweep", partition, timestamp=1)
            self._producer.flush(SECONDS)
            self._producer.abort_transaction(SECONDS)

    def _stop_producer(self) -> None:
        with suppress(KafkaException):
            self._producer.purge()
