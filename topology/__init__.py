"""The cluster's shape: one file in, every name, ACL, placement and per-site view out.

TRUSTED at provisioning time: wrong ACLs are wrong walls. What decides is pure (`cluster`, `checking`, `kafka_plan`,
`view`, `provisioning.drift`); what talks to Kafka or runs a broker (`provisioning.kafka`, `embedded`)
decides nothing.
"""

from topology.checking import check, examples, load, load_example
from topology.cluster import Group, Site, Source, Stream, Topology
from topology.errors import (
    BrokerError,
    ClusterError,
    DeclarationError,
    InputError,
    JarError,
    LoginRefused,
    ProvisionError,
    TopologyError,
    UnknownName,
)
from topology.kafka_plan import Acl, KafkaPlan, Operation, Resource, ResourceType, Topic, closure, plan
from topology.view import View, VisibleStream, view

__all__ = [
    "Acl", "BrokerError", "ClusterError", "DeclarationError", "Group", "InputError", "JarError", "KafkaPlan",
    "LoginRefused", "Operation", "ProvisionError", "Resource", "ResourceType", "Site", "Source", "Stream",
    "Topic", "Topology", "TopologyError", "UnknownName", "View", "VisibleStream", "check", "closure",
    "examples", "load", "load_example", "plan", "view",
]  # fmt: skip
