"""What provisioning repairs, refuses and leaves alone, on clusters held in memory. Rules P1 to P5."""

from dataclasses import replace

from topology import KafkaPlan, Operation, ResourceType, load, plan
from topology.provisioning.drift import LITERAL, PREFIXED, Actual, ActualTopic, Binding, Drift, Record, binding, drift

PLAN = plan(load("battlefield"))
EVERYONE = frozenset(PLAN.principals)
MADE = Record("c1", "battlefield", frozenset(PLAN.topics), EVERYONE)


def as_planned(planned: KafkaPlan = PLAN) -> Actual:
    topics = {
        name: ActualTopic(t.partitions, planned.replication, dict(t.settings)) for name, t in planned.topics.items()
    }
    return Actual("c1", topics, frozenset(planned.principals), frozenset(map(binding, planned.acls)), False)


def acl(principal: str, operation: int, name: str, kind: int = ResourceType.TOPIC, pattern: int = LITERAL) -> Binding:
    return Binding(f"User:{principal}", "*", operation, True, kind, name, pattern)


def found(actual: Actual, record: Record = MADE, secrets: frozenset[str] = EVERYONE) -> Drift:
    return drift(PLAN, actual, record, secrets)


def words(result: Drift) -> list[tuple[str, str]]:
    return [(difference.what, difference.verdict.value) for difference in result.differences]


def with_bindings(*extra: Binding) -> Actual:
    return replace(as_planned(), bindings=as_planned().bindings | set(extra))


def test_a_cluster_as_planned_has_no_drift() -> None:
    assert words(found(as_planned())) == []


def test_an_empty_cluster_gets_everything() -> None:
    empty = Actual("c1", {}, frozenset(), frozenset(), False)
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
    there = Actual("c1", {"policy": ActualTopic(3, 1, {})}, frozenset({"operator"}), frozenset({his}), False)
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
        there, users=there.users | {"source.gone"}, topics={**there.topics, "in.Old.g-1": ActualTopic(1, 1, {})}
    )
    record = replace(MADE, users=MADE.users | {"source.gone"}, topics=MADE.topics | {"in.Old.g-1"})
    result = found(there, record)
    assert result.delete_users == ("source.gone",)
    assert result.delete_bindings == (old,)
    assert ("topic `in.Old.g-1` is left over; its data is kept", "left alone") in words(result)


def test_a_user_without_a_valid_password_here_gets_a_new_one() -> None:
    assert found(as_planned(), secrets=EVERYONE - {"lane.H"}).create_users == ("lane.H",)


def test_the_wrong_cluster_the_wrong_topology_and_an_open_cluster_are_refused() -> None:
    assert [d.what for d in found(replace(as_planned(), cluster_id="c2")).refused] == [
        "these secrets belong to cluster `c1`, this is `c2`"
    ]
    assert [d.what for d in found(as_planned(), replace(MADE, topology="other")).refused] == [
        "this cluster was provisioned for topology `other`, not `battlefield`"
    ]
    open_cluster = found(replace(as_planned(), open_by_default=True))
    assert "allow.everyone.if.no.acl.found" in open_cluster.refused[0].what
