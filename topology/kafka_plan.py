"""Every topic, principal, ACL and transactional id of a cluster, derived from its topology. Pure.

The rules, numbered and tagged where they are upheld:

W1  Deny by absence. Only ALLOW, only LITERAL names, one principal for each process kind and site.
W2  A lane reads an input topic only if its site can admit some tuple of it.
W3  A processor touches topics of its own site alone: its level log and control in, answers and results out.
W4  A gateway touches topics of its own site alone.
W5  A source writes its groups' input topics and nothing else; it reads nothing.
W6  Nobody has a right on the cluster or on a consumer group.
W7  What sources write is stamped with the broker's clock and never recompressed; all else keeps its writer's stamp.
W8  Logs that are the truth (level, lane, policy, control) never expire, by size or by age.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum

from security_lattice import MlsMode, OxrbacMode
from topology.cluster import Group, Site, Topology


class Operation(IntEnum):
    """What Kafka's authorizer can be asked; the numbers are its own."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


class ResourceType(IntEnum):
    """What an ACL can be on; the numbers are Kafka's own."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


@dataclass(frozen=True, order=True, slots=True)
class Resource:
    """Something with a literal name that an ACL can be on."""

    type: ResourceType
    name: str


@dataclass(frozen=True, order=True, slots=True)
class Acl:
    """`principal` may do `operation` on `resource`, from any host."""

    principal: str
    resource: Resource
    operation: Operation


@dataclass(frozen=True)
class Topic:
    """A topic with its settings; what is not set is the cluster's default."""

    name: str
    partitions: int
    settings: Mapping[str, str]


@dataclass(frozen=True)
class SiteRecord:
    """What a site's log may hold: provisioning refuses to let a site become another one over its old log."""

    subject: str
    holds: frozenset[str]  # names of levels and compartments, of roles, or of streams


@dataclass(frozen=True)
class KafkaPlan:
    """All that Kafka must hold for a topology."""

    topology: str
    sites: Mapping[str, "SiteRecord"]
    topics: Mapping[str, Topic]
    principals: tuple[str, ...]
    acls: frozenset[Acl]
    transactional_ids: tuple[str, ...]
    replication: int


QUARANTINE_LANE = "quarantine-lane"
LOGIN_AUTHORITY = "login-authority"
OPERATOR = "operator"
STAMP_SLACK_BYTES = 16_384  # what a lane's headers may add to a tuple: a stamp holds a label of 4,096 characters
LANE_CLOCK = {"message.timestamp.type": "CreateTime"}  # what is stamped stays, whatever the cluster defaults to
FOR_EVER = {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}  # W8
COMPACTED = {"cleanup.policy": "compact", "retention.bytes": "-1"}  # W8
BROKER_CLOCK = {"message.timestamp.type": "LogAppendTime", "compression.type": "uncompressed"}  # W7


def input_topic(group: Group) -> str:
    """The topic that the sources of a group write."""
    return f"in.{group.stream}.{group.name}"


def site_topic(kind: str, site: str) -> str:
    """A topic of one site, such as `level.H`."""
    return f"{kind}.{site}"


def site_principal(kind: str, site: str) -> str:
    """The principal of one process kind at one site, such as `lane.H`."""
    return f"{kind}.{site}"


def source_principal(source: str) -> str:
    """The principal of a source."""
    return f"source.{source}"


def plan(topology: Topology) -> KafkaPlan:
    """Derive everything from a topology."""
    acls = frozenset(_acls(topology))
    ids = {acl.resource.name for acl in acls if acl.resource.type is ResourceType.TRANSACTIONAL_ID}
    return KafkaPlan(
        topology=topology.name,
        sites={
            name: SiteRecord(f"{topology.mode_name} {s.subject_text}", _holds(topology, s))
            for name, s in topology.sites.items()
        },
        topics={topic.name: topic for topic in _topics(topology)},
        principals=tuple(sorted({acl.principal for acl in acls} | {source_principal(s) for s in topology.sources})),
        acls=acls,
        transactional_ids=tuple(sorted(ids)),
        replication=topology.kafka.replication,
    )


def closure(acls: Iterable[Acl]) -> set[Acl]:
    """What the broker allows because of `acls`: some operations imply DESCRIBE, one DESCRIBE_CONFIGS."""
    implied = {
        Operation.READ: Operation.DESCRIBE,
        Operation.WRITE: Operation.DESCRIBE,
        Operation.DELETE: Operation.DESCRIBE,
        Operation.ALTER: Operation.DESCRIBE,
        Operation.ALTER_CONFIGS: Operation.DESCRIBE_CONFIGS,
    }
    allowed = set(acls)
    return allowed | {
        Acl(acl.principal, acl.resource, implied[acl.operation]) for acl in allowed if acl.operation in implied
    }


def _holds(topology: Topology, site: Site) -> frozenset[str]:
    match topology.mode:
        case MlsMode(lattice=lattice):
            return frozenset(lattice.order.down_set(site.subject.name)) | {f":{c}" for c in site.subject.compartments}
        case OxrbacMode():
            return frozenset(site.subject.tuples)
        case _:
            return frozenset(site.roles)


