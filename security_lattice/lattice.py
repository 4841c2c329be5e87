"""Security levels: a named partial order, times sets of compartments.

Both ways to declare levels are one construction. A named order alone is the product with no
compartments; a classification x compartments lattice is the product of a chain with the subsets of
the compartments. A product of lattices is a lattice, so only the named part needs checking.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations

from security_lattice.errors import OrderError
from security_lattice.text import is_name

MOST_LEVEL_NAMES = 256  # construction looks at every pair
MOST_COMPARTMENTS = 60  # so that every level's text stays within the limit on label texts


class Order:
    """A finite partial order of names that is a lattice, checked on construction."""

    def __init__(self, below: Mapping[str, Iterable[str]]) -> None:
        """Take for each name the names right below it; what lies further below follows."""
        self.names: Sequence[str] = tuple(below)
        _check_names(self.names, "level", 1, MOST_LEVEL_NAMES)
        index = {name: i for i, name in enumerate(self.names)}
        self._down = {name: 1 << i for name, i in index.items()}  # bit i: names[i] is dominated
        for name, lower in below.items():
            for other in lower:
                if other == name:
                    raise OrderError(f"level `{name}` cannot lie below itself")
                if other not in index:
                    raise OrderError(f"level `{name}` lies above `{other}`, which is not declared")
                self._down[name] |= 1 << index[other]
        for middle in self.names:
            for name in self.names:
                if self._down[name] >> index[middle] & 1:
                    self._down[name] |= self._down[middle]
        self._up = {
            name: sum(1 << i for other, i in index.items() if self._down[other] >> index[name] & 1)
            for name in self.names
        }
        self._by_up = {up: name for name, up in self._up.items()}
        self._by_down = {down: name for name, down in self._down.items()}
        self._check()
        self.least = self._by_up[(1 << len(self.names)) - 1]

    def _check(self) -> None:
        # x is the least upper bound of a and b exactly if the names above x are those above both, so
        # one look-up answers each pair. Upper bounds for all pairs and a least name also give every
        # pair a greatest lower bound: the least upper bound of what lies below both.
        for a, b in combinations(self.names, 2):
            if self._down[a] == self._down[b]:
                raise OrderError(f"levels `{a}` and `{b}` form a cycle: each dominates the other")
        for a, b in combinations(self.names, 2):
            above = self._up[a] & self._up[b]
            if not above:
                raise OrderError(f"levels `{a}` and `{b}` have no common level above them")
            if above not in self._by_up:
                one, two = [c for c in self._members(above) if not self._down[c] & above & ~self._bit(c)][:2]
                raise OrderError(f"levels `{a}` and `{b}` have no least upper bound: `{one}` and `{two}` both could be")
        if (1 << len(self.names)) - 1 not in self._by_up:
            one, two = [c for c in self.names if self._down[c] == self._bit(c)][:2]
            raise OrderError(f"there is no least level: nothing lies below both `{one}` and `{two}`")

    def _bit(self, name: str) -> int:
        return self._up[name] & self._down[name]

    def _members(self, mask: int) -> list[str]:
        return [name for name in self.names if self._bit(name) & mask]

    def dominates(self, high: str, low: str) -> bool:
        """Whether `low <= high`."""
        return bool(self._down[high] & self._bit(low))

    def least_upper_bound(self, a: str, b: str) -> str:
        """The least name that dominates both."""
        return self._by_up[self._up[a] & self._up[b]]

    def greatest_lower_bound(self, a: str, b: str) -> str:
        """The greatest name that both dominate."""
        return self._by_down[self._down[a] & self._down[b]]

    def down_set(self, name: str) -> list[str]:
        """All names that `name` dominates, in declared order."""
        return self._members(self._down[name])

    def up_set(self, name: str) -> list[str]:
        """All names that dominate `name`, in declared order."""
        return self._members(self._up[name])

    def below(self, name: str) -> "Order":
        """The part that `name` dominates, as an order of its own that names nothing else."""
        kept = self.down_set(name)
        return Order({high: [low for low in kept if low != high and self.dominates(high, low)] for high in kept})


@dataclass(frozen=True, slots=True)
class Level:
    """A point of a lattice: a name of its order and a set of its compartments."""

    name: str
    compartments: frozenset[str] = frozenset()


class Lattice:
    """All pairs of a name of `order` and a subset of `compartments`."""

    def __init__(self, order: Order, compartments: Iterable[str] = ()) -> None:
        declared = tuple(compartments)
        _check_names(declared, "compartment", 0, MOST_COMPARTMENTS)
        self.order = order
        self.compartments = frozenset(declared)
        self.least = Level(order.least)

    def __contains__(self, level: Level) -> bool:
        return level.name in self.order.names and level.compartments <= self.compartments

    def __iter__(self) -> Iterator[Level]:
        """Every level; there are len(order.names) * 2 ** len(compartments)."""
        return _levels(self.order.names, self.compartments, frozenset())

    def dominates(self, high: Level, low: Level) -> bool:
        """Whether `low <= high`: in the order, and compartment by compartment."""
        return low.compartments <= high.compartments and self.order.dominates(high.name, low.name)

    def least_upper_bound(self, levels: Iterable[Level]) -> Level:
        """The least level that dominates all of `levels`; of none it is the least level."""
        return reduce(self._join, levels, self.least)

    def _join(self, a: Level, b: Level) -> Level:
        return Level(self.order.least_upper_bound(a.name, b.name), a.compartments | b.compartments)

    def greatest_lower_bound(self, a: Level, b: Level) -> Level:
        """The greatest level that both dominate."""
        return Level(self.order.greatest_lower_bound(a.name, b.name), a.compartments & b.compartments)

    def down_set(self, level: Level) -> Iterator[Level]:
        """Every level that `level` dominates."""
        return _levels(self.order.down_set(level.name), level.compartments, frozenset())

    def up_set(self, level: Level) -> Iterator[Level]:
        """Every level that dominates `level`."""
        return _levels(self.order.up_set(level.name), self.compartments - level.compartments, level.compartments)

    def below(self, level: Level) -> "Lattice":
        """The part that `level` dominates, as a lattice of its own that names nothing else."""
        return Lattice(self.order.below(level.name), level.compartments)


def _levels(names: Iterable[str], optional: frozenset[str], fixed: frozenset[str]) -> Iterator[Level]:
    for name in names:
        for size in range(len(optional) + 1):
            for chosen in combinations(sorted(optional), size):
                yield Level(name, fixed | frozenset(chosen))


def _check_names(names: Sequence[str], what: str, least: int, most: int) -> None:
    if not least <= len(names) <= most:
        raise OrderError(f"expected {least} to {most} {what}s, found {len(names)}")
    for name in names:
        if not is_name(name):
            raise OrderError(f"{name!r} cannot name a {what}")
        if names.count(name) > 1:
            raise OrderError(f"{what} `{name}` is declared twice")
