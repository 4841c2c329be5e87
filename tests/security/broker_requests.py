"""One real request for each operation, and the error codes that came back, by name. Decides nothing.

No probe changes anything when it is allowed: each is a dry run, about something that is there already or not
there at all, or invalid in a way that Kafka finds only after it has asked the authorizer. The two requests that do
change something, to set coordinators to work, say so.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka.admin import KafkaAdminClient
from kafka.protocol.admin import (
    AlterUserScramCredentialsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteRecordsRequest,
    DescribeAclsRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeTransactionsRequest,
    IncrementalAlterConfigsRequest,
)
from kafka.protocol.consumer import FetchRequest, HeartbeatRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

BY_NAME = 12  # the last version in which Fetch and Produce name topics rather than give their ids
WAIT_MS = 10_000  # for answers that come from the controller; milliseconds are usual
CONSUMER, A_REPLICA = -1, 2  # who a Fetch says it is; the broker is 1, and there is no other
TOPIC_CONFIG, BROKER_CONFIG, GROUP_CONFIG = 2, 4, 32  # Kafka's numbers for what has settings
BROKER = "1"
UNUSED_NAME = "named-by-nothing"  # no topic, user or ACL is called so
ANY, LITERAL = 1, 3  # in a filter for ACLs
SCRAM_SHA_512 = 2
GROUPS, TRANSACTIONS = 0, 1  # the kinds of coordinators

Codes = list[tuple[str, int]]  # names and error codes
Ask = Callable[[KafkaAdminClient, Sequence[str]], Codes]


def send(client: KafkaAdminClient, request: Any) -> Any:
    """The answer as it came: the public methods turn codes into exceptions, and retry."""
    return client._manager.run(client._manager.send, request)


def fetch(client: KafkaAdminClient, topics: Sequence[str], reader: int = CONSUMER) -> Codes:
    """READ: a consumer's Fetch from the start of each topic."""
    partition = FetchRequest.FetchTopic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        replica_id=reader, max_wait_ms=0, min_bytes=0, max_bytes=1, isolation_level=0, session_epoch=-1,
        topics=[FetchRequest.FetchTopic(topic=name, partitions=[partition]) for name in topics], max_version=BY_NAME,
    )  # fmt: skip
    return [(topic.topic, topic.partitions[0].error_code) for topic in send(client, request).responses]


