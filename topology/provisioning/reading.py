"""Reading what a cluster holds, and what its users can do. Changes nothing, decides nothing."""

from dataclasses import replace
from typing import Any

from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from topology.errors import LoginRefused
from topology.kafka_plan import KafkaPlan
from topology.provisioning.acls import stored_bindings
from topology.provisioning.connection import Connection, connect
from topology.provisioning.drift import Actual, ActualTopic, Logins
from topology.provisioning.secrets import Secrets

_ON_THE_TOPIC = "DYNAMIC_TOPIC_CONFIG"


def read_cluster(admin: KafkaAdminClient, plan: KafkaPlan) -> Actual:
    """What the cluster holds, as far as provisioning looks."""
    # ACLs first: who may not ask for them is told so, while Kafka 4.3.1 never answers a denied look at users.
    bindings = stored_bindings(admin)
    # Topics that are not of the plan count by name only (some may be left over from an earlier plan).
    topics = {name: ActualTopic(0, 0, {}) for name in admin.list_topics()}
    ours = [name for name in topics if name in plan.topics]
    settings: dict[str, dict[str, Any]] = {}
    if ours:
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in ours]
        settings = admin.describe_configs(resources)["topic"]
    for topic in admin.describe_topics(ours) if ours else []:
        name, partitions = topic["name"], topic["partitions"]
        if not partitions or name not in settings:
            del topics[name]  # it was deleted while we looked
            continue
        own = {k: v["value"] for k, v in settings[name].items() if v["config_source"] == _ON_THE_TOPIC}
        topics[name] = ActualTopic(len(partitions), len(partitions[0]["replica_nodes"]), own)
    return Actual(admin.describe_cluster()["cluster_id"], topics, _users(admin), bindings)


def _users(admin: KafkaAdminClient) -> dict[str, frozenset[int]]:
    infos = admin.describe_user_scram_credentials()
    return {
        name: frozenset(int(credential["mechanism"]) for credential in info["credential_infos"])
        for name, info in infos.items()
    }


def try_logins(plan: KafkaPlan, secrets: Secrets, door: Connection) -> Logins:
    """Log in as every principal whose password is here, and see whether it may do what no ACL allows."""
    valid, overpowered = set(), set()
    for name in secrets.at_hand(plan.principals):
        try:
            with connect(replace(door, username=name, password=secrets.password(name))) as client:
                valid.add(name)
                # A right on the cluster, which no principal of ours ever has.
                stored_bindings(client)
                overpowered.add(name)
        except (LoginRefused, kafka_errors.ClusterAuthorizationFailedError):
            continue
    return Logins(frozenset(valid), frozenset(overpowered))
