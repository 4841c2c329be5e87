"""The settings of the embedded broker."""

from pathlib import Path

from topology.embedded.home import ADMINISTRATOR, Home
from topology.embedded.private_files import kept_secret

MOST_REQUEST_BYTES = 4 << 20  # room for a tuple of three million bytes, three times the default limit


def server_properties(home: Home, data: Path) -> str:
    """The settings of a broker whose log segments are in `data`."""
    ports = home.ports()
    controller = kept_secret(home.secrets / "controller.password")
    jaas = "org.apache.kafka.common.security"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{ports['controller']}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"SASL_SSL://127.0.0.1:{ports['client']},CONTROLLER://127.0.0.1:{ports['controller']}",
        "advertised.listeners": f"SASL_SSL://127.0.0.1:{ports['client']}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "log.dirs": str(data),
        # Who is who: SCRAM over TLS for clients; the controller talks to itself over loopback with a
        # password of its own, so that nobody anonymous needs any right.
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
            f'{jaas}.scram.ScramLoginModule required username="{ADMINISTRATOR}" '
            f'password="{kept_secret(home.secrets / "admin.password")}";'
        ),
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{jaas}.plain.PlainLoginModule required username="controller" password="{controller}" '
            f'user_controller="{controller}";'
        ),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(home.certificates.keystore),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(home.certificates.authority),
        "ssl.enabled.protocols": "TLSv1.3,TLSv1.2",
        # Who may do what: deny by absence.
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{ADMINISTRATOR};User:controller",
        "allow.everyone.if.no.acl.found": "false",
        "auto.create.topics.enable": "false",
        # A deleted user's open connection ends at the latest after this.
        "connections.max.reauth.ms": "600000",
        # A few connections that announced the default of 100 MB each would take all memory.
        "socket.request.max.bytes": str(MOST_REQUEST_BYTES),
        # One node has no replicas to wait for.
        "default.replication.factor": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # Few partitions of internal topics: a faster start.
        "offsets.topic.num.partitions": "1",
        "transaction.state.log.num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
