"""Provisioning a live broker: repeatable, shows and repairs drift, touches nothing that it did not make."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from tests.live import enter, eventually
from topology import LoginRefused, Operation, ProvisionError, ResourceType, check, load, plan
from topology.checking import EXAMPLES
from topology.embedded import broker as embedded
from topology.embedded.broker import Broker, running
from topology.embedded.home import Home
from topology.embedded.server_properties import server_properties
from topology.kafka_plan import input_topic
from topology.provisioning import kafka
from topology.provisioning.acls import plant, stored_bindings, uproot
from topology.provisioning.connection import Connection, connect
from topology.provisioning.drift import LITERAL, PREFIXED, Binding, Drift
from topology.provisioning.secrets import Secrets
from topology.yaml_file import parse_yaml

PLAN = plan(load("battlefield"))


@pytest.fixture
def admin(broker: Broker) -> Iterator[KafkaAdminClient]:
    with connect(broker.home.connection()) as client:
        yield client


@pytest.fixture
def secrets(broker: Broker, admin: KafkaAdminClient) -> Secrets:
    """The secrets of the battlefield, provisioned."""
    kept = Secrets(broker.home.secrets / "principals")
    kafka.provision(admin, PLAN, kept, broker.home.connection(), print)
    return kept


def door_of(secrets: Secrets) -> Connection:
    """The administrator's door of the broker that these secrets lie with."""
    return Home(secrets.directory.parents[1]).connection()


def drift_now(admin: KafkaAdminClient, secrets: Secrets) -> list[str]:
    return [difference.what for difference in kafka.check(admin, PLAN, secrets, door_of(secrets)).differences]


def repair(admin: KafkaAdminClient, secrets: Secrets) -> Drift:
    return kafka.provision(admin, PLAN, secrets, door_of(secrets), print)


def hole(principal: str, topic: str, pattern: int = LITERAL) -> Binding:
    return Binding(f"User:{principal}", "*", Operation.READ, True, ResourceType.TOPIC, topic, pattern)


def test_a_second_run_finds_nothing_to_do(admin: KafkaAdminClient, secrets: Secrets) -> None:
    assert repair(admin, secrets).differences == ()
    assert drift_now(admin, secrets) == []


def test_every_principal_can_log_in_and_its_password_is_private(broker: Broker, secrets: Secrets) -> None:
    for name in PLAN.principals:
        door = replace(broker.home.connection(), username=name, password=secrets.password(name))
        with connect(door):
            pass
        assert secrets.password_file(name).stat().st_mode & 0o777 == 0o600
    assert len({secrets.password(name) for name in PLAN.principals}) == len(PLAN.principals)


def test_drift_of_every_kind_is_shown_and_repaired(admin: KafkaAdminClient, secrets: Secrets) -> None:
    planted = hole("processor.L", "level.H")
    plant(admin, [planted])
    assert eventually(lambda: drift_now(admin, secrets) == [f"not in the policy: {planted}"])
    changes = {"retention.ms": ("SET", "1000"), "segment.bytes": ("SET", "10485760")}
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, "level.L", changes)])
    admin.delete_topics(["answer.L"])
    admin.alter_user_scram_credentials([UserScramCredentialDeletion("gateway.L", ScramMechanism.SCRAM_SHA_512)])
    assert eventually(lambda: len(drift_now(admin, secrets)) == 5)
    shown = drift_now(admin, secrets)
    assert f"not in the policy: {planted}" in shown
    assert "topic `level.L`: retention.ms is 1000, planned is -1" in shown
    assert "topic `level.L`: segment.bytes is 10485760, planned is the default" in shown
    assert "topic `answer.L` is missing" in shown
    assert "user `gateway.L` is missing" in shown
    repair(admin, secrets)
    assert drift_now(admin, secrets) == []


def test_a_password_changed_behind_our_back_is_found_and_set_anew(
    broker: Broker, admin: KafkaAdminClient, secrets: Secrets
) -> None:
    door = broker.home.connection()
    admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("lane.H", ScramMechanism.SCRAM_SHA_512, "another one")]
    )
    shown = [difference.what for difference in kafka.check(admin, PLAN, secrets, door).differences]
    assert shown == ["user `lane.H` has no valid password here: it gets a new one"]
    kafka.provision(admin, PLAN, secrets, door, print)
    with connect(replace(door, username="lane.H", password=secrets.password("lane.H"))):
        pass


def test_what_others_made_is_not_touched(admin: KafkaAdminClient, secrets: Secrets) -> None:
    admin.create_topics({"others-topic": {"num_partitions": 3, "configs": {"retention.ms": "5000"}}})
    admin.alter_user_scram_credentials([UserScramCredentialUpsertion("other", ScramMechanism.SCRAM_SHA_512, "pass")])
    theirs = hole("other", "others-", PREFIXED)
    plant(admin, [theirs])
    assert eventually(lambda: theirs in stored_bindings(admin))
    assert repair(admin, secrets).differences == ()
    assert "others-topic" in admin.list_topics()
    assert "other" in admin.describe_user_scram_credentials()
    assert theirs in stored_bindings(admin)


def test_a_wildcard_of_others_that_reaches_us_stops_provisioning(admin: KafkaAdminClient, secrets: Secrets) -> None:
    theirs = hole("other", "level.", PREFIXED)
    plant(admin, [theirs])
    assert eventually(lambda: theirs in stored_bindings(admin))
    with pytest.raises(ProvisionError, match="nothing was changed: reaches our resources, remove it by hand: ALLOW"):
        repair(admin, secrets)
    uproot(admin, [theirs])
    assert eventually(lambda: theirs not in stored_bindings(admin))
    assert repair(admin, secrets).differences == ()


