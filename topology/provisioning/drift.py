"""What differs between a plan and a cluster, and what may be done about it. Pure.

P1  Provisioning touches what it made, nothing else. What it made stands in a record that it keeps with the
    secrets. A topic or user of a wanted name that is not in the record is foreign: refused, unless adopted.
P2  Every ACL on a resource that we made, and every ACL of a principal that we made, must be in the plan;
    others go.
P3  Any other ACL that says something about our resources or principals (by a wildcard, by a prefix, or made
    before they were ours) is not ours to remove, and a wall with a hole is no wall: provisioning refuses
    until somebody removes it, or adopts it.
P4  Data is never deleted: a topic that left the plan is reported as left over.
P5  A site never becomes another one over its old log: whoever is admitted to it later would read what was
    written for others.
P6  No principal of ours may do what no ACL allows (as a super user, or where the cluster is open by default).
P7  Partition counts are fixed for life, since the key of a tuple decides its partition.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from topology.kafka_plan import Acl, KafkaPlan, Operation, ResourceType, SiteRecord

LITERAL, PREFIXED = 3, 4  # Kafka's numbers for the pattern types that a stored ACL can have
ALL_OPERATIONS = 2  # Kafka's number for "every operation"
_ABOVE_ALL_WALLS = {ALL_OPERATIONS, Operation.ALTER, Operation.CLUSTER_ACTION, Operation.ALTER_CONFIGS}  # on it all
USER_RESOURCE = 7  # Kafka's number for ACLs on users: who may make delegation tokens in a user's name
SCRAM_SHA_512 = 2  # Kafka's number for the one mechanism we use
ANY_PRINCIPAL = "User:*"
PRINCIPAL_TYPE = "User:"


@dataclass(frozen=True, order=True, slots=True)
class Binding:
    """An ACL as a cluster holds it, whoever made it; the numbers are Kafka's own."""

    principal: str  # with its type: `User:lane.H`
    host: str
    operation: int
    allow: bool
    resource_type: int
    resource_name: str
    pattern_type: int

    def __str__(self) -> str:
        verb = "ALLOW" if self.allow else "DENY"
        pattern = {LITERAL: "", PREFIXED: " (prefix)"}.get(self.pattern_type, " (pattern)")
        operation = "ALL" if self.operation == ALL_OPERATIONS else _label(Operation, self.operation)
        kind = _label(ResourceType, self.resource_type).lower().replace("_", " ")
        return f"{verb} {self.principal} {operation} on {kind} `{self.resource_name}`{pattern} from {self.host}"


@dataclass(frozen=True)
class ActualTopic:
    """A topic as a cluster has it; `settings` are those set on the topic itself."""

    partitions: int
    replication: int
    settings: Mapping[str, str]


@dataclass(frozen=True)
class Actual:
    """What a cluster holds, as far as provisioning looks."""

    cluster_id: str
    topics: Mapping[str, ActualTopic]
    users: Mapping[str, frozenset[int]]  # with the mechanisms that they have a password for
    bindings: frozenset[Binding]


@dataclass(frozen=True)
class Logins:
    """What came of trying the passwords that are at hand."""

    valid: frozenset[str] = frozenset()
    overpowered: frozenset[str] = frozenset()  # may do what no ACL allows


@dataclass(frozen=True)
class Record:
    """What provisioning made on one cluster; kept with the secrets."""

    cluster_id: str = ""
    topology: str = ""
    topics: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    sites: Mapping[str, SiteRecord] = field(default_factory=dict)  # every site that ever was


class Verdict(Enum):
    """What provisioning does about a difference."""

    REPAIR = "repaired"
    REFUSE = "refused"
    REPORT = "left alone"


@dataclass(frozen=True, order=True)
class Difference:
    """One thing that is not as planned."""

    what: str
    verdict: Verdict = field(compare=False)


