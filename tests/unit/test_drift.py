"""What provisioning repairs, refuses and leaves alone, on clusters held in memory. Rules P1 to P7."""

from dataclasses import replace

from topology import KafkaPlan, Operation, ResourceType, check, load, plan
from topology.checking import EXAMPLES
from topology.provisioning.drift import (
    LITERAL,
    PREFIXED,
    Actual,
    ActualTopic,
    Binding,
    Drift,
    Logins,
    Record,
    binding,
    drift,
)
from topology.yaml_file import parse_yaml

PLAN = plan(load("battlefield"))
BATTLEFIELD = (EXAMPLES / "battlefield.yaml").read_text()
EVERYONE = frozenset(PLAN.principals)
SHA_256, SHA_512 = 1, 2
MADE = Record("c1", "battlefield", frozenset(PLAN.topics), EVERYONE, PLAN.sites)


def as_planned(planned: KafkaPlan = PLAN) -> Actual:
    topics = {
        name: ActualTopic(t.partitions, planned.replication, dict(t.settings)) for name, t in planned.topics.items()
    }
    users = dict.fromkeys(planned.principals, frozenset({SHA_512}))
    return Actual("c1", topics, users, frozenset(map(binding, planned.acls)))


def acl(principal: str, operation: int, name: str, kind: int = ResourceType.TOPIC, pattern: int = LITERAL) -> Binding:
    return Binding(f"User:{principal}", "*", operation, True, kind, name, pattern)


def found(actual: Actual, record: Record = MADE, valid: frozenset[str] = EVERYONE, planned: KafkaPlan = PLAN) -> Drift:
    return drift(planned, actual, record, Logins(valid))


def words(result: Drift) -> list[tuple[str, str]]:
    return [(difference.what, difference.verdict.value) for difference in result.differences]


def with_bindings(*extra: Binding) -> Actual:
    return replace(as_planned(), bindings=as_planned().bindings | set(extra))


def test_a_cluster_as_planned_has_no_drift() -> None:
    assert words(found(as_planned())) == []


def test_an_empty_cluster_gets_everything() -> None:
    empty = Actual("c1", {}, {}, frozenset())
    result = found(empty, Record(), frozenset())
    assert set(result.create_topics) == set(PLAN.topics)
    assert set(result.create_users) == EVERYONE
    assert len(result.create_bindings) == len(PLAN.acls)
    assert result.refused == []


def test_a_loosened_acl_is_found_and_removed() -> None:
    hole = acl("processor.L", Operation.READ, "level.H")
    result = found(with_bindings(hole))
    assert words(result) == [(f"not in the policy: {hole}", "repaired")]
    assert result.delete_bindings == (hole,)


def test_a_strangers_acl_on_our_topic_goes_and_on_his_own_topic_stays() -> None:
    hole, his = acl("eve", Operation.READ, "level.H"), acl("eve", Operation.READ, "eves-topic")
    assert found(with_bindings(hole, his)).delete_bindings == (hole,)


def test_our_principals_have_no_right_on_a_strangers_topic_or_group_or_the_cluster() -> None:
    extras = (
        acl("lane.L", Operation.READ, "other"),
        acl("lane.L", Operation.READ, "g", ResourceType.GROUP),
        acl("operator", Operation.ALTER, "kafka-cluster", ResourceType.CLUSTER),
        acl("source.patrol", Operation.WRITE, "lane.", ResourceType.TRANSACTIONAL_ID, PREFIXED),
        replace(acl("lane.H", Operation.READ, "policy"), allow=False),
    )
    assert set(found(with_bindings(*extras)).delete_bindings) == set(extras)


def test_a_foreign_wildcard_or_prefix_that_reaches_us_is_refused_not_removed() -> None:
    for hole in (
        acl("*", Operation.READ, "*"),
        acl("eve", Operation.READ, "level.", pattern=PREFIXED),
        acl("eve", 2, "*"),
        acl("*", Operation.DESCRIBE, "kafka-cluster", ResourceType.CLUSTER),
        acl("eve", Operation.WRITE, "lane", ResourceType.TRANSACTIONAL_ID, PREFIXED),
    ):
        result = found(with_bindings(hole))
        assert [d.what for d in result.refused] == [f"reaches our resources, remove it by hand: {hole}"]
        assert result.delete_bindings == ()
    harmless = acl("eve", Operation.READ, "levels-of-water", pattern=PREFIXED)
    assert words(found(with_bindings(harmless))) == []


def test_what_was_there_before_us_is_refused_unless_adopted() -> None:
    his = acl("eve", Operation.READ, "policy")
    there = Actual("c1", {"policy": ActualTopic(3, 1, {})}, {"operator": frozenset({SHA_256})}, frozenset({his}))
    refused = [d.what for d in found(there, Record(), frozenset()).refused]
    assert refused == [
        "topic `policy` exists and was not made here: see `--adopt`",
        "user `operator` exists and was not made here: see `--adopt`",
        f"reaches our resources, remove it by hand: {his}",
    ]
    adopted = found(replace(there, topics={"policy": ActualTopic(1, 1, {})}), MADE, frozenset())
    assert adopted.refused == []
    assert adopted.delete_bindings == (his,)


