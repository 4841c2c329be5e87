"""The derived topics, principals and ACLs keep the rules W1 to W8 in every example, and in random ones."""

import re
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topology import Acl, KafkaPlan, Operation, ResourceType, Topology, check, closure, examples, load, plan
from topology.kafka_plan import LOGIN_AUTHORITY, OPERATOR, QUARANTINE_LANE, input_topic
from topology.yaml_file import parse_yaml

LEVELS = {"U": "", "A": "U", "B": "U", "T": "A, B"}


def topic_rights(derived: KafkaPlan, principal: str) -> set[tuple[str, str]]:
    return {(a.operation.name, a.resource.name) for a in derived.acls if a.principal == principal and _is_topic(a)}


def _is_topic(acl: Acl) -> bool:
    return acl.resource.type is ResourceType.TOPIC


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Random sources over a diamond of four levels."""
    ranges = [("U", "U"), ("U", "A"), ("A", "A"), ("B", "T"), ("U", "T"), ("T", "T")]
    lines = ["version: 1", "name: random", "mode: mls", "lattice:", "  levels:"]
    lines += [f"    {level}: [{below}]" for level, below in LEVELS.items()]
    lines += ["sites:", *(f"  s{level}: {{level: {level}}}" for level in LEVELS), "streams:"]
    streams = draw(st.lists(st.sampled_from(["X", "Y", "Z"]), min_size=1, unique=True))
    lines += [f"  {stream}: {{fields: {{a: integer}}}}" for stream in streams]
    lines += ["sources:"]
    for number in range(draw(st.integers(1, 6))):
        low, high = draw(st.sampled_from(ranges))
        chosen = draw(st.lists(st.sampled_from(streams), min_size=1, unique=True))
        lines.append(f"  p{number}: {{streams: [{', '.join(chosen)}], range: {{low: {low}, high: {high}}}}}")
    return check(parse_yaml("\n".join(lines), "random.yaml"))


@pytest.mark.parametrize("name", examples())
def test_the_rules_hold_in_an_example(name: str) -> None:
    assert_rules(load(name))


@given(topologies())
@settings(max_examples=60, deadline=None)
def test_the_rules_hold_in_random_topologies(topology: Topology) -> None:
    assert_rules(topology)


def assert_rules(topology: Topology) -> None:
    derived = plan(topology)
    # Every ACL names a topic or id that exists, and every topic is written and read by somebody (or by operators).
    names = {acl.resource.name for acl in derived.acls if _is_topic(acl)}
    assert names == set(derived.topics)
    # W1 and W6: nothing but READ and WRITE, on topics and transactional ids alone.
    assert {acl.operation for acl in derived.acls} == {Operation.READ, Operation.WRITE}
    assert {acl.resource.type for acl in derived.acls} == {ResourceType.TOPIC, ResourceType.TRANSACTIONAL_ID}
    for site in topology.sites.values():
        # W2: a lane reads the input topics of whose labels its site admits some.
        admitted = {
            ("READ", input_topic(group))
            for group in topology.groups
            if topology.mode.admits(site.subject, group.possible.low)
        }
        lane = topic_rights(derived, f"lane.{site.name}")
        assert {right for right in lane if right[1].startswith("in.")} == admitted
        own = {f"{kind}.{site.name}" for kind in ("level", "lane")}
        assert {name for _, name in lane} <= own | {"policy", "audit"} | {name for _, name in admitted}
        # W3, W4: the untrusted processes of a site touch its own topics alone.
        for kind in ("processor", "gateway"):
            touched = {name for _, name in topic_rights(derived, f"{kind}.{site.name}")}
            assert touched
            assert all(re.fullmatch(rf"\w+\.{re.escape(site.name)}", topic) for topic in touched)
        # The level log has one writer and one reader.
        users = {(a.principal, a.operation) for a in derived.acls if a.resource.name == f"level.{site.name}"}
        assert users == {(f"lane.{site.name}", Operation.WRITE), (f"processor.{site.name}", Operation.READ)}
    # W5: a source writes its groups' topics and does nothing else.
    for source in topology.sources:
        wanted = {("WRITE", input_topic(group)) for group in topology.groups if source in group.sources}
        assert topic_rights(derived, f"source.{source}") == wanted
    # Sources that share a topic share their range: nobody learns another range's volume from offsets.
    for group in topology.groups:
        ranges = [topology.sources[source].range for source in group.sources]
        assert all(one == other for one, other in combinations(ranges, 2))
    # W7 and W8: settings.
    for name_, topic in derived.topics.items():
        kind = name_.split(".")[0]
        if kind == "in" or name_ == "policy":
            assert topic.settings["message.timestamp.type"] == "LogAppendTime"
            assert topic.settings["compression.type"] == "uncompressed"
        if kind in ("level", "lane", "policy", "control"):
            assert topic.settings["retention.bytes"] == "-1"
            assert topic.settings.get("retention.ms", "-1") == "-1"
        assert len(name_) <= 249
        assert re.fullmatch(r"[A-Za-z0-9._-]+", name_)
    # Kafka refuses two topics whose names differ only in `.` and `_`.
    assert len({name.replace(".", "_").lower() for name in derived.topics}) == len(derived.topics)
    assert len(derived.transactional_ids) == 2 * len(topology.sites) + 1


def test_no_process_of_low_can_touch_a_topic_that_carries_high() -> None:
    derived = plan(load("battlefield"))
    high_topics = {t for t in derived.topics if t.endswith(".H") or (t.startswith("in.") and ".H-" in t)}
    for acl in closure(derived.acls):
        if acl.principal in ("lane.L", "processor.L", "gateway.L", "source.patrol"):
            assert acl.resource.name not in high_topics


def test_what_only_the_trusted_few_may_do() -> None:
    derived = plan(load("diamond"))
    sites = ["common", "army", "navy", "joint"]
    assert topic_rights(derived, OPERATOR) == {
        ("READ", t) for t in ("quarantine", "audit", *(f"audit.{s}" for s in sites))
    }
    login = topic_rights(derived, LOGIN_AUTHORITY)
    assert {name for verb, name in login if verb == "READ"} == {
        "policy",
        "policy.users",
        *(f"receipt.{s}" for s in sites),
    }
    assert {a.principal for a in derived.acls if a.resource.name == "policy.users"} == {LOGIN_AUTHORITY}
    assert {a.principal for a in derived.acls if a.resource.name == "quarantine"} == {QUARANTINE_LANE, OPERATOR}


def test_closure_adds_what_the_broker_implies_and_nothing_else() -> None:
    derived = plan(load("battlefield"))
    extra = closure(derived.acls) - derived.acls
    assert {acl.operation for acl in extra} == {Operation.DESCRIBE}
    assert {(a.principal, a.resource) for a in extra} == {(a.principal, a.resource) for a in derived.acls}
