"""Asks a live broker what it allows, by the very requests that need each operation.

The verdict is the error code of a real answer; `authorized_operations` and empty results prove nothing. A code
that is neither the denial nor a refusal known to come after the authorizer is no verdict: it raises.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from kafka.admin import KafkaAdminClient

from tests.security import broker_requests as ask
from tests.security.policy_matrix import MISSING_TOPIC, Names, questions
from topology.kafka_plan import Acl, Operation, Resource, ResourceType
from topology.provisioning.connection import Connection, connect


class Code(IntEnum):
    """The error codes that are a verdict in some answer; the numbers are Kafka's own."""

    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_COORDINATOR = 16  # as long as nobody ever needed a coordinator
    UNKNOWN_MEMBER_ID = 25
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    GROUP_ID_NOT_FOUND = 69
    INVALID_RECORD = 87
    RESOURCE_NOT_FOUND = 91
    TRANSACTIONAL_ID_NOT_FOUND = 105


class NoVerdict(AssertionError):
    """The broker answered neither yes nor no, or not all that was asked."""


@dataclass(frozen=True)
class Probe:
    """One operation: the request that needs it, and what the error codes of its answer mean."""

    kind: ResourceType
    operation: Operation
    request: ask.Ask
    denied: Code
    authorized: frozenset[Code]  # done, or refused for another reason
    if_missing: frozenset[Code]  # the same, for the one topic that is not there

    def __str__(self) -> str:
        return f"{self.operation.name} on {self.kind.name}"

    def allows(self, name: str, code: int) -> bool:
        """What an error code says about the right to a resource."""
        if code == self.denied:
            return False
        if code not in (self.if_missing if name == MISSING_TOPIC else self.authorized):
            raise NoVerdict(f"{self} `{name}`: error code {code} is no verdict")
        return True


def _topic(operation: Operation, request: ask.Ask, *authorized: Code, if_missing: Code | None = None) -> Probe:
    missing = frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION if if_missing is None else if_missing})
    denied = Code.TOPIC_AUTHORIZATION_FAILED
    return Probe(ResourceType.TOPIC, operation, request, denied, frozenset(authorized), missing)


def _group(operation: Operation, request: ask.Ask, *authorized: Code) -> Probe:
    denied = Code.GROUP_AUTHORIZATION_FAILED
    return Probe(ResourceType.GROUP, operation, request, denied, frozenset(authorized), frozenset())


def _transaction(operation: Operation, request: ask.Ask, *authorized: Code) -> Probe:
    denied = Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Probe(ResourceType.TRANSACTIONAL_ID, operation, request, denied, frozenset(authorized), frozenset())


def _cluster(
    operation: Operation, request: ask.Ask, authorized: Code, denied: Code = Code.CLUSTER_AUTHORIZATION_FAILED
) -> Probe:
    return Probe(ResourceType.CLUSTER, operation, request, denied, frozenset({authorized}), frozenset())


_BY_TOPIC = Code.TOPIC_AUTHORIZATION_FAILED  # how requests that name a topic refuse a right on the cluster

PROBES = (
    _topic(Operation.READ, ask.fetch, Code.NONE),
    _topic(Operation.WRITE, ask.produce_nothing, Code.INVALID_RECORD),
    _topic(Operation.CREATE, ask.create_topics, Code.TOPIC_ALREADY_EXISTS, if_missing=Code.NONE),
    # From a compacted topic nobody can delete records, whatever his rights.
    _topic(Operation.DELETE, ask.delete_records_before_the_first, Code.NONE, Code.POLICY_VIOLATION),
    _topic(Operation.ALTER, ask.shrink_to_one_partition, Code.INVALID_PARTITIONS),
    _topic(Operation.DESCRIBE, ask.metadata, Code.NONE),
    _topic(Operation.DESCRIBE_CONFIGS, ask.describe_configs(ask.TOPIC_CONFIG), Code.NONE),
    _topic(Operation.ALTER_CONFIGS, ask.alter_no_config(ask.TOPIC_CONFIG), Code.NONE),
    _group(Operation.READ, ask.heartbeat_of_nobody, Code.NOT_COORDINATOR, Code.UNKNOWN_MEMBER_ID),
    _group(Operation.DELETE, ask.delete_groups, Code.NOT_COORDINATOR, Code.GROUP_ID_NOT_FOUND),
    _group(Operation.DESCRIBE, ask.describe_groups, Code.NOT_COORDINATOR, Code.GROUP_ID_NOT_FOUND),
    _group(Operation.DESCRIBE_CONFIGS, ask.describe_configs(ask.GROUP_CONFIG), Code.NONE),
    _group(Operation.ALTER_CONFIGS, ask.alter_no_config(ask.GROUP_CONFIG), Code.NONE),
    _transaction(Operation.WRITE, ask.init_producers, Code.INVALID_REQUEST),
    _transaction(
        Operation.DESCRIBE,
        ask.describe_transactions,
        Code.NONE,
        Code.NOT_COORDINATOR,
        Code.TRANSACTIONAL_ID_NOT_FOUND,
    ),
    _cluster(Operation.CREATE, ask.create_a_topic_that_no_acl_names, Code.NONE, _BY_TOPIC),
    _cluster(Operation.ALTER, ask.delete_a_user_that_is_not_there, Code.RESOURCE_NOT_FOUND),
    _cluster(Operation.DESCRIBE, ask.list_acls_of_nobody, Code.NONE),
    _cluster(Operation.CLUSTER_ACTION, ask.fetch_as_a_replica, Code.UNKNOWN_TOPIC_OR_PARTITION, _BY_TOPIC),
    _cluster(Operation.DESCRIBE_CONFIGS, ask.describe_broker_configs, Code.NONE),
    _cluster(Operation.ALTER_CONFIGS, ask.alter_no_broker_config, Code.NONE),
    _cluster(Operation.IDEMPOTENT_WRITE, ask.init_producer_without_transaction, Code.INVALID_REQUEST),
)


def matrix(connections: Iterable[Connection], names: Names) -> dict[Acl, bool]:
    """Every question of every principal, answered by the broker."""
    answers: dict[Acl, bool] = {}
    principals = set()
    for connection in connections:
        principals.add(connection.username)
        with connect(connection) as client:
            for probe in PROBES:
                answers |= answered(probe, client, connection.username, names[probe.kind])
    if set(answers) != questions(principals, names):
        raise NoVerdict("the probes do not ask every question")
    return answers


def answered(probe: Probe, client: KafkaAdminClient, principal: str, names: Sequence[str]) -> dict[Acl, bool]:
    """What one probe says about each of `names`."""
    codes = probe.request(client, names)
    if sorted(name for name, _ in codes) != sorted(names):
        raise NoVerdict(f"{probe}: an answer is missing or stands twice")
    return {
        Acl(principal, Resource(probe.kind, name), probe.operation): probe.allows(name, code) for name, code in codes
    }