def test_settings_are_mended_both_ways() -> None:
    topics = dict(as_planned().topics)
    settings = {**topics["level.L"].settings, "retention.ms": "1000", "segment.bytes": "5"}
    topics["level.L"] = replace(topics["level.L"], settings=settings)
    result = found(replace(as_planned(), topics=topics))
    assert result.set_settings == {"level.L": {"retention.ms": "-1"}}
    assert result.unset_settings == {"level.L": ("segment.bytes",)}
    assert len(result.repairable) == 2


def test_partitions_and_replicas_are_never_changed() -> None:
    topics = {**as_planned().topics, "level.L": replace(as_planned().topics["level.L"], partitions=2, replication=3)}
    refused = [d.what for d in found(replace(as_planned(), topics=topics)).refused]
    assert refused == [
        "topic `level.L` has 2 partitions, planned are 1",
        "topic `level.L` has 3 replicas, planned are 1",
    ]


def test_what_left_the_topology_loses_its_rights_but_not_its_data() -> None:
    old = acl("source.gone", Operation.WRITE, "in.Old.g-1")
    there = with_bindings(old)
    there = replace(
        there,
        users={**there.users, "source.gone": frozenset({SHA_512})},
        topics={**there.topics, "in.Old.g-1": ActualTopic(1, 1, {})},
    )
    record = replace(MADE, users=MADE.users | {"source.gone"}, topics=MADE.topics | {"in.Old.g-1"})
    result = found(there, record)
    assert result.delete_users == ("source.gone",)
    assert result.delete_bindings == (old,)
    assert ("topic `in.Old.g-1` is left over; its data is kept", "left alone") in words(result)


def test_a_user_without_a_valid_password_here_gets_a_new_one() -> None:
    assert found(as_planned(), valid=EVERYONE - {"lane.H"}).create_users == ("lane.H",)


def test_the_wrong_cluster_and_the_wrong_topology_are_refused() -> None:
    assert [d.what for d in found(replace(as_planned(), cluster_id="c2")).refused] == [
        "these secrets belong to cluster `c1`, this is `c2`"
    ]
    assert [d.what for d in found(as_planned(), replace(MADE, topology="other")).refused] == [
        "this cluster was provisioned for topology `other`, not `battlefield`"
    ]


def test_a_cluster_that_allows_a_principal_what_no_acl_allows_is_refused() -> None:
    result = drift(PLAN, as_planned(), MADE, Logins(EVERYONE, frozenset({"processor.L"})))
    assert [d.what for d in result.refused] == [
        "the cluster allows `processor.L` what no ACL allows: walls do not hold"
    ]


def test_a_password_of_another_mechanism_is_a_side_door_and_is_closed() -> None:
    users = {**as_planned().users, "processor.H": frozenset({SHA_256, SHA_512}), "other": frozenset({SHA_256})}
    result = found(replace(as_planned(), users=users))
    assert result.delete_mechanisms == (("processor.H", SHA_256),)
    assert words(result) == [("user `processor.H` has a password of another mechanism (#1)", "repaired")]


def test_a_site_never_becomes_another_one_over_its_old_log() -> None:
    swapped = BATTLEFIELD.replace("L: {level: L}", "L: {level: H}").replace("H: {level: H}", "H: {level: L}")
    refused = found(as_planned(), planned=plan(check(parse_yaml(swapped, "t.yaml")))).refused
    assert [d.what for d in refused] == [
        "site `L` was `mls L` and would become `mls H` over its old log: give it another name",
        "site `H` was `mls H` and would become `mls L` over its old log: give it another name",
    ]
    turned = (
        BATTLEFIELD.replace("L: []", "L: [H]").replace("H: [L]", "H: []").replace("low: L, high: H", "low: H, high: L")
    )
    refused = found(as_planned(), planned=plan(check(parse_yaml(turned, "t.yaml")))).refused
    assert [d.what for d in refused] == [
        "the log of site `H` may hold `L`, which the site would no longer admit: give it another name"
    ]


def test_acls_that_reach_us_without_naming_our_topics_are_seen() -> None:
    token = Binding("User:mallory", "*", 13, True, 7, "User:processor.H", LITERAL)
    assert [d.what for d in found(with_bindings(token)).refused] == [
        f"reaches our resources, remove it by hand: {token}"
    ]
    mighty = acl("mallory", Operation.ALTER, "kafka-cluster", ResourceType.CLUSTER)
    assert words(found(with_bindings(mighty))) == [
        (f"stands above all walls, trust whom it names: {mighty}", "left alone")
    ]


def test_an_operation_of_a_later_kafka_is_shown_by_its_number() -> None:
    later = acl("lane.H", 15, "lane.H", ResourceType.TRANSACTIONAL_ID)
    assert found(with_bindings(later)).delete_bindings == (later,)
    assert "#15" in str(later)