def _topics(topology: Topology) -> Iterator[Topic]:
    kafka, partitions = topology.kafka, topology.partitions
    hour = 3_600_000
    transient = {"cleanup.policy": "delete", "retention.ms": str(kafka.result_retention_hours * hour)}
    limit = {"max.message.bytes": str(kafka.max_tuple_bytes)}
    level_limit = {"max.message.bytes": str(kafka.max_tuple_bytes + STAMP_SLACK_BYTES)}
    input_retention = {"cleanup.policy": "delete", "retention.ms": str(kafka.input_retention_hours * hour)}
    durable = {
        "min.insync.replicas": str(max(1, kafka.replication - 1)),
        "unclean.leader.election.enable": "false",  # whatever the cluster defaults to, no acknowledged tuple is lost
    }

    def topic(name: str, count: int, *settings: Mapping[str, str]) -> Topic:
        merged = durable | LANE_CLOCK
        for part in settings:
            merged |= part
        return Topic(name, count, merged)

    for group in topology.groups:
        yield topic(input_topic(group), partitions, BROKER_CLOCK, limit, input_retention)
    for site in topology.sites:
        yield topic(site_topic("level", site), partitions, FOR_EVER, level_limit)
        yield topic(site_topic("lane", site), 1, COMPACTED)
        yield topic(site_topic("control", site), 1, FOR_EVER)
        yield topic(site_topic("answer", site), 1, transient)
        yield topic(site_topic("result", site), 1, transient)
        yield topic(site_topic("policy", site), 1, FOR_EVER)
        yield topic(site_topic("receipt", site), 1, FOR_EVER)
        yield topic(site_topic("audit", site), 1, FOR_EVER)
    yield topic("lane.quarantine", 1, COMPACTED)
    yield topic("quarantine", partitions, FOR_EVER, level_limit)
    yield topic("policy", 1, FOR_EVER, BROKER_CLOCK)
    yield topic("policy.users", 1, FOR_EVER)
    yield topic("audit", 1, FOR_EVER)


def _acls(topology: Topology) -> Iterator[Acl]:
    for site in topology.sites.values():
        yield from _lane(site_principal("lane", site.name), f"lane.{site.name}", topology.groups_at(site))  # W2
        yield from _allow(site_principal("lane", site.name), Operation.WRITE, f"level.{site.name}")
        yield from _processor(site)
        yield from _gateway(site)
    yield from _lane(QUARANTINE_LANE, "lane.quarantine", topology.groups)
    yield from _allow(QUARANTINE_LANE, Operation.WRITE, "quarantine")
    yield from _login_authority(topology)
    audits = [site_topic("audit", site) for site in topology.sites]
    yield from _allow(OPERATOR, Operation.READ, "quarantine", "audit", *audits)
    for group in topology.groups:
        for source in group.sources:
            yield from _allow(source_principal(source), Operation.WRITE, input_topic(group))  # W5


def _lane(principal: str, state: str, groups: Iterable[Group]) -> Iterator[Acl]:
    yield from _allow(principal, Operation.READ, "policy", state, *map(input_topic, groups))
    yield from _allow(principal, Operation.WRITE, state, "audit")
    yield Acl(principal, Resource(ResourceType.TRANSACTIONAL_ID, state), Operation.WRITE)


def _processor(site: Site) -> Iterator[Acl]:
    principal = site_principal("processor", site.name)  # W3
    yield from _allow(principal, Operation.READ, f"level.{site.name}", f"control.{site.name}")
    yield from _allow(principal, Operation.WRITE, f"answer.{site.name}", f"result.{site.name}")


def _gateway(site: Site) -> Iterator[Acl]:
    principal = site_principal("gateway", site.name)  # W4
    written = ("control", "receipt", "audit")
    read = ("answer", "result", "policy")
    yield from _allow(principal, Operation.WRITE, *(site_topic(kind, site.name) for kind in written))
    yield from _allow(principal, Operation.READ, *(site_topic(kind, site.name) for kind in read))


def _login_authority(topology: Topology) -> Iterator[Acl]:
    own = ("policy", "policy.users")
    yield from _allow(LOGIN_AUTHORITY, Operation.READ, *own)
    yield from _allow(LOGIN_AUTHORITY, Operation.WRITE, *own, "audit")
    for site in topology.sites:
        yield from _allow(LOGIN_AUTHORITY, Operation.WRITE, site_topic("policy", site))
        yield from _allow(LOGIN_AUTHORITY, Operation.READ, site_topic("receipt", site))
        yield Acl(LOGIN_AUTHORITY, Resource(ResourceType.TRANSACTIONAL_ID, f"login.{site}"), Operation.WRITE)


def _allow(principal: str, operation: Operation, *topics: str) -> Iterator[Acl]:
    return (Acl(principal, Resource(ResourceType.TOPIC, topic), operation) for topic in topics)  # W1