def topic_ids(client: KafkaAdminClient, topics: Sequence[str]) -> dict[str, Any]:
    """The ids of topics that the client may describe."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    answer = send(client, MetadataRequest(topics=wanted, allow_auto_topic_creation=False, min_version=10))
    return {topic.name: topic.topic_id for topic in answer.topics}


def fetch_by_id(client: KafkaAdminClient, ids: Mapping[str, Any]) -> Codes:
    """READ: the same Fetch in its newer form."""
    names = {identity: name for name, identity in ids.items()}
    partition = FetchRequest.FetchTopic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1, isolation_level=0, session_epoch=-1, min_version=BY_NAME + 1,
        topics=[FetchRequest.FetchTopic(topic_id=identity, partitions=[partition]) for identity in names],
    )  # fmt: skip
    return [(names[topic.topic_id], topic.partitions[0].error_code) for topic in send(client, request).responses]


def produce_nothing(client: KafkaAdminClient, topics: Sequence[str]) -> Codes:
    """WRITE: no batch of records at all, which is invalid."""
    partition = ProduceRequest.TopicProduceData.PartitionProduceData(index=0, records=b"")
    data = [ProduceRequest.TopicProduceData(name=name, partition_data=[partition]) for name in topics]
    request = ProduceRequest(transactional_id=None, acks=-1, timeout_ms=WAIT_MS, topic_data=data, max_version=BY_NAME)
    return [(topic.name, topic.partition_responses[0].error_code) for topic in send(client, request).responses]


def create_topics(client: KafkaAdminClient, topics: Sequence[str]) -> Codes:
    """CREATE: a dry run."""
    wanted = [CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in topics]
    answer = send(client, CreateTopicsRequest(topics=wanted, timeout_ms=WAIT_MS, validate_only=True))
    return [(topic.name, topic.error_code) for topic in answer.topics]


def delete_records_before_the_first(client: KafkaAdminClient, topics: Sequence[str]) -> Codes:
    """DELETE: the records before offset 0, of which there are none."""
    partition = DeleteRecordsRequest.DeleteRecordsTopic.DeleteRecordsPartition(partition_index=0, offset=0)
    wanted = [DeleteRecordsRequest.DeleteRecordsTopic(name=name, partitions=[partition]) for name in topics]
    answer = send(client, DeleteRecordsRequest(topics=wanted, timeout_ms=WAIT_MS))
    return [(topic.name, topic.partitions[0].error_code) for topic in answer.topics]


def shrink_to_one_partition(client: KafkaAdminClient, topics: Sequence[str]) -> Codes:
    """ALTER: partitions can only become more, so this is invalid, and a dry run besides."""
    wanted = [CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=1, assignments=None) for name in topics]
    answer = send(client, CreatePartitionsRequest(topics=wanted, timeout_ms=WAIT_MS, validate_only=True))
    return [(topic.name, topic.error_code) for topic in answer.results]


def metadata(client: KafkaAdminClient, topics: Sequence[str]) -> Codes:
    """DESCRIBE: each topic by name."""
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    answer = send(client, MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
    return [(topic.name, topic.error_code) for topic in answer.topics]


def describe_configs(owner: int) -> Ask:
    """DESCRIBE_CONFIGS: all settings of each."""

    def ask(client: KafkaAdminClient, names: Sequence[str]) -> Codes:
        one = DescribeConfigsRequest.DescribeConfigsResource
        wanted = [one(resource_type=owner, resource_name=name, configuration_keys=[]) for name in names]
        answer = send(client, DescribeConfigsRequest(resources=wanted))
        return [(result.resource_name, result.error_code) for result in answer.results]

    return ask


def alter_no_config(owner: int) -> Ask:
    """ALTER_CONFIGS: a dry run that changes no setting."""

    def ask(client: KafkaAdminClient, names: Sequence[str]) -> Codes:
        one = IncrementalAlterConfigsRequest.AlterConfigsResource
        wanted = [one(resource_type=owner, resource_name=name, configs=[]) for name in names]
        answer = send(client, IncrementalAlterConfigsRequest(resources=wanted, validate_only=True))
        return [(result.resource_name, result.error_code) for result in answer.responses]

    return ask


def heartbeat_of_nobody(client: KafkaAdminClient, groups: Sequence[str]) -> Codes:
    """READ: a sign of life from no member of the group."""
    requests = {name: HeartbeatRequest(group_id=name, generation_id=0, member_id="nobody") for name in groups}
    return [(name, send(client, request).error_code) for name, request in requests.items()]


def delete_groups(client: KafkaAdminClient, groups: Sequence[str]) -> Codes:
    """DELETE: groups that are not there."""
    answer = send(client, DeleteGroupsRequest(groups_names=list(groups)))
    return [(group.group_id, group.error_code) for group in answer.results]


def describe_groups(client: KafkaAdminClient, groups: Sequence[str]) -> Codes:
    """DESCRIBE: by name; before version 6 a group that is not there was no error."""
    answer = send(client, DescribeGroupsRequest(groups=list(groups), min_version=6))
    return [(group.group_id, group.error_code) for group in answer.groups]


def init_producers(client: KafkaAdminClient, transactions: Sequence[str]) -> Codes:
    """WRITE: for each transactional id."""
    return [(name, _half_a_producer_id(client, name)) for name in transactions]


def describe_transactions(client: KafkaAdminClient, transactions: Sequence[str]) -> Codes:
    """DESCRIBE: by name."""
    answer = send(client, DescribeTransactionsRequest(transactional_ids=list(transactions)))
    return [(state.transactional_id, state.error_code) for state in answer.transaction_states]


def create_a_topic_that_no_acl_names(client: KafkaAdminClient, cluster: Sequence[str]) -> Codes:
    """CREATE on the cluster: no request asks for it alone, but it lets one create any topic. A dry run."""
    return _for(cluster, create_topics(client, [UNUSED_NAME])[0][1])


def delete_a_user_that_is_not_there(client: KafkaAdminClient, cluster: Sequence[str]) -> Codes:
    """ALTER on the cluster: who may do this may give anybody a new password."""
    user = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=UNUSED_NAME, mechanism=SCRAM_SHA_512)
    answer = send(client, AlterUserScramCredentialsRequest(deletions=[user], upsertions=[]))
    return _for(cluster, answer.results[0].error_code)


def list_acls_of_nobody(client: KafkaAdminClient, cluster: Sequence[str]) -> Codes:
    """DESCRIBE on the cluster."""
    request = DescribeAclsRequest(
        resource_type_filter=ANY, resource_name_filter=None, pattern_type_filter=LITERAL, host_filter=None,
        principal_filter=f"User:{UNUSED_NAME}", operation=ANY, permission_type=ANY,
    )  # fmt: skip
    return _for(cluster, send(client, request).error_code)


def fetch_as_a_replica(client: KafkaAdminClient, cluster: Sequence[str]) -> Codes:
    """CLUSTER_ACTION: a Fetch in the name of a broker, which would read any topic, whatever its ACLs."""
    return _for(cluster, fetch(client, [UNUSED_NAME], A_REPLICA)[0][1])


def describe_broker_configs(client: KafkaAdminClient, cluster: Sequence[str]) -> Codes:
    """DESCRIBE_CONFIGS on the cluster."""
    return _for(cluster, describe_configs(BROKER_CONFIG)(client, [BROKER])[0][1])


def alter_no_broker_config(client: KafkaAdminClient, cluster: Sequence[str]) -> Codes:
    """ALTER_CONFIGS on the cluster: a dry run that changes no setting."""
    return _for(cluster, alter_no_config(BROKER_CONFIG)(client, [BROKER])[0][1])


def init_producer_without_transaction(client: KafkaAdminClient, cluster: Sequence[str]) -> Codes:
    """IDEMPOTENT_WRITE on the cluster."""
    return _for(cluster, _half_a_producer_id(client, None))


def begin_transactions(client: KafkaAdminClient, transaction: str) -> int:
    """What a lane does when it starts. Unlike all others here, this one changes something."""
    request = InitProducerIdRequest(transactional_id=transaction, transaction_timeout_ms=1000)
    send(client, FindCoordinatorRequest(key_type=TRANSACTIONS, coordinator_keys=[transaction], min_version=4))
    return int(send(client, request).error_code)


def wake_group_coordinator(client: KafkaAdminClient, group: str) -> None:
    """Have the broker make the internal topic for groups; this changes something, too."""
    send(client, FindCoordinatorRequest(key_type=GROUPS, coordinator_keys=[group], min_version=4))


def _half_a_producer_id(client: KafkaAdminClient, transaction: str | None) -> int:
    """A producer id without its epoch is invalid: no id is given out, nobody is fenced."""
    request = InitProducerIdRequest(
        transactional_id=transaction, transaction_timeout_ms=1000, producer_id=1, producer_epoch=-1, min_version=3
    )
    return int(send(client, request).error_code)


def _for(cluster: Sequence[str], code: int) -> Codes:
    return [(name, code) for name in cluster]
