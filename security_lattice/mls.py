"""MLS mode: a label is a level, a subject is a level, and dominance decides."""

from collections.abc import Iterable

from security_lattice.lattice import Lattice, Level
from security_lattice.mode import LabelMode
from security_lattice.text import Reader, read_names


class MlsMode(LabelMode[Level, Level]):
    """Labels such as `H` or `S:ARMY,NAVY` over one lattice."""

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice

    def parse(self, text: str) -> Level:
        """Read `name` or `name:compartment,compartment`."""
        reader = Reader(text)
        name = reader.name("level", self.lattice.order.names)
        compartments: frozenset[str] = frozenset()
        if reader.take(":"):
            compartments = read_names(reader, "compartment", self.lattice.compartments)
        reader.end()
        return Level(name, compartments)

    def format(self, label: Level) -> str:
        """Write compartments in alphabetical order."""
        return label.name + (":" + ",".join(sorted(label.compartments)) if label.compartments else "")

    def combine(self, labels: Iterable[Level]) -> Level:
        """The least upper bound; of no labels the least level, for what derives from nothing tells nothing."""
        return self.lattice.least_upper_bound(labels)

    def dominates(self, high: Level, low: Level) -> bool:
        """Dominance of levels."""
        return self.lattice.dominates(high, low)

    def admits(self, site: Level, label: Level) -> bool:
        """Simple security: no read up."""
        return self.lattice.dominates(site, label)

    def seen_by(self, site: Level, label: Level) -> Level:
        """The label itself: a site knows every level that it dominates."""
        return label
