"""A cluster's shape: sites, streams, sources and groups, and what a label means to them. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from security_lattice import LabelMode, LabelRange, MlsMode, OxrbacMode, RbacMode, Rights, read_roles
from topology.document import Kafka, Lanes
from topology.errors import UnknownName


@dataclass(frozen=True)
class Site:
    """Where a processor runs: its name and who it is to the label mode."""

    name: str
    subject: Any
    subject_text: str
    roles: tuple[str, ...] = ()  # that it serves, in the role modes


@dataclass(frozen=True)
class Stream:
    """A declared schema, how its labels come about, and the proof its sources owe."""

    name: str
    fields: Mapping[str, str]
    labelling: str  # "claimed", "source" or "fixed"
    fixed: Any
    floor: Any
    proof: str


@dataclass(frozen=True)
class Source:
    """A registered producer."""

    name: str
    streams: tuple[str, ...]
    range: LabelRange[Any] | None  # None in oxrbac mode, where the stream decides


@dataclass(frozen=True)
class Group:
    """The sources of one stream with the same range; they share an input topic.

    `possible` is what tuples of the group can carry: the range as the stream's fixed label or floor narrows it.
    """

    stream: str
    name: str
    sources: tuple[str, ...]
    possible: LabelRange[Any]


@dataclass(frozen=True)
class Topology:
    """The shape of a cluster."""

    name: str
    mode_name: str
    mode: LabelMode[Any, Any]
    sites: Mapping[str, Site]
    streams: Mapping[str, Stream]
    sources: Mapping[str, Source]
    groups: tuple[Group, ...]
    partitions: int
    kafka: Kafka
    lanes: Lanes
    role_rights: Mapping[str, Rights]  # oxrbac mode, at first start

    def subject(self, text: str) -> Any:
        """Who `text` names to the label mode: a level, or roles separated by commas."""
        match self.mode:
            case MlsMode():
                return self.mode.parse(text)
            case RbacMode(roles=roles):
                return read_roles(text, roles)
            case OxrbacMode():
                return rights_of(read_roles(text, self.role_rights), self.role_rights)
        raise AssertionError("a topology has one of three modes")

    def site(self, name: str) -> Site:
        """The site of that name."""
        if name not in self.sites:
            raise UnknownName(f"unknown site `{name}`")
        return self.sites[name]

    def groups_at(self, site: Site) -> Iterator[Group]:
        """The groups of whose tuples the site can admit some: whose least possible label it admits."""
        return (group for group in self.groups if self.mode.admits(site.subject, group.possible.low))


def rights_of(roles: Iterable[str], role_rights: Mapping[str, Rights]) -> Rights:
    """The rights of all roles together."""
    tuples: set[str] = set()
    aggregates: dict[str, int] = {}
    for role in roles:
        tuples |= role_rights[role].tuples
        for stream, least in role_rights[role].aggregates.items():
            aggregates[stream] = min(least, aggregates.get(stream, least))
    return Rights(frozenset(tuples), aggregates)
