"""A lane's client on kafka-python. Talks, and decides nothing but which errors mean what (R8)."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition, errors
from kafka.consumer.fetcher import Fetcher

from shepherd.lane.batches import read_batch
from shepherd.lane.client import Away, Fenced, LaneError, encode_audit
from shepherd.lane.strand import Chunk, Place, Record

BATCH_BYTES = 512 << 10  # of a producer's batch; full or flushed, never by time: the shape must not tell when (R3)
FETCH_BYTES = 1 << 20  # at most, unless a single batch is larger
MOST_BATCHES = 1_000  # of one read
LINGER_MS = 600_000
TIMEOUT_MS = 15_000
# R8: whoever meets one of these has been replaced, or cannot tell: kafka-python raises a bare KafkaError then.
ENDED = (
    errors.ProducerFencedError,
    errors.TransactionCoordinatorFencedError,
    errors.InvalidProducerEpochError,
    errors.InvalidProducerIdMappingError,
    errors.UnknownProducerIdError,
    errors.OutOfOrderSequenceNumberError,
    errors.InvalidTxnStateError,
    errors.IllegalStateError,
)
CLOSED = (errors.AuthorizationError, errors.MessageSizeTooLargeError)


@contextmanager
def translated() -> Iterator[None]:
    """The errors of kafka-python as a lane's."""
    try:
        yield
    except ENDED as error:
        raise Fenced(f"another process runs this lane ({type(error).__name__})") from None
    except errors.OffsetOutOfRangeError as error:
        places = ", ".join(f"{place.topic} {place.partition} at {at}" for place, at in dict(error.args[0]).items())
        raise LaneError(f"input was deleted before the lane had read it: {places}; nothing is skipped") from None
    except CLOSED as error:
        raise LaneError(f"the cluster refuses: {type(error).__name__}: {error}") from None
    except errors.KafkaError as error:
        if type(error) is errors.KafkaError:
            raise Fenced(f"another process may run this lane ({error})") from None
        raise Away(f"{type(error).__name__}: {error}") from None


class _Batch(NamedTuple):
    offset: int  # its last, by which kafka-python tells whether it is wanted
    data: bytes


class _WholeBatches(Fetcher.PartitionRecords):  # type: ignore[misc]
    """Keeps kafka-python from reading records: one that it cannot read would stop it for ever."""

    def _unpack_records(self, place: Any, records: Any, *_: Any) -> Iterator[_Batch]:
        while (batch := records.next_batch()) is not None:
            if not batch.validate_crc():
                raise errors.CorruptRecordError(f"the batch at {batch.base_offset} of {place} is damaged")
            self.leader_epoch, self.next_fetch_offset = batch.leader_epoch, batch.next_offset
            yield _Batch(batch.last_offset, bytes(batch._buffer))
        self.drain()


def _record(record: Any) -> Record:
    return record.timestamp, record.offset, record.key, record.value, record.headers


