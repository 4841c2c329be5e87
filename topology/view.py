"""`view(site)`: the only part of a topology that the untrusted processes of a site may hold.

It names what the site can know and nothing else: the part of the lattice that the site dominates (or
its own roles, or its own streams), and the streams that can carry such labels. Since a view holds no
other names, looking up an invisible name and one that never was take the same path to the same error.
"""

import hashlib
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from security_lattice import LabelMode, Lattice, MlsMode, Order, OxrbacMode, RbacMode, Semantics
from topology.cluster import Site, Topology
from topology.errors import UnknownName
from topology.kafka_plan import site_topic

SITE_TOPICS = ("level", "control", "answer", "result", "policy", "receipt", "audit")


class VisibleStream(BaseModel):
    """What a site may know of a stream."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    fields: dict[str, str]


class View(BaseModel):
    """What a site may know of a topology; plain data, so that it can be handed over as a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topology: str
    site: str
    subject: str  # the level, or the roles
    mode: Literal["mls", "rbac", "oxrbac"]
    levels: dict[str, list[str]] = {}
    compartments: list[str] = []
    roles: list[str] = []
    semantics: Literal["strong", "unsafe-weak"] | None = None
    streams: dict[str, VisibleStream]
    topics: dict[str, str]
    partitions: int

    def label_mode(self) -> LabelMode[Any, Any]:
        """Labels as this site knows them."""
        if self.mode == "mls":
            return MlsMode(Lattice(Order(self.levels), self.compartments))
        if self.mode == "rbac":
            return RbacMode(self.roles)
        return OxrbacMode(list(self.streams), Semantics(self.semantics))

    def stream(self, name: str) -> VisibleStream:
        """The stream of that name, if the site may know it."""
        if name not in self.streams:
            raise UnknownName(f"unknown stream `{name}`")
        return self.streams[name]

    def digest(self) -> str:
        """Changes exactly if what the site may know changes; state on disk is bound to it."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


def view(topology: Topology, site_name: str) -> View:
    """What the processes of one site may hold."""
    site = topology.site(site_name)
    visible = {group.stream for group in topology.groups_at(site)}
    return View(
        topology=topology.name,
        site=site.name,
        subject=site.subject_text,
        mode=topology.mode_name,  # type: ignore[arg-type]
        streams={
            name: VisibleStream(fields=dict(stream.fields))
            for name, stream in topology.streams.items()
            if name in visible
        },
        topics={kind: site_topic(kind, site.name) for kind in SITE_TOPICS},
        partitions=topology.partitions,
        **_label_part(topology, site),
    )


def _label_part(topology: Topology, site: Site) -> dict[str, Any]:
    mode = topology.mode
    if isinstance(mode, MlsMode):
        part = mode.lattice.below(site.subject)
        below = {name: [low for low in part.order.down_set(name) if low != name] for name in part.order.names}
        return {"levels": below, "compartments": sorted(part.compartments)}
    if isinstance(mode, OxrbacMode):
        return {"roles": list(site.roles), "semantics": mode.semantics.value}
    return {"roles": list(site.roles)}
