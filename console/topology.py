"""`bellwether topology`: look at a topology and all that is derived from it."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from console.output import Format, print_json, print_table, say, wants_json
from topology import KafkaPlan, Topology, examples, load, load_example, plan, view
from topology.kafka_plan import input_topic

app = App(name="topology", help="Check and show a cluster's shape.")

File = Annotated[str, Parameter(help="A topology file, or the name of an example such as `battlefield`.")]


@app.command
def check(file: File = "bellwether.yaml", /, *, output: Format = None) -> None:
    """Check a topology file; the first fault is named with its place in the file."""
    topology = load(file)
    derived = plan(topology)
    counts = {
        "name": topology.name,
        "mode": topology.mode_name,
        "sites": len(topology.sites),
        "streams": len(topology.streams),
        "sources": len(topology.sources),
        "topics": len(derived.topics),
        "principals": len(derived.principals),
        "acls": len(derived.acls),
    }
    if wants_json(output):
        print_json({"ok": True, **counts})
    else:
        print_table(("part", "count"), [(key, str(value)) for key, value in counts.items()], "this topology is sound")


@app.command
def show(
    file: File = "bellwether.yaml",
    /,
    *,
    site: Annotated[str | None, Parameter(help="Show only what the processes of this site may hold.")] = None,
    output: Format = None,
) -> None:
    """Show a topology and everything that is derived from it."""
    topology = load(file)
    if site is not None:
        print(view(topology, site).model_dump_json(indent=None if wants_json(output) else 2))
    elif wants_json(output):
        print_json(_as_data(topology, plan(topology)))
    else:
        _print_tables(topology, plan(topology))


@app.command(name="examples")
def list_examples(*, output: Format = None) -> None:
    """List the example topologies that come along."""
    if wants_json(output):
        print_json(examples())
    else:
        print_table(("example", "mode", "sites"), [_example_row(name) for name in examples()])


def _example_row(name: str) -> tuple[str, str, str]:
    topology = load_example(name)
    return name, topology.mode_name, ", ".join(topology.sites)


def _as_data(topology: Topology, derived: KafkaPlan) -> dict[str, Any]:
    form = topology.mode.format
    return {
        "name": topology.name,
        "mode": topology.mode_name,
        "partitions": topology.partitions,
        "sites": {name: site.subject_text for name, site in topology.sites.items()},
        "streams": {name: {"fields": dict(s.fields), "proof": s.proof} for name, s in topology.streams.items()},
        "groups": [
            {
                "stream": group.stream,
                "topic": input_topic(group),
                "sources": list(group.sources),
                "low": form(group.possible.low),
                "high": form(group.possible.high),
            }
            for group in topology.groups
        ],
        "topics": {t.name: {"partitions": t.partitions, "settings": dict(t.settings)} for t in derived.topics.values()},
        "principals": list(derived.principals),
        "transactional_ids": list(derived.transactional_ids),
        "acls": [
            {
                "principal": acl.principal,
                "operation": acl.operation.name,
                "type": acl.resource.type.name,
                "name": acl.resource.name,
            }
            for acl in sorted(derived.acls)
        ],
    }


def _print_tables(topology: Topology, derived: KafkaPlan) -> None:
    data = _as_data(topology, derived)
    say(f"topology {topology.name}, mode {topology.mode_name}, {topology.partitions} partition(s)")
    print_table(("site", "who it is"), list(data["sites"].items()), "sites")
    streams = [
        (name, ", ".join(f"{field} {kind}" for field, kind in stream.fields.items()), stream.labelling, stream.proof)
        for name, stream in topology.streams.items()
    ]
    print_table(("stream", "fields", "label", "proof"), streams, "streams")
    groups = [(g["topic"], ", ".join(g["sources"]), g["low"], g["high"]) for g in data["groups"]]
    print_table(("input topic", "sources", "lowest label", "highest label"), groups, "groups")
    rights: dict[str, list[str]] = {}
    for acl in data["acls"]:
        rights.setdefault(acl["principal"], []).append(f"{acl['operation']} {acl['name']}")
    print_table(("principal", "may"), [(who, "\n".join(what)) for who, what in rights.items()], "principals")
