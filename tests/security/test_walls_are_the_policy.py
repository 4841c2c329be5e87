"""What a live broker allows is what the policy says: no right more, no right less.

Every principal of the plan asks for every operation on every topic, on consumer groups, on transactional ids and
on the cluster. Then the walls are loosened or tightened by hand, to show that the same questions would notice.
"""

import re
import time

import pytest
from kafka.admin import KafkaAdminClient

from tests.conftest import Figure
from tests.live import SECONDS, eventually
from tests.security import broker_requests
from tests.security.broker_probe import PROBES, Code, NoVerdict, Probe, answered, matrix
from tests.security.conftest import Change, Live
from tests.security.policy_matrix import (
    ANY_GROUP,
    CLUSTER,
    FOREIGN_ID,
    MISSING_TOPIC,
    Findings,
    compare,
    expected,
    questions,
)
from topology.kafka_plan import OPERATOR, Acl, Operation, Resource, ResourceType
from topology.provisioning.connection import Connection, connect
from topology.provisioning.drift import ANY_PRINCIPAL, LITERAL, PREFIXED, PRINCIPAL_TYPE, Binding, binding
from topology.provisioning.kafka import check

on_both = pytest.mark.parametrize("live", ["battlefield", "diamond"], indirect=True)
on_battlefield = pytest.mark.parametrize("live", ["battlefield"], indirect=True)

NOTHING: frozenset[Acl] = frozenset()
LEVEL_H = Resource(ResourceType.TOPIC, "level.H")
LEVEL_L = Resource(ResourceType.TOPIC, "level.L")
PROCESSOR = "processor.L"
AT_WORK = {Code.NONE, Code.TRANSACTIONAL_ID_NOT_FOUND}  # one transactional id in use, the others not
# What is planted, for each kind of resource.
ELSEWHERE = {
    ResourceType.TOPIC: LEVEL_H,
    ResourceType.GROUP: Resource(ResourceType.GROUP, ANY_GROUP),
    ResourceType.TRANSACTIONAL_ID: Resource(ResourceType.TRANSACTIONAL_ID, FOREIGN_ID),
    ResourceType.CLUSTER: CLUSTER,
}


def findings(live: Live, connections: list[Connection]) -> Findings:
    """What the broker allows to these principals, against the plan."""
    who = {connection.username for connection in connections}
    policy = {acl for acl in expected(live.plan.acls, live.names) if acl.principal in who}
    return compare(matrix(connections, live.names), policy)


def comes_to(live: Live, connections: list[Connection], wanted: Findings) -> Findings:
    """The findings, once they are as wanted or have had their time: a changed ACL reaches the controller later."""
    deadline = time.monotonic() + SECONDS
    while (found := findings(live, connections)) != wanted and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


@on_both
def test_no_principal_can_do_more_or_less_than_the_policy_says(live: Live, figure: Figure) -> None:
    answers = matrix(live.connections(), live.names)
    found = compare(answers, expected(live.plan.acls, live.names))
    figure(
        f"walls of {live.plan.topology}: {len(answers):,} live decisions, {sum(answers.values())} allowed,"
        f" extra allows {len(found.extra_allows)}, extra denies {len(found.extra_denies)}"
    )
    assert len(answers) == len(questions(live.plan.principals, live.names))
    assert found == Findings(NOTHING, NOTHING)


@on_both
def test_the_super_user_is_refused_nothing_so_no_probe_always_says_no(live: Live, admin: KafkaAdminClient) -> None:
    """Of the topic that does not exist the answer is "unknown", not "denied": the authorizer was passed."""
    answers = matrix([live.home.connection()], live.names)
    assert [question for question, allowed in answers.items() if not allowed] == []
    # Nor did any probe change anything, though all were allowed.
    assert check(admin, live.plan, live.secrets, live.home.connection()).differences == ()
    assert {name for name in admin.list_topics() if not name.startswith("__")} == set(live.plan.topics)


@on_both
def test_knowing_the_id_of_a_topic_lets_nobody_read_it(live: Live, admin: KafkaAdminClient) -> None:
    """Newer clients name topics by id; the broker must ask for the right to the name behind it."""
    ids = broker_requests.topic_ids(admin, list(live.plan.topics))
    assert set(broker_requests.fetch_by_id(admin, ids)) == {(name, Code.NONE) for name in ids}
    policy = expected(live.plan.acls, live.names)
    for connection in live.connections():
        with connect(connection) as client:
            codes = broker_requests.fetch_by_id(client, ids)
        readable = {name for name in ids if _may_read(connection.username, name) in policy}
        assert {name for name, code in codes if code == Code.NONE} == readable
        assert {name for name, code in codes if code == Code.TOPIC_AUTHORIZATION_FAILED} == set(ids) - readable


def _may_read(principal: str, topic: str) -> Acl:
    return Acl(principal, Resource(ResourceType.TOPIC, topic), Operation.READ)


@on_battlefield
def test_a_loosened_acl_is_found(live: Live, planted: Change) -> None:
    hole = Acl(PROCESSOR, LEVEL_H, Operation.READ)
    implied = Acl(PROCESSOR, LEVEL_H, Operation.DESCRIBE)
    with planted(binding(hole)):
        wanted = Findings(frozenset({hole, implied}), NOTHING)
        assert comes_to(live, live.connections(), wanted) == wanted