@dataclass(frozen=True)
class Drift:
    """All differences, and the steps that repair what can be."""

    differences: tuple[Difference, ...]
    create_topics: tuple[str, ...]
    set_settings: Mapping[str, Mapping[str, str]]  # topic -> setting -> value
    unset_settings: Mapping[str, tuple[str, ...]]
    create_users: tuple[str, ...]
    delete_users: tuple[str, ...]
    delete_mechanisms: tuple[tuple[str, int], ...]  # passwords that let our users in by another way
    create_bindings: tuple[Binding, ...]
    delete_bindings: tuple[Binding, ...]

    @property
    def refused(self) -> list[Difference]:
        """What provisioning must not or cannot change."""
        return [difference for difference in self.differences if difference.verdict is Verdict.REFUSE]

    @property
    def repairable(self) -> list[Difference]:
        """What provisioning changes."""
        return [difference for difference in self.differences if difference.verdict is Verdict.REPAIR]


def binding(acl: Acl) -> Binding:
    """A planned ACL as Kafka stores it."""
    return Binding(
        PRINCIPAL_TYPE + acl.principal, "*", acl.operation, True, acl.resource.type, acl.resource.name, LITERAL
    )


def drift(plan: KafkaPlan, actual: Actual, record: Record, logins: Logins) -> Drift:
    """Compare."""
    found = list(_cluster_faults(plan, actual, record))
    found += _site_faults(plan, record)
    for name in sorted(logins.overpowered):  # P6
        found.append(Difference(f"the cluster allows `{name}` what no ACL allows: walls do not hold", Verdict.REFUSE))
    found += _foreign(plan, actual, record)
    missing_topics = tuple(sorted(set(plan.topics) - set(actual.topics)))
    found += [Difference(f"topic `{name}` is missing", Verdict.REPAIR) for name in missing_topics]
    to_set, to_unset = _settings(plan, actual, record, found)
    new_users = tuple(
        name for name in plan.principals if SCRAM_SHA_512 not in actual.users.get(name, ()) or name not in logins.valid
    )
    for name in new_users:
        what = "has no valid password here: it gets a new one" if name in actual.users else "is missing"
        found.append(Difference(f"user `{name}` {what}", Verdict.REPAIR))
    old_users = tuple(sorted((record.users & set(actual.users)) - set(plan.principals)))
    found += [Difference(f"user `{name}` left the topology", Verdict.REPAIR) for name in old_users]
    ours = record.users & set(actual.users)
    side_doors = tuple(sorted((name, m) for name in ours for m in actual.users[name] - {SCRAM_SHA_512}))
    for name, mechanism in side_doors:
        found.append(Difference(f"user `{name}` has a password of another mechanism (#{mechanism})", Verdict.REPAIR))
    for name in sorted(record.topics & set(actual.topics) - set(plan.topics)):
        found.append(Difference(f"topic `{name}` is left over; its data is kept", Verdict.REPORT))  # P4
    wanted = {binding(acl) for acl in plan.acls}
    missing = tuple(sorted(wanted - actual.bindings))
    extra = tuple(sorted(b for b in actual.bindings - wanted if _is_ours(b, plan, record)))
    found += [Difference(f"missing: {b}", Verdict.REPAIR) for b in missing]
    found += [Difference(f"not in the policy: {b}", Verdict.REPAIR) for b in extra]  # P2
    for b in sorted(actual.bindings - wanted - set(extra)):
        if _reaches(b, plan):
            found.append(Difference(f"reaches our resources, remove it by hand: {b}", Verdict.REFUSE))  # P3
        elif b.resource_type == ResourceType.CLUSTER and b.allow and b.operation in _ABOVE_ALL_WALLS:
            found.append(Difference(f"stands above all walls, trust whom it names: {b}", Verdict.REPORT))
    return Drift(tuple(found), missing_topics, to_set, to_unset, new_users, old_users, side_doors, missing, extra)


def _cluster_faults(plan: KafkaPlan, actual: Actual, record: Record) -> Iterator[Difference]:
    if record.topology and record.topology != plan.topology:
        yield Difference(
            f"this cluster was provisioned for topology `{record.topology}`, not `{plan.topology}`", Verdict.REFUSE
        )
    if record.cluster_id and record.cluster_id != actual.cluster_id:
        yield Difference(
            f"these secrets belong to cluster `{record.cluster_id}`, this is `{actual.cluster_id}`", Verdict.REFUSE
        )


