"""`bellwether provision`: bring a Kafka cluster in line with a topology."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from console.broker import DEFAULT_DATA, Data, broker_directory
from console.label import DEFAULT_TOPOLOGY, TopologyOption
from console.output import Format, print_json, print_table, say, wants_json
from topology import InputError, load, plan
from topology.embedded.home import Home
from topology.embedded.private_files import read_secret
from topology.provisioning import kafka
from topology.provisioning.connection import Connection, connect
from topology.provisioning.drift import Drift
from topology.provisioning.secrets import Secrets

app = App(name="provision", help="Bring a Kafka cluster in line with a topology: topics, users, ACLs.")
DRIFT_FOUND = 3


@app.default
def provision(
    *,
    topology: TopologyOption = DEFAULT_TOPOLOGY,
    check: Annotated[
        bool, Parameter(negative="", help="Only show what differs; exit code 3 if anything does.")
    ] = False,
    adopt: Annotated[
        bool, Parameter(negative="", help="Take over topics, users and ACLs of the wanted names.")
    ] = False,
    data: Data = DEFAULT_DATA,
    bootstrap: Annotated[str | None, Parameter(help="`host:port` of a cluster that is not the embedded one.")] = None,
    ca: Annotated[Path | None, Parameter(help="The certificate authority of that cluster, a PEM file.")] = None,
    user: Annotated[str | None, Parameter(help="A SCRAM user of that cluster that may provision.")] = None,
    password_file: Annotated[Path | None, Parameter(help="A file with that user's password.")] = None,
    secrets: Annotated[Path | None, Parameter(help="Where the principals' passwords are kept.")] = None,
    output: Format = None,
) -> int:
    """Create topics, users and ACLs, repair what drifted, and touch nothing that it did not make.

    Without `--bootstrap` the embedded broker of `--data` is meant.
    """
    planned = plan(load(topology))
    door, kept = _door(data, bootstrap, ca, user, password_file, secrets)
    with connect(door) as admin:
        if check:
            found = kafka.check(admin, planned, kept, door)
            _print_drift(found, output)
            return DRIFT_FOUND if found.repairable or found.refused else 0
        found = kafka.provision(admin, planned, kept, door, say, adopt)
    if wants_json(output):
        print_json({"repaired": [difference.what for difference in found.repairable], "secrets": str(kept.directory)})
    else:
        say(f"{len(found.repairable)} differences repaired; passwords are in {kept.directory}")
    return 0


def _door(
    data: Path,
    bootstrap: str | None,
    ca: Path | None,
    user: str | None,
    password_file: Path | None,
    secrets: Path | None,
) -> tuple[Connection, Secrets]:
    external = {"--ca": ca, "--user": user, "--password-file": password_file, "--secrets": secrets}
    if bootstrap is None:
        given = [name for name, value in external.items() if value is not None]
        if given:
            raise InputError(f"`{given[0]}` goes with `--bootstrap`")
        home = Home(broker_directory(data).resolve())
        return home.connection(), Secrets(home.secrets / "principals")
    missing = [name for name, value in external.items() if value is None]
    if missing:
        raise InputError(f"`--bootstrap` needs `{missing[0]}` too")
    assert ca is not None and user is not None and password_file is not None and secrets is not None
    return Connection(bootstrap, ca, user, read_secret(password_file)), Secrets(secrets)


def _print_drift(found: Drift, output: Format) -> None:
    if wants_json(output):
        print_json({"drift": [{"what": d.what, "verdict": d.verdict.value} for d in found.differences]})
    elif found.differences:
        print_table(("difference", "would be"), [(d.what, d.verdict.value) for d in found.differences])
    else:
        say("no drift: the cluster is as the topology says")