def test_topics_and_users_of_others_with_our_names_are_refused_until_adopted(
    admin: KafkaAdminClient, secrets: Secrets, tmp_path: Path
) -> None:
    elsewhere = Secrets(tmp_path / "new")
    with pytest.raises(ProvisionError, match="exists and was not made here: see `--adopt`"):
        kafka.provision(admin, PLAN, elsewhere, door_of(secrets), print)
    assert not elsewhere.directory.exists(), "nothing was changed"
    kafka.provision(admin, PLAN, elsewhere, door_of(secrets), print, adopt=True)
    assert kafka.check(admin, PLAN, elsewhere, door_of(secrets)).differences == ()
    # The first directory's passwords are void now; adopting back makes them anew.
    for name in PLAN.principals:
        secrets.password_file(name).unlink()
    repair(admin, secrets)


@pytest.mark.parametrize("adopt", [False, True])
def test_the_wrong_topology_is_refused_even_if_adopting(admin: KafkaAdminClient, secrets: Secrets, adopt: bool) -> None:
    with pytest.raises(ProvisionError, match="was provisioned for topology `battlefield`, not `diamond`"):
        kafka.provision(admin, plan(load("diamond")), secrets, door_of(secrets), print, adopt=adopt)


def test_a_source_that_leaves_the_topology_cannot_log_in_any_more(
    broker: Broker, admin: KafkaAdminClient, secrets: Secrets
) -> None:
    text = (EXAMPLES / "battlefield.yaml").read_text()
    without = text[: text.index("  recon:")] + text[text.index("  field-hospital:") :]
    door = replace(broker.home.connection(), username="source.recon", password=secrets.password("source.recon"))
    with connect(door):
        pass
    found = kafka.provision(admin, plan(check(parse_yaml(without, "t.yaml"))), secrets, door_of(secrets), print)
    assert found.delete_users == ("source.recon",)
    with pytest.raises(LoginRefused):
        enter(door)
    assert not secrets.password_file("source.recon").exists()
    (left,) = [input_topic(group) for group in load("battlefield").groups if "recon" in group.sources][-1:]
    assert left in admin.list_topics(), "data is never deleted"
    repair(admin, secrets)


def test_a_crash_between_the_record_and_the_work_is_mended_by_the_next_run(
    admin: KafkaAdminClient, secrets: Secrets, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.delete_topics(["result.L", "result.H"])
    admin.alter_user_scram_credentials([UserScramCredentialDeletion("operator", ScramMechanism.SCRAM_SHA_512)])

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(kafka, "_create_users", crash)
        with pytest.raises(KeyboardInterrupt):
            repair(admin, secrets)
    left = ["topic `result.H` is missing", "topic `result.L` is missing", "user `operator` is missing"]
    assert eventually(lambda: drift_now(admin, secrets) == left)
    repair(admin, secrets)
    assert drift_now(admin, secrets) == []


def test_a_damaged_record_is_refused(admin: KafkaAdminClient, secrets: Secrets) -> None:
    path = secrets.directory / "provisioned.json"
    whole = path.read_text()
    path.write_text(whole[:20])
    with pytest.raises(ProvisionError, match=r"`.*provisioned.json` is damaged"):
        repair(admin, secrets)
    path.write_text(whole)
    assert json.loads(whole)["topology"] == "battlefield"


def test_who_may_not_provision_is_told_so(broker: Broker, secrets: Secrets) -> None:
    door = replace(broker.home.connection(), username="operator", password=secrets.password("operator"))
    with connect(door) as client, pytest.raises(ProvisionError, match="this user may not provision"):
        kafka.check(client, PLAN, secrets, door)


def test_an_acl_of_a_later_kafka_stops_nobody(admin: KafkaAdminClient, secrets: Secrets) -> None:
    """Kafka 4 knows TWO_PHASE_COMMIT (15), the Python client does not."""
    later = Binding("User:lane.H", "*", 15, True, ResourceType.TRANSACTIONAL_ID, "lane.H", LITERAL)
    plant(admin, [later])
    assert eventually(lambda: drift_now(admin, secrets) == [f"not in the policy: {later}"])
    repair(admin, secrets)
    assert later not in stored_bindings(admin)


def test_a_side_door_by_another_mechanism_is_closed(admin: KafkaAdminClient, secrets: Secrets) -> None:
    admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("processor.H", ScramMechanism.SCRAM_SHA_256, "a side door")]
    )
    assert eventually(
        lambda: drift_now(admin, secrets) == ["user `processor.H` has a password of another mechanism (#1)"]
    )
    repair(admin, secrets)
    assert drift_now(admin, secrets) == []


@pytest.mark.parametrize(
    "setting", ["allow.everyone.if.no.acl.found=true\n", "super.users=User:admin;User:controller;User:processor.L\n"]
)
def test_a_cluster_whose_walls_do_not_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str
) -> None:
    name = setting.split("=")[0]
    properties = server_properties

    def loosened(home: Home, data: Path) -> str:
        kept = [line for line in properties(home, data).splitlines(True) if not line.startswith(name)]
        return "".join(kept) + setting

    monkeypatch.setattr(embedded, "server_properties", loosened)
    with running(tmp_path / "open") as broker, connect(broker.home.connection()) as client:
        kept = Secrets(broker.home.secrets / "principals")
        with pytest.raises(ProvisionError, match=r"only users were made: the cluster allows `.*` what no ACL allows"):
            kafka.provision(client, PLAN, kept, broker.home.connection(), print)
        assert set(PLAN.topics) & set(client.list_topics()) == set()
        found = kafka.check(client, PLAN, kept, broker.home.connection())
        assert any("what no ACL allows: walls do not hold" in difference.what for difference in found.refused)
