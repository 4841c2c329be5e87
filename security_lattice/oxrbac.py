"""OxRBAC mode: a label is the set of source streams that a tuple comes from.

Each source carries the least number of its tuples that any value in the result was aggregated over:
1 for a plain tuple. A source that is absent took no part. `combine` is the union of the sources with
the smaller number where both have one, so joining an aggregate with a plain tuple is plain again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from security_lattice.errors import LabelSyntaxError, LatticeError
from security_lattice.mode import LabelMode
from security_lattice.text import MOST_CHARACTERS, Reader

MOST_TUPLES = 10**9  # that a label can say were aggregated; more is said as this many
SourceSet = frozenset[tuple[str, int]]  # (source, least number of tuples)


class Semantics(Enum):
    """How many of a result's sources a subject must have a right to."""

    STRONG = "strong"  # all of them
    UNSAFE_WEAK = "unsafe-weak"  # any: shows values that derive from sources one may not read


@dataclass(frozen=True, slots=True)
class Rights:
    """What a subject may read: `tuples` of these sources, and aggregates over at least so many tuples."""

    tuples: frozenset[str] = frozenset()
    aggregates: Mapping[str, int] = field(default_factory=dict)

    def covers(self, source: str, count: int) -> bool:
        """Whether a value over `count` tuples of `source` may be shown."""
        return source in self.tuples or (source in self.aggregates and 2 <= self.aggregates[source] <= count)


class OxrbacMode(LabelMode[SourceSet, Rights]):
    """Labels such as `London,NewYork/20` over the declared streams."""

    def __init__(self, streams: Sequence[str], semantics: Semantics = Semantics.STRONG) -> None:
        self.streams = tuple(streams)
        self.semantics = semantics
        # However many streams there are, the label of them all can be written and read back.
        self._most_characters = max(MOST_CHARACTERS, sum(len(f"{stream}/{MOST_TUPLES},") for stream in self.streams))

    def parse(self, text: str) -> SourceSet:
        """Read sources separated by commas, each with `/n` if aggregated over n tuples or more."""
        reader = Reader(text, self._most_characters)
        counts: dict[str, int] = {}
        while True:
            offset = reader.offset
            source = reader.name("source", self.streams)
            if source in counts:
                raise LabelSyntaxError(f"source `{source}` stands twice", offset)
            counts[source] = reader.number(2, MOST_TUPLES) if reader.take("/") else 1
            if not reader.take(","):
                break
        reader.end()
        return frozenset(counts.items())

    def format(self, label: SourceSet) -> str:
        """Write sources in alphabetical order."""
        return ",".join(source if count == 1 else f"{source}/{count}" for source, count in sorted(label))

    def combine(self, labels: Iterable[SourceSet]) -> SourceSet:
        """Union of the sources; where a source stands in several labels its least count holds."""
        counts: dict[str, int] = {}
        for source, count in (pair for label in labels for pair in label):
            counts[source] = min(count, counts.get(source, count))
        if not counts:
            raise LatticeError("nothing to combine: what derives from no source has no label")
        return frozenset(counts.items())

    def aggregate(self, labels: Iterable[SourceSet], distinct: Mapping[str, int]) -> SourceSet:
        """The label of a sum, count or average over rows with `labels`, out of `distinct` tuples of each source.

        Distinct tuples, not rows: a join repeats a tuple in many rows, and it would show through their average.
        What was aggregated before keeps its number, since overlapping windows may share all their tuples.
        """
        return frozenset(
            (source, min(MOST_TUPLES, max(1, distinct.get(source, 1))) if least == 1 else least)
            for source, least in self.combine(labels)
        )

    def bits(self, label: SourceSet) -> int:
        """The label as a bit vector: the n-th declared stream is bit n, from 0."""
        sources = {source for source, _ in label}
        return sum(1 << i for i, stream in enumerate(self.streams) if stream in sources)

    def dominates(self, high: SourceSet, low: SourceSet) -> bool:
        """Whether `high` has every source of `low`, aggregated over no more tuples."""
        counts = dict(high)
        return all(source in counts and counts[source] <= count for source, count in low)

    def admits(self, site: Rights, label: SourceSet) -> bool:
        """Whether the rights cover the sources: all of them, or any under the unsafe weak semantics."""
        verdicts = [site.covers(source, count) for source, count in label]
        # An empty label is released to nobody: `all` of nothing would be true.
        return bool(verdicts) and (any(verdicts) if self.semantics is Semantics.UNSAFE_WEAK else all(verdicts))

    def seen_by(self, site: Rights, label: SourceSet) -> SourceSet:
        """The label itself: a tuple that comes in has one source, which an admitting site knows."""
        return label
