"""Reading what a cluster holds, and carrying out the steps of a drift. Decides nothing."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kafka import errors as kafka_errors
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    ResourcePattern,
    ResourcePatternFilter,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka.admin import ResourceType as KafkaResourceType

from topology.embedded.private_files import kept_secret, private_directory, write_private
from topology.errors import ClusterError, LoginRefused, ProvisionError
from topology.kafka_plan import KafkaPlan
from topology.provisioning.connection import Connection, connect
from topology.provisioning.drift import Actual, ActualTopic, Binding, Drift, Record, drift

SETTLE_SECONDS = 20  # for what was changed to show everywhere; a second is usual
_ON_THE_TOPIC = "DYNAMIC_TOPIC_CONFIG"

Say = Callable[[str], None]


@dataclass(frozen=True)
class Secrets:
    """The passwords that provisioning gave out, and the record of what it made."""

    directory: Path

    def password_file(self, principal: str) -> Path:
        """Where a principal's password is."""
        return self.directory / f"{principal}.password"

    def password(self, principal: str) -> str:
        """A principal's password."""
        return self.password_file(principal).read_text().strip()

    def at_hand(self, principals: Iterable[str]) -> frozenset[str]:
        """The principals whose password is here."""
        return frozenset(name for name in principals if self.password_file(name).exists())

    def record(self) -> Record:
        """What was made so far."""
        path = self.directory / "provisioned.json"
        if not path.exists():
            return Record()
        try:
            data = json.loads(path.read_text())
            return Record(data["cluster_id"], data["topology"], frozenset(data["topics"]), frozenset(data["users"]))
        except (ValueError, KeyError, TypeError):
            raise ProvisionError(f"`{path}` is damaged: restore it, or remove it and use `--adopt`") from None

    def write_record(self, record: Record) -> None:
        """Keep what was made."""
        data = {
            "cluster_id": record.cluster_id,
            "topology": record.topology,
            "topics": sorted(record.topics),
            "users": sorted(record.users),
        }
        write_private(self.directory / "provisioned.json", json.dumps(data, indent=1) + "\n")


def check(admin: KafkaAdminClient, plan: KafkaPlan, secrets: Secrets, door: Connection | None = None) -> Drift:
    """What differs between the plan and the cluster; changes nothing. With a `door`, passwords are tried there."""
    with _explained():
        return drift(plan, _actual(admin, plan), secrets.record(), _valid(plan, secrets, door))


def provision(
    admin: KafkaAdminClient, plan: KafkaPlan, secrets: Secrets, adopt: bool, say: Say, door: Connection | None = None
) -> Drift:
    """Bring the cluster in line with the plan; return what had to be repaired. Safe to repeat at any time."""
    private_directory(secrets.directory)
    with _explained():
        actual = _actual(admin, plan)
        record = secrets.record()
        planned = Record(actual.cluster_id, plan.topology, frozenset(plan.topics), frozenset(plan.principals))
        if adopt:
            record = replace(planned, topics=planned.topics | record.topics, users=planned.users | record.users)
        found = drift(plan, actual, record, _valid(plan, secrets, door))
        if found.refused:
            more = f" (and {len(found.refused) - 1} more, see `--check`)" if len(found.refused) > 1 else ""
            raise ProvisionError(f"nothing was changed: {found.refused[0].what}{more}")
        # The record comes first: after a crash half-way, what was made is known to be ours.
        made = replace(planned, topics=planned.topics | record.topics, users=planned.users | record.users)
        secrets.write_record(made)
        _carry_out(admin, plan, found, secrets, say)
        _wait_until_settled(admin, plan, secrets)
        secrets.write_record(replace(made, users=made.users - set(found.delete_users)))
    return found


def _valid(plan: KafkaPlan, secrets: Secrets, door: Connection | None) -> frozenset[str]:
    """The principals whose password is here and, if there is a door to try it at, opens it."""
    return frozenset(
        name
        for name in secrets.at_hand(plan.principals)
        if door is None or _opens(replace(door, username=name, password=secrets.password(name)))
    )


def _opens(connection: Connection) -> bool:
    try:
        with connect(connection):
            return True
    except LoginRefused:
        return False


def _wait_until_settled(admin: KafkaAdminClient, plan: KafkaPlan, secrets: Secrets) -> None:
    deadline = time.monotonic() + SETTLE_SECONDS
    while left := check(admin, plan, secrets).repairable:
        if time.monotonic() > deadline:
            raise ProvisionError(f"the cluster does not keep what was set: {left[0].what}")
        time.sleep(0.2)


def _actual(admin: KafkaAdminClient, plan: KafkaPlan) -> Actual:
    # ACLs first: who may not ask for them is told so, while Kafka 4.3.1 never answers a denied look at users.
    acls = stored_bindings(admin)
    cluster = admin.describe_cluster()
    names = admin.list_topics()
    settings: dict[str, dict[str, Any]] = {}
    ours = [name for name in names if name in plan.topics]
    if ours:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in ours]
        settings = admin.describe_configs(resources)["topic"]
    # Topics that are not of the plan count by name only (some may be left over from an earlier plan).
    topics = {name: ActualTopic(0, 0, {}) for name in names}
    for topic in admin.describe_topics(ours) if ours else []:
        own = {k: v["value"] for k, v in settings[topic["name"]].items() if v["config_source"] == _ON_THE_TOPIC}
        partitions = topic["partitions"]
        topics[topic["name"]] = ActualTopic(len(partitions), len(partitions[0]["replica_nodes"]), own)
    return Actual(
        cluster_id=cluster["cluster_id"],
        topics=topics,
        users=_users(admin),
        bindings=acls,
        open_by_default=_open_by_default(admin, cluster["brokers"]),
    )