def _site_faults(plan: KafkaPlan, record: Record) -> Iterator[Difference]:
    for name, site in plan.sites.items():  # P5
        before = record.sites.get(name, site)
        if before.subject != site.subject:
            what = f"site `{name}` was `{before.subject}` and would become `{site.subject}` over its old log"
            yield Difference(f"{what}: give it another name", Verdict.REFUSE)
        elif lost := sorted(before.holds - site.holds):
            what = f"the log of site `{name}` may hold `{lost[0]}`, which the site would no longer admit"
            yield Difference(f"{what}: give it another name", Verdict.REFUSE)


def _foreign(plan: KafkaPlan, actual: Actual, record: Record) -> Iterator[Difference]:
    for name in sorted((set(plan.topics) & set(actual.topics)) - record.topics):  # P1
        yield Difference(f"topic `{name}` exists and was not made here: see `--adopt`", Verdict.REFUSE)
    for name in sorted((set(plan.principals) & set(actual.users)) - record.users):  # P1
        yield Difference(f"user `{name}` exists and was not made here: see `--adopt`", Verdict.REFUSE)


def _settings(
    plan: KafkaPlan, actual: Actual, record: Record, found: list[Difference]
) -> tuple[dict[str, dict[str, str]], dict[str, tuple[str, ...]]]:
    to_set: dict[str, dict[str, str]] = {}
    to_unset: dict[str, tuple[str, ...]] = {}
    for name, topic in plan.topics.items():
        if name not in actual.topics or name not in record.topics:
            continue
        there = actual.topics[name]
        for kind, is_, should in (
            ("partitions", there.partitions, topic.partitions),  # P7
            ("replicas", there.replication, plan.replication),
        ):
            if is_ != should:
                found.append(Difference(f"topic `{name}` has {is_} {kind}, planned are {should}", Verdict.REFUSE))
        wrong = {key: value for key, value in topic.settings.items() if there.settings.get(key) != value}
        extra = tuple(sorted(set(there.settings) - set(topic.settings)))
        for key, value in wrong.items():
            is_now = there.settings.get(key, "not set")
            found.append(Difference(f"topic `{name}`: {key} is {is_now}, planned is {value}", Verdict.REPAIR))
        for key in extra:
            message = f"topic `{name}`: {key} is {there.settings[key]}, planned is the default"
            found.append(Difference(message, Verdict.REPAIR))
        if wrong:
            to_set[name] = wrong
        if extra:
            to_unset[name] = extra
    return to_set, to_unset


def _is_ours(b: Binding, plan: KafkaPlan, record: Record) -> bool:
    """P2: of a principal that we made, or on a resource that we made by its literal name."""
    if _user(b) in record.users:
        return True
    if b.pattern_type != LITERAL:
        return False
    if b.resource_type == ResourceType.TRANSACTIONAL_ID:
        return bool(record.cluster_id) and b.resource_name in plan.transactional_ids
    return b.resource_type == ResourceType.TOPIC and b.resource_name in record.topics


def _reaches(b: Binding, plan: KafkaPlan) -> bool:
    """P3: whether an ACL that is not ours says anything about a resource or principal of ours."""
    if _user(b) in plan.principals:
        return True
    if b.resource_type == USER_RESOURCE:
        return b.resource_name in ("*", *(PRINCIPAL_TYPE + name for name in plan.principals))
    names: Iterable[str] = ()
    match b.resource_type:
        case ResourceType.TOPIC:
            names = plan.topics
        case ResourceType.TRANSACTIONAL_ID:
            names = plan.transactional_ids
        case _:  # groups, the cluster: ours have no right there, so only "everyone" can reach them
            return b.principal == ANY_PRINCIPAL
    if b.pattern_type == PREFIXED:
        return any(name.startswith(b.resource_name) for name in names)
    return b.resource_name == "*" or b.resource_name in names


def _user(b: Binding) -> str | None:
    return b.principal.removeprefix(PRINCIPAL_TYPE) if b.principal.startswith(PRINCIPAL_TYPE) else None


def _label(kind: type[Operation] | type[ResourceType], number: int) -> str:
    return kind(number).name if number in set(kind) else f"#{number}"