class KafkaPythonClient:
    """See `Client`."""

    def __init__(self, settings: Mapping[str, Any], lane: str, log: str, most_bytes: int) -> None:
        """`lane` names the state's topic and the transactional id, `log` the topic of the tuples."""
        self._settings, self._lane, self._log, self._most_bytes = settings, lane, log, most_bytes
        self._producer: Any = None
        self._head: Any = None  # asks where inputs end, and reads nothing
        self._consumers: dict[Place, Any] = {}

    def open(self) -> dict[str, str]:
        """R8: fence, then read the state."""
        self._producer = self._start_producer()
        self._sweep([(self._lane, 0)])
        return self.read_state()

    def log_end(self, partition: int) -> int:
        """See `Client`."""
        place = TopicPartition(self._log, partition)
        with translated(), closing(self._consumer([place])) as consumer:
            return int(consumer.end_offsets([place])[place])

    def start(self, positions: Mapping[Place, int | None]) -> dict[Place, int]:
        """One consumer for each input: kafka-python stalls when partitions are paused and resumed."""
        self._sweep([(self._log, partition) for partition in sorted({partition for _, partition in positions})])
        with translated():
            self._places = [TopicPartition(*place) for place in positions]
            self._head = self._consumer(self._places)
            for place, offset in positions.items():
                self._consumers[place] = consumer = self._consumer([TopicPartition(*place)])
                if place[0].startswith("in."):  # what sources wrote; all else was written by the shepherd
                    consumer._fetcher.PartitionRecords = _WholeBatches
                if offset is None:
                    consumer.seek_to_beginning()
                else:
                    consumer.seek(TopicPartition(*place), offset)
            return {
                place: c.position(TopicPartition(*place), timeout_ms=TIMEOUT_MS) for place, c in self._consumers.items()
            }

    def look(self, places: Sequence[Place]) -> Mapping[Place, int]:
        """The end offsets of inputs, for one who only looks and has opened nothing."""
        with translated():
            self._places = [TopicPartition(*place) for place in places]
            self._head = self._consumer(self._places)
        return self.ends()

    def now(self) -> int:
        """See `Client`."""
        return time.time_ns() // 1_000_000

    def ends(self) -> Mapping[Place, int]:
        """See `Client`."""
        with translated():
            found = self._head.end_offsets(self._places)
            return {(place.topic, place.partition): end for place, end in found.items()}

    def read(self, place: Place) -> tuple[Sequence[Record], int]:
        """See `Client`."""
        with translated():
            consumer, records = self._consumers[place], []
            position = consumer.position(TopicPartition(*place))
            for found in consumer.poll(timeout_ms=0, max_records=MOST_BATCHES).values():
                for item in found:
                    records += read_batch(item.data) if isinstance(item, _Batch) else [_record(item)]
            if records and records[0][1] < position:  # the first batch is whole, whatever was asked for
                records = [record for record in records if record[1] >= position]
            return records, consumer.position(TopicPartition(*place))

    def publish(self, chunk: Chunk) -> None:
        """See `Client`."""
        producer = self._producer
        with translated():
            producer.begin_transaction()
            to = chunk.partition
            sent = [producer.send(self._log, value, key, headers, to, at) for at, key, value, headers in chunk.tuples]
            sent += [producer.send(self._lane, text.encode(), name.encode()) for name, text in chunk.state.items()]
            sent += [producer.send("audit", encode_audit(record)) for record in chunk.audit]
            self._end_transaction(sent, producer._transaction_manager.begin_commit)

    def _sweep(self, places: Sequence[Place]) -> None:
        """R8: an aborted record in each partition, which fences there and aborts what an earlier run left undecided.

        A broker that was killed can forget that a partition was part of a transaction. What was written to it would be
        committed together with our first transaction there.
        """
        producer = self._producer
        with translated():
            producer.begin_transaction()
            sent = [producer.send(topic, b"", b"sweep", None, partition, 1) for topic, partition in places]
            self._end_transaction(sent, producer._transaction_manager.begin_abort)

    def _end_transaction(self, sent: Sequence[Any], begin_end: Callable[[], Any]) -> None:
        self._producer.flush(timeout=TIMEOUT_MS / 1000)
        for future in sent:
            if future.failed():
                raise future.exception
        # As `commit_transaction` does, which would wait for ever for a broker that came back without memory of us.
        ended = begin_end()
        self._producer._sender.wakeup()
        if not ended.wait(timeout_ms=TIMEOUT_MS):
            raise errors.KafkaTimeoutError("the end of a transaction is not confirmed")

    def wait(self, seconds: float) -> None:
        """See `Client`."""
        time.sleep(seconds)

    def close(self) -> None:
        """See `Client`."""
        for consumer in [*self._consumers.values(), *([self._head] if self._head else [])]:
            consumer.close()
        if self._producer:
            self._stop_producer()
        self._consumers, self._head, self._producer = {}, None, None

    def _start_producer(self) -> Any:
        with translated():
            producer = KafkaProducer(
                **self._settings,
                transactional_id=self._lane,
                acks="all",
                batch_size=min(BATCH_BYTES, self._most_bytes),
                linger_ms=LINGER_MS,
                max_request_size=self._most_bytes + BATCH_BYTES,
                max_block_ms=TIMEOUT_MS,
                request_timeout_ms=TIMEOUT_MS,
                delivery_timeout_ms=LINGER_MS + 2 * TIMEOUT_MS,
            )
            producer.init_transactions()
            return producer

    def _stop_producer(self) -> None:
        self._producer._sender.force_close()  # or `close` would wait for what may never be sent
        with suppress(errors.KafkaError):
            self._producer.close(timeout=1)

    def read_state(self) -> dict[str, str]:
        """What the lane has left in its state's topic."""
        place = TopicPartition(self._lane, 0)
        with translated(), closing(self._consumer([place])) as consumer:
            consumer.seek_to_beginning()
            end, state = consumer.end_offsets([place])[place], {}
            while consumer.position(place) < end:
                for found in consumer.poll(timeout_ms=100).values():
                    state.update({record.key.decode(): record.value.decode() for record in found})
            return state

    def _consumer(self, places: Sequence[Any]) -> Any:
        # Sources write no transactions, so only on our own topics does it matter what is committed.
        consumer = KafkaConsumer(
            **self._settings,
            group_id=None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            isolation_level="read_committed",
            max_partition_fetch_bytes=FETCH_BYTES,
            fetch_max_bytes=FETCH_BYTES,
        )
        consumer.assign(places)
        return consumer