def _users(admin: KafkaAdminClient) -> frozenset[str]:
    infos = admin.describe_user_scram_credentials()
    sha512 = ScramMechanism.SCRAM_SHA_512
    return frozenset(
        name for name, info in infos.items() if any(c["mechanism"] == sha512 for c in info["credential_infos"])
    )


def stored_bindings(admin: KafkaAdminClient) -> frozenset[Binding]:
    """Every ACL that the cluster holds."""
    everything = ACLFilter(
        principal=None, host=None, operation=ACLOperation.ANY, permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(KafkaResourceType.ANY, None, ACLResourcePatternType.ANY),
    )  # fmt: skip
    acls, _ = admin.describe_acls(everything)
    return frozenset(
        Binding(
            acl.principal, acl.host, int(acl.operation), acl.permission_type == ACLPermissionType.ALLOW,
            int(acl.resource_pattern.resource_type), acl.resource_pattern.resource_name,
            int(acl.resource_pattern.pattern_type),
        )
        for acl in acls
    )  # fmt: skip


def _open_by_default(admin: KafkaAdminClient, brokers: list[dict[str, Any]]) -> bool:
    key = "allow.everyone.if.no.acl.found"
    resources = [ConfigResource(ConfigResourceType.BROKER, str(broker["broker_id"])) for broker in brokers]
    found = admin.describe_configs(resources, config_filter="all")["broker"]
    return any(config.get(key, {}).get("value") == "true" for config in found.values())


def _carry_out(admin: KafkaAdminClient, plan: KafkaPlan, found: Drift, secrets: Secrets, say: Say) -> None:
    # Walls first: what should not be allowed goes before anything new comes.
    if found.delete_bindings:
        uproot(admin, *found.delete_bindings)
        say(f"removed {len(found.delete_bindings)} ACLs")
    if found.delete_users:
        _alter_users(admin, [UserScramCredentialDeletion(n, ScramMechanism.SCRAM_SHA_512) for n in found.delete_users])
        for name in found.delete_users:
            secrets.password_file(name).unlink(missing_ok=True)
        say(f"removed {len(found.delete_users)} users")
    if found.create_topics:
        admin.create_topics(
            {
                name: {
                    "num_partitions": plan.topics[name].partitions,
                    "replication_factor": plan.replication,
                    "configs": dict(plan.topics[name].settings),
                }
                for name in found.create_topics
            }
        )
        say(f"created {len(found.create_topics)} topics")
    _alter_settings(admin, found, say)
    if found.create_users:
        _create_users(admin, found.create_users, secrets)
        say(f"created {len(found.create_users)} users")
    if found.create_bindings:
        plant(admin, *found.create_bindings)
        say(f"created {len(found.create_bindings)} ACLs")


def plant(admin: KafkaAdminClient, *bindings: Binding) -> None:
    """Create ACLs."""
    failed = admin.create_acls([_kafka_acl(ACL, ResourcePattern, b) for b in bindings])["failed"]
    if failed:
        raise ProvisionError(f"the cluster refused {len(failed)} ACLs, the first: {failed[0]}")


def uproot(admin: KafkaAdminClient, *bindings: Binding) -> None:
    """Delete ACLs."""
    admin.delete_acls([_kafka_acl(ACLFilter, ResourcePatternFilter, b) for b in bindings])


def _alter_settings(admin: KafkaAdminClient, found: Drift, say: Say) -> None:
    changed = {**found.set_settings, **found.unset_settings}
    if not changed:
        return
    resources = []
    for name in changed:
        changes: dict[str, Any] = {key: ("SET", value) for key, value in found.set_settings.get(name, {}).items()}
        changes |= dict.fromkeys(found.unset_settings.get(name, ()), ("DELETE", None))
        resources.append(ConfigResource(ConfigResourceType.TOPIC, name, changes))
    admin.alter_configs(resources)
    say(f"mended the settings of {len(changed)} topics")


def _create_users(admin: KafkaAdminClient, names: Iterable[str], secrets: Secrets) -> None:
    # A password gets its place only once the cluster has it: after a crash in between it is made anew.
    fresh = {name: secrets.password_file(name).with_suffix(".new") for name in names}
    _alter_users(
        admin,
        [UserScramCredentialUpsertion(n, ScramMechanism.SCRAM_SHA_512, kept_secret(path)) for n, path in fresh.items()],
    )
    for name, path in fresh.items():
        path.replace(secrets.password_file(name))


def _alter_users(admin: KafkaAdminClient, alterations: list[Any]) -> None:
    for user, problem in admin.alter_user_scram_credentials(alterations).items():
        if problem:
            raise ProvisionError(f"the cluster refused to change user `{user}`: {problem}")


def _kafka_acl(kind: Any, pattern: Any, b: Binding) -> Any:
    return kind(
        principal=b.principal, host=b.host, operation=ACLOperation(b.operation),
        permission_type=ACLPermissionType.ALLOW if b.allow else ACLPermissionType.DENY,
        resource_pattern=pattern(
            KafkaResourceType(b.resource_type), b.resource_name, ACLResourcePatternType(b.pattern_type)
        ),
    )  # fmt: skip


@contextmanager
def _explained() -> Iterator[None]:
    """Turn the client's errors into ours."""
    try:
        yield
    except kafka_errors.SecurityDisabledError:
        raise ProvisionError("the cluster has no authorizer: ACLs would be no walls, nothing was changed") from None
    except (kafka_errors.ClusterAuthorizationFailedError, kafka_errors.TopicAuthorizationFailedError):
        raise ProvisionError(
            "this user may not provision: it needs ALTER, DESCRIBE and CREATE on the cluster"
        ) from None
    except kafka_errors.KafkaError as error:
        raise ClusterError(f"the cluster failed us: {type(error).__name__}: {error}") from None
