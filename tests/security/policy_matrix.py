"""Every question that the walls must answer, and the answers that the policy gives. Pure.

A question is a principal, a resource and an operation, so an `Acl` says it as well as it says a right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from topology.kafka_plan import Acl, KafkaPlan, Operation, Resource, ResourceType, closure

CLUSTER = Resource(ResourceType.CLUSTER, "kafka-cluster")
MISSING_TOPIC = "level.nowhere"  # no such topic, but a prefixed ACL on `level.` reaches it
ANY_GROUP = "some-group"
FOREIGN_ID = "some-transaction"

OPERATIONS: Mapping[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}

Names = Mapping[ResourceType, tuple[str, ...]]


@dataclass(frozen=True)
class Findings:
    """Where the broker and the policy differ."""

    extra_allows: frozenset[Acl]
    extra_denies: frozenset[Acl]


def names_of(plan: KafkaPlan) -> Names:
    """What to knock at: all that the plan names, and of each kind something that it does not name."""
    return {
        ResourceType.TOPIC: (*plan.topics, MISSING_TOPIC),
        ResourceType.GROUP: (*plan.principals, ANY_GROUP),
        ResourceType.TRANSACTIONAL_ID: (*plan.transactional_ids, FOREIGN_ID),
        ResourceType.CLUSTER: (CLUSTER.name,),
    }


def questions(principals: Iterable[str], names: Names) -> set[Acl]:
    """Each principal, each resource, each operation."""
    return {
        Acl(principal, Resource(kind, name), operation)
        for principal in principals
        for kind, operations in OPERATIONS.items()
        for name in names[kind]
        for operation in operations
    }


def expected(acls: Iterable[Acl], names: Names) -> set[Acl]:
    """The questions to which the policy says yes.

    Beyond `closure`, Kafka's request handlers (not its authorizer) imply two things, as planted ACLs show:

    - A producer id without a transactional id is given to whoever has IDEMPOTENT_WRITE on the cluster or may
      WRITE some topic, whichever (KIP-679).
    - CreateTopics asks for CREATE on the cluster first, and for CREATE on the topic only without it.
    """
    allowed = closure(acls)
    writers = {a.principal for a in allowed if (a.resource.type, a.operation) == (ResourceType.TOPIC, Operation.WRITE)}
    creators = {a.principal for a in allowed if (a.resource, a.operation) == (CLUSTER, Operation.CREATE)}
    topics = [Resource(ResourceType.TOPIC, name) for name in names[ResourceType.TOPIC]]
    return (
        allowed
        | {Acl(principal, CLUSTER, Operation.IDEMPOTENT_WRITE) for principal in writers}
        | {Acl(principal, topic, Operation.CREATE) for principal in creators for topic in topics}
    )


def compare(answers: Mapping[Acl, bool], policy: Iterable[Acl]) -> Findings:
    """Broker against policy. A right that no question asked about counts as denied, so that it cannot hide."""
    allowed = {question for question, yes in answers.items() if yes}
    wanted = set(policy)
    return Findings(frozenset(allowed - wanted), frozenset(wanted - allowed))
