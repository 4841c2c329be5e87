"""The one interface of the three label modes."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

L = TypeVar("L")  # what a tuple carries
S = TypeVar("S", contravariant=True)  # who a site or a session is


@dataclass(frozen=True, slots=True)
class LabelRange(Generic[L]):
    """All labels from `low` to `high`, both included, in the order of `dominates`."""

    low: L
    high: L


class LabelMode(Protocol[L, S]):
    """Labels of one kind. All methods are pure; labels are immutable, hashable and compare by meaning."""

    def parse(self, text: str) -> L:
        """The label that `text` writes; every syntax error has an offset."""

    def format(self, label: L) -> str:
        """The canonical text: `parse(format(x)) == x`, and equal labels print equal."""

    def combine(self, labels: Iterable[L]) -> L:
        """The label of something derived from all of `labels`, of which there must be one at least."""

    def dominates(self, high: L, low: L) -> bool:
        """Whether everyone who may be shown `high` may also be shown `low`."""

    def admits(self, site: S, label: L) -> bool:
        """Whether this site may receive a tuple with this label."""

    def seen_by(self, site: S, label: L) -> L:
        """An admitted label without the names that the site may not know; verdicts at the site stay the same."""

    def within(self, label: L, range: LabelRange[L]) -> bool:
        """Whether a source with this range may say this label."""
        return self.dominates(range.high, label) and self.dominates(label, range.low)

    def releases(self, session: S, label: L) -> bool:
        """Whether this session may be shown a result with this label."""
        return self.admits(session, label)
