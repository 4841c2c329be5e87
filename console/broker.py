"""`bellwether broker`: the embedded Kafka broker."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter, validators

from console.jars import fetch_with_progress
from console.output import Format, print_json, print_table, say, wants_json
from topology import BrokerError
from topology.embedded import background
from topology.embedded import broker as embedded
from topology.embedded.home import Home
from topology.provisioning.connection import answers

app = App(name="broker", help="Run a real Kafka broker on this machine: TLS, SCRAM, authorizer, own certificates.")

Data = Annotated[Path, Parameter(name=["--data", "-d"], help="The directory that holds the cluster's files.")]
DEFAULT_DATA = Path(".bellwether")


def broker_directory(data: Path) -> Path:
    """The broker's part of a cluster's directory."""
    return data / "broker"


@app.command
def start(
    *,
    data: Data = DEFAULT_DATA,
    port: Annotated[
        int | None,
        Parameter(
            validator=validators.Number(gte=0, lte=65535),
            help="The port for clients; by default the last one, or any free one.",
        ),
    ] = None,
    foreground: Annotated[bool, Parameter(negative="", help="Stay until Ctrl-C instead of going on behind.")] = False,
    output: Format = None,
) -> None:
    """Start the broker and return when an authenticated client can work."""
    fetch_with_progress()
    directory = broker_directory(data)
    if not foreground:
        background.start(directory, port, say)
        _print_status(directory, output)
        return
    try:
        with embedded.running(directory, port, say) as broker:
            _print_status(directory, output)
            code = broker.wait()
        raise BrokerError(f"the broker ended by itself with exit code {code}; see `{broker.home.log}`")
    except (KeyboardInterrupt, SystemExit):
        say("stopped")


@app.command
def stop(*, data: Data = DEFAULT_DATA) -> None:
    """Stop the broker and wait for it; its data stays."""
    say("stopped" if embedded.stop(broker_directory(data)) else "no broker was running")


@app.command
def status(*, data: Data = DEFAULT_DATA, output: Format = None) -> int:
    """Say whether the broker runs and answers; the exit code is 0 if it does, 1 if not."""
    return _print_status(broker_directory(data), output)


def _print_status(directory: Path, output: Format) -> int:
    home = Home(directory.resolve())
    answer: dict[str, str | int] = {"status": "stopped", "directory": str(home.directory)}
    if home.is_held():
        answer["status"] = "running" if home.state.exists() and answers(home.connection()) else "not answering"
        if home.state.exists():
            answer |= {"bootstrap": home.connection().bootstrap, "ca": str(home.certificates.authority)}
        answer |= {"process": home.keeper() or 0, "log": str(home.log)}
    if wants_json(output):
        print_json(answer)
    else:
        print_table(("", ""), [(key, str(value)) for key, value in answer.items()])
    return 0 if answer["status"] == "running" else 1