@on_battlefield
@pytest.mark.parametrize("probe", PROBES, ids=str)
def test_each_operation_is_told_from_all_others(live: Live, planted: Change, probe: Probe) -> None:
    """One right alone, for a principal that may write nothing, opens what it implies and not a question more."""
    hole = Acl(OPERATOR, ELSEWHERE[probe.kind], probe.operation)
    policy = expected(live.plan.acls, live.names)
    opened = frozenset(expected({*live.plan.acls, hole}, live.names) - policy)
    assert hole in opened
    with planted(binding(hole)):
        wanted = Findings(opened, NOTHING)
        assert comes_to(live, [live.connection(OPERATOR)], wanted) == wanted


@on_battlefield
def test_a_prefixed_acl_is_found_even_where_no_topic_is_yet(live: Live, planted: Change) -> None:
    hole = Binding(PRINCIPAL_TYPE + PROCESSOR, "*", Operation.DESCRIBE, True, ResourceType.TOPIC, "level.", PREFIXED)
    reached = (LEVEL_H, Resource(ResourceType.TOPIC, MISSING_TOPIC))  # of level.L it may ask anyway
    opened = frozenset(Acl(PROCESSOR, topic, Operation.DESCRIBE) for topic in reached)
    with planted(hole):
        wanted = Findings(opened, NOTHING)
        assert comes_to(live, live.connections(), wanted) == wanted


@on_battlefield
def test_a_wildcard_acl_is_found_on_every_topic(live: Live, planted: Change) -> None:
    hole = Binding(PRINCIPAL_TYPE + PROCESSOR, "*", Operation.READ, True, ResourceType.TOPIC, "*", LITERAL)
    both = (Operation.READ, Operation.DESCRIBE)
    topics = [Resource(ResourceType.TOPIC, name) for name in live.names[ResourceType.TOPIC]]
    opened = frozenset(Acl(PROCESSOR, topic, operation) for topic in topics for operation in both)
    with planted(hole):
        wanted = Findings(opened - expected(live.plan.acls, live.names), NOTHING)
        assert comes_to(live, live.connections(), wanted) == wanted


@on_battlefield
def test_an_acl_for_everyone_is_found_for_every_principal(live: Live, planted: Change) -> None:
    hole = Binding(ANY_PRINCIPAL, "*", Operation.ALTER_CONFIGS, True, ResourceType.TOPIC, LEVEL_H.name, LITERAL)
    both = (Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
    opened = frozenset(Acl(who, LEVEL_H, operation) for who in live.plan.principals for operation in both)
    with planted(hole):
        wanted = Findings(opened, NOTHING)
        assert comes_to(live, live.connections(), wanted) == wanted


@on_battlefield
def test_a_lost_acl_is_found(live: Live, removed: Change) -> None:
    lost = Acl(PROCESSOR, LEVEL_L, Operation.READ)
    implied = Acl(PROCESSOR, LEVEL_L, Operation.DESCRIBE)
    with removed(binding(lost)):
        wanted = Findings(NOTHING, frozenset({lost, implied}))
        assert comes_to(live, live.connections(), wanted) == wanted


@on_battlefield
def test_a_read_by_the_wrong_principal_stands_in_the_authorizer_log(live: Live) -> None:
    before = live.home.log.stat().st_size
    with connect(live.connection(PROCESSOR)) as client:
        assert broker_requests.fetch(client, [LEVEL_H.name]) == [(LEVEL_H.name, Code.TOPIC_AUTHORIZATION_FAILED)]
    line = rf"Principal = User:{PROCESSOR} is Denied operation = READ .* on resource = Topic:LITERAL:{LEVEL_H.name} "

    def logged() -> bool:
        return bool(re.search(line, live.home.log.read_bytes()[before:].decode(errors="replace")))

    assert eventually(logged)


@on_battlefield
def test_an_answer_that_is_neither_yes_nor_no_is_no_verdict(live: Live, admin: KafkaAdminClient) -> None:
    read = PROBES[0]
    with pytest.raises(NoVerdict, match="error code 3 is no verdict"):
        answered(read, admin, "admin", ["a-topic-that-should-be-there"])
    for code in set(range(-1, 200)) - {Code.NONE, Code.TOPIC_AUTHORIZATION_FAILED}:
        with pytest.raises(NoVerdict):
            read.allows(LEVEL_H.name, code)


@on_battlefield
def test_an_answer_that_is_not_given_is_no_verdict(live: Live, admin: KafkaAdminClient) -> None:
    silent = Probe(
        ResourceType.TOPIC, Operation.READ, lambda client, names: [], Code.NONE, frozenset({Code.NONE}), frozenset()
    )
    with pytest.raises(NoVerdict, match="missing"):
        answered(silent, admin, "admin", [LEVEL_H.name])


@on_battlefield
def test_coordinators_at_work_open_nothing(live: Live, admin: KafkaAdminClient) -> None:
    """The answers about groups and transactions come from elsewhere once a lane has begun; the verdicts stay."""
    with connect(live.connection("lane.L")) as lane:
        assert eventually(lambda: broker_requests.begin_transactions(lane, "lane.L") == Code.NONE)
    broker_requests.wake_group_coordinator(admin, ANY_GROUP)
    states = live.names[ResourceType.TRANSACTIONAL_ID]
    assert eventually(
        lambda: (
            dict(broker_requests.heartbeat_of_nobody(admin, [ANY_GROUP])) == {ANY_GROUP: Code.UNKNOWN_MEMBER_ID}
            and {code for _, code in broker_requests.describe_transactions(admin, states)} == AT_WORK
        )
    )
    assert findings(live, live.connections()) == Findings(NOTHING, NOTHING)
    assert all(matrix([live.home.connection()], live.names).values())
