"""Bringing a cluster in line with a plan: read, compare, carry out. What to do is decided in `drift.py`."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kafka import errors as kafka_errors
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from topology.embedded.private_files import kept_secret, private_directory
from topology.errors import ClusterError, ProvisionError
from topology.kafka_plan import KafkaPlan
from topology.provisioning.acls import plant, uproot
from topology.provisioning.connection import Connection
from topology.provisioning.drift import SCRAM_SHA_512, Actual, Drift, Logins, Record, drift
from topology.provisioning.reading import read_cluster, try_logins
from topology.provisioning.secrets import Secrets

SETTLE_SECONDS = 20  # for what was changed to show everywhere; a second is usual

Say = Callable[[str], None]


def check(admin: KafkaAdminClient, plan: KafkaPlan, secrets: Secrets, door: Connection) -> Drift:
    """What differs between the plan and the cluster; changes nothing. Passwords are tried at the door."""
    with _explained():
        return drift(plan, read_cluster(admin, plan), secrets.record(), try_logins(plan, secrets, door))


def provision(
    admin: KafkaAdminClient, plan: KafkaPlan, secrets: Secrets, door: Connection, say: Say, adopt: bool = False
) -> Drift:
    """Bring the cluster in line with the plan; return what had to be repaired. Safe to repeat at any time."""
    with _explained():
        actual, record = read_cluster(admin, plan), secrets.record()
        if adopt:
            record = _adopted(plan, actual, record)
        found = drift(plan, actual, record, try_logins(plan, secrets, door))
        if found.refused:
            more = f" (and {len(found.refused) - 1} more, see `--check`)" if len(found.refused) > 1 else ""
            raise ProvisionError(f"nothing was changed: {found.refused[0].what}{more}")
        private_directory(secrets.directory)
        # The record comes first: after a crash half-way, what was made is known to be ours.
        made = _joined(plan, actual, record)
        secrets.write_record(made)
        _carry_out(admin, plan, found, secrets, door, say)
        _wait_until_settled(admin, plan, secrets)
        secrets.write_record(replace(made, users=made.users - set(found.delete_users)))
    return found


def _adopted(plan: KafkaPlan, actual: Actual, record: Record) -> Record:
    """The record as if we had made everything of a wanted name; never that of another cluster or topology."""
    if record.cluster_id not in ("", actual.cluster_id) or record.topology not in ("", plan.topology):
        return record
    return replace(_joined(plan, actual, record), sites=record.sites)


def _joined(plan: KafkaPlan, actual: Actual, record: Record) -> Record:
    """What was made before and what the plan makes, together."""
    return Record(
        actual.cluster_id,
        plan.topology,
        record.topics | set(plan.topics),
        record.users | set(plan.principals),
        {**record.sites, **plan.sites},
    )


def _wait_until_settled(admin: KafkaAdminClient, plan: KafkaPlan, secrets: Secrets) -> None:
    logins = Logins(valid=secrets.at_hand(plan.principals))
    deadline = time.monotonic() + SETTLE_SECONDS
    while left := drift(plan, read_cluster(admin, plan), secrets.record(), logins).repairable:
        if time.monotonic() > deadline:
            raise ProvisionError(f"the cluster does not keep what was set: {left[0].what}")
        time.sleep(0.2)


def _carry_out(
    admin: KafkaAdminClient, plan: KafkaPlan, found: Drift, secrets: Secrets, door: Connection, say: Say
) -> None:
    # Walls first: what should not be allowed goes before anything new comes.
    if found.delete_bindings:
        uproot(admin, found.delete_bindings)
        say(f"removed {len(found.delete_bindings)} ACLs")
    _delete_passwords(admin, found, secrets, say)
    if found.create_users:
        _create_users(admin, found.create_users, secrets)
        say(f"created {len(found.create_users)} users")
        for name in sorted(try_logins(plan, secrets, door).overpowered):
            raise ProvisionError(f"only users were made: the cluster allows `{name}` what no ACL allows")
    if found.create_topics:
        admin.create_topics({name: _new_topic(plan, name) for name in found.create_topics})
        say(f"created {len(found.create_topics)} topics")
    _alter_settings(admin, found, say)
    if found.create_bindings:
        plant(admin, found.create_bindings)
        say(f"created {len(found.create_bindings)} ACLs")


def _new_topic(plan: KafkaPlan, name: str) -> dict[str, Any]:
    topic = plan.topics[name]
    return {
        "num_partitions": topic.partitions,
        "replication_factor": plan.replication,
        "configs": dict(topic.settings),
    }


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
    mechanism = ScramMechanism(SCRAM_SHA_512)
    _alter_users(admin, [UserScramCredentialUpsertion(n, mechanism, kept_secret(path)) for n, path in fresh.items()])
    for name, path in fresh.items():
        path.replace(secrets.password_file(name))


def _delete_passwords(admin: KafkaAdminClient, found: Drift, secrets: Secrets, say: Say) -> None:
    gone = [(name, SCRAM_SHA_512) for name in found.delete_users] + list(found.delete_mechanisms)
    if not gone:
        return
    _alter_users(admin, [UserScramCredentialDeletion(name, ScramMechanism(mechanism)) for name, mechanism in gone])
    for name in found.delete_users:
        secrets.password_file(name).unlink(missing_ok=True)
    say(f"removed {len(found.delete_users)} users and {len(found.delete_mechanisms)} side doors")


def _alter_users(admin: KafkaAdminClient, alterations: list[Any]) -> None:
    for user, problem in admin.alter_user_scram_credentials(alterations).items():
        if problem:
            raise ProvisionError(f"the cluster refused to change user `{user}`: {problem}")


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
    except (KeyError, IndexError, ValueError) as error:
        raise ClusterError(f"the cluster changed while we looked ({type(error).__name__}): run it again") from None
