"""A site's view holds no name that only others know, and cannot tell the invisible from the unknown."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from security_lattice import LabelSyntaxError, MlsMode
from topology import Topology, UnknownName, View, check, examples, load, view
from topology.checking import EXAMPLES
from topology.yaml_file import parse_yaml

SITES = [(name, site) for name in examples() for site in load(name).sites]


def all_names(topology: Topology) -> set[str]:
    """Every name that the topology declares: levels, compartments, roles, sites, streams, fields, sources, groups."""
    names = set(topology.sites) | set(topology.streams) | set(topology.sources)
    names |= {field for stream in topology.streams.values() for field in stream.fields}
    names |= {group.name for group in topology.groups}
    if isinstance(topology.mode, MlsMode):
        names |= set(topology.mode.lattice.order.names) | topology.mode.lattice.compartments
    return names | {role for site in topology.sites.values() for role in site.roles} | set(topology.role_rights)


def may_know(topology: Topology, site_name: str) -> set[str]:
    """The names that a site may know, worked out from the labels alone."""
    site = topology.sites[site_name]
    known = {site_name, *site.roles}
    if isinstance(topology.mode, MlsMode):
        known |= {level.name for level in topology.mode.lattice.down_set(site.subject)} | site.subject.compartments
    for group in topology.groups:
        if topology.mode.admits(site.subject, group.possible.low):
            known |= {group.stream, *topology.streams[group.stream].fields}
    return known


def words(data: Any) -> Iterator[str]:
    """Every word anywhere in a JSON document."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from words(key)
            yield from words(value)
    elif isinstance(data, list):
        for item in data:
            yield from words(item)
    elif isinstance(data, str):
        yield from re.findall(r"[A-Za-z][A-Za-z0-9_-]*", data)


@pytest.mark.parametrize(("name", "site"), SITES)
def test_a_view_holds_no_name_that_only_others_know(name: str, site: str) -> None:
    topology = load(name)
    shown = set(words(json.loads(view(topology, site).model_dump_json())))
    forbidden = all_names(topology) - may_know(topology, site)
    # The keys of the document itself are not names of the topology, unless they stand as one.
    assert shown & (forbidden - {"level", "policy"}) == set()


def test_low_does_not_even_know_the_name_of_high() -> None:
    shown = set(words(json.loads(view(load("battlefield"), "L").model_dump_json())))
    assert "L" in shown
    assert "H" not in shown
    army = set(words(json.loads(view(load("diamond"), "army").model_dump_json())))
    assert {"ARMY", "Sightings"} <= army
    assert army & {"NAVY", "navy", "joint", "Orders", "squadron", "submarine"} == set()


@pytest.mark.parametrize(("name", "site"), SITES)
def test_a_view_survives_being_handed_over_as_a_file(name: str, site: str) -> None:
    original = view(load(name), site)
    copy = View.model_validate_json(original.model_dump_json())
    assert copy == original
    assert copy.digest() == original.digest()
    labels = original.label_mode()
    for group in load(name).groups_at(load(name).sites[site]):
        if name != "hospital":
            assert labels.parse(load(name).mode.format(group.possible.low)) == group.possible.low


@pytest.mark.parametrize(("name", "site"), SITES)
def test_an_invisible_name_and_an_unknown_one_give_byte_identical_errors(name: str, site: str) -> None:
    """Compare a topology in which a name exists, above the site, with one in which it never did."""
    text = (EXAMPLES / f"{name}.yaml").read_text()
    topology = load(name)
    hidden = sorted(all_names(topology) - may_know(topology, site))
    assert hidden or site in ("H", "joint", "customers", "operations")
    for secret in hidden:
        renamed = check(parse_yaml(re.sub(rf"(?<![\w-]){re.escape(secret)}(?![\w-])", "Renamed", text), f"{name}.yaml"))
        here, elsewhere = view(topology, site), view(renamed, site)
        assert errors_for(secret, here) == errors_for(secret, elsewhere)
        assert here == elsewhere, "a change above a site must not change its view"
        assert here.digest() == elsewhere.digest()


def errors_for(name: str, seen: View) -> list[tuple[str, int | None]]:
    """What asking a view for a stream, and for a label, of this name gives."""
    with pytest.raises(UnknownName) as no_stream:
        seen.stream(name)
    with pytest.raises(LabelSyntaxError) as no_label:
        seen.label_mode().parse(name)
    return [(str(no_stream.value), None), (str(no_label.value), no_label.value.offset)]


def test_an_unknown_site_is_said_to_be_unknown() -> None:
    with pytest.raises(UnknownName, match="unknown site `X`"):
        view(load("battlefield"), "X")
