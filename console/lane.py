"""`bellwether lane`: run a lane, and see how far it is."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter, validators

from console.label import DEFAULT_TOPOLOGY, TopologyOption
from console.output import Format, print_json, print_table, wants_json
from console.where import HERE, Where
from shepherd.lane.kafka_client import KafkaPythonClient
from shepherd.lane.lane import QUARANTINE, Lane
from shepherd.lane.process import LOOPBACK, Process
from shepherd.lane.secrets import authority_key, hmac_secrets
from topology import InputError, Site, Topology, load
from topology.kafka_plan import QUARANTINE_LANE, STAMP_SLACK_BYTES, input_topic, site_principal, site_topic
from topology.provisioning.connection import Connection
from topology.provisioning.knock import knock

app = App(name="lane", help="Run the shepherd's lanes: one for each site, and the quarantine lane.")
SiteOption = Annotated[str, Parameter(help="The site; `quarantine` is the lane for what proves nothing.")]
ClientName = Literal["kafka-python", "librdkafka"]
Port = Annotated[int | None, Parameter(validator=validators.Number(gte=0, lte=65535))]


@app.command
def run(
    *,
    site: SiteOption,
    topology: TopologyOption = DEFAULT_TOPOLOGY,
    where: Where = HERE,
    authority: Annotated[Path | None, Parameter(help="The login authority's public key.")] = None,
    hmac: Annotated[Path | None, Parameter(help="The directory with the HMAC secrets of sources.")] = None,
    metrics_port: Annotated[Port, Parameter(help="Serve the lane's own metrics here: they are system high.")] = None,
    level_metrics_port: Annotated[Port, Parameter(help="Serve here what the level itself may know.")] = None,
    metrics_host: Annotated[str, Parameter(help="Where to listen for them.")] = LOOPBACK,
    client: Annotated[ClientName, Parameter(help="What to publish with; librdkafka is an extra.")] = "kafka-python",
) -> None:
    """Run a lane until SIGTERM or Ctrl-C. It can be killed and started again at any time: nothing is lost or doubled.

    Its log, one JSON object a line on stderr, is system high.
    """
    shape = load(topology)
    chosen = _site(shape, site)
    door = where.door(_principal(chosen))
    public = authority_key(authority or where.authority)
    secrets = hmac_secrets(hmac or where.hmac_secret("").parent)
    process = Process(
        lambda client: Lane(shape, chosen, client, public, secrets), lambda: connect_lane(shape, chosen, door, client)
    )
    process.serve(metrics_port, level_metrics_port, metrics_host)
    process.run()


@app.command
def status(
    *, site: SiteOption, topology: TopologyOption = DEFAULT_TOPOLOGY, where: Where = HERE, output: Format = None
) -> int:
    """Show how far a lane is, by the state that it left; exit code 3 if it is behind its inputs.

    This is system high: it counts what the site may not see.
    """
    shape = load(topology)
    chosen = _site(shape, site)
    door = where.door(_principal(chosen))
    knock(door)
    client = connect_lane(shape, chosen, door)
    inputs = {input_topic(group) for group in (shape.groups_at(chosen) if chosen else shape.groups)}
    try:
        state = client.read_state()
        places = {}
        for name, text in state.items():
            if name.startswith("position "):
                _, topic, partition = name.split()
                if topic in inputs:
                    places[topic, int(partition)] = int(text)
        ends = client.look(list(places))
    finally:
        client.close()
    behind = sum(max(0, ends[place] - position) for place, position in places.items())
    strands = {name.split()[1]: text.split() for name, text in state.items() if name.startswith("strand ")}
    answer = {
        "lane": site,
        "started": bool(state),
        "behind": behind,
        "sequence": {partition: int(words[0]) for partition, words in strands.items()},
        "newest": {partition: int(words[1]) for partition, words in strands.items()},
    }
    if wants_json(output):
        print_json(answer)
    else:
        rows = [(topic, str(p), str(at), str(ends[topic, p])) for (topic, p), at in sorted(places.items())]
        print_table(("input", "partition", "done to", "end"), rows, f"lane {site}: {behind} records behind")
    return 3 if behind or not places else 0


def connect_lane(
    shape: Topology, site: Site | None, door: Connection, client: ClientName = "kafka-python"
) -> KafkaPythonClient:
    """The client of a lane."""
    kind: type[KafkaPythonClient] = KafkaPythonClient
    if client == "librdkafka":
        try:
            from shepherd.lane.librdkafka_client import LibrdkafkaClient
        except ImportError:
            raise InputError("librdkafka is not installed: install `bellwether[librdkafka]`") from None
        kind = LibrdkafkaClient
    name = site.name if site else QUARANTINE
    log = site_topic("level", site.name) if site else QUARANTINE
    most = shape.kafka.max_tuple_bytes + STAMP_SLACK_BYTES
    return kind(door.client_settings(), f"lane.{name}", log, most)


def _site(shape: Topology, name: str) -> Site | None:
    return None if name == QUARANTINE else shape.site(name)


def _principal(site: Site | None) -> str:
    return site_principal("lane", site.name) if site else QUARANTINE_LANE
