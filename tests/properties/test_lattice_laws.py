"""The laws of lattices, over random ones and exhaustively over a small one.

Every finite lattice is a family of sets closed under union, ordered by inclusion. So random families make
random lattices, and plain set operations are the oracle: dominance is inclusion, the least upper bound is
the union, the greatest lower bound the union of everything inside both.
"""

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from security_lattice import LabelRange, Lattice, Level, MlsMode, Order

Family = dict[str, frozenset[int]]


@st.composite
def families(draw: st.DrawFn) -> Family:
    seeds = draw(st.lists(st.frozensets(st.integers(0, 5)), max_size=6))
    closed = {frozenset[int]()} | set(seeds)
    while len(grown := closed | {a | b for a in closed for b in closed}) > len(closed):
        closed = grown
    names = draw(st.permutations([f"n{i}" for i in range(len(closed))]))
    return dict(zip(names, draw(st.permutations(sorted(closed, key=sorted))), strict=True))


def order_of(family: Family, *, covers_only: bool) -> Order:
    def is_cover(high: str, low: str) -> bool:
        return not any(family[low] < between < family[high] for between in family.values())

    return Order(
        {
            high: [low for low in family if family[low] < family[high] and (not covers_only or is_cover(high, low))]
            for high in family
        }
    )


@given(families(), st.booleans())
@settings(max_examples=150, deadline=None)
def test_an_order_agrees_with_inclusion_of_sets(family: Family, covers_only: bool) -> None:
    order = order_of(family, covers_only=covers_only)
    by_set = {members: name for name, members in family.items()}
    assert family[order.least] == frozenset()
    for a, b in product(family, repeat=2):
        assert order.dominates(a, b) == (family[b] <= family[a])
        assert order.least_upper_bound(a, b) == by_set[family[a] | family[b]]
        inside = frozenset().union(*(s for s in family.values() if s <= family[a] & family[b]))
        assert order.greatest_lower_bound(a, b) == by_set[inside]
    for a in family:
        assert set(order.down_set(a)) == {b for b in family if family[b] <= family[a]}
        assert set(order.up_set(a)) == {b for b in family if family[a] <= family[b]}
        part = order.below(a)
        assert set(part.names) == set(order.down_set(a))
        for b, c in product(part.names, repeat=2):
            assert part.dominates(b, c) == order.dominates(b, c)


@given(families(), st.lists(st.sampled_from("ABC"), unique=True), st.data())
@settings(max_examples=150, deadline=None)
def test_levels_with_compartments_obey_the_lattice_laws(
    family: Family, compartments: list[str], data: st.DataObject
) -> None:
    lattice = Lattice(order_of(family, covers_only=True), compartments)
    levels = st.builds(Level, st.sampled_from(list(family)), st.frozensets(st.sampled_from("ABC")).map(
        lambda chosen: chosen & set(compartments)))  # fmt: skip
    assert_lattice_laws(lattice, *(data.draw(levels) for _ in range(3)))


def test_the_laws_hold_for_every_triple_of_a_small_lattice() -> None:
    small = Lattice(Order({"U": [], "A": ["U"], "B": ["U"], "T": ["A", "B"]}), ["K", "N"])
    assert len(list(small)) == 16
    for a, b, c in product(small, repeat=3):
        assert_lattice_laws(small, a, b, c)


def assert_lattice_laws(lattice: Lattice, a: Level, b: Level, c: Level) -> None:
    mode = MlsMode(lattice)

    def up(*levels: Level) -> Level:
        return mode.combine(levels)

    def below(low: Level, high: Level) -> bool:
        return lattice.dominates(high, low)

    down = lattice.greatest_lower_bound
    # Order: reflexive, antisymmetric, transitive, with a least level.
    assert below(a, a)
    assert not (below(a, b) and below(b, a)) or a == b
    assert not (below(a, b) and below(b, c)) or below(a, c)
    assert below(lattice.least, a)
    # Bounds: they bound, and nothing bounds more tightly.
    assert below(a, up(a, b))
    assert below(down(a, b), a)
    assert (below(a, c) and below(b, c)) == below(up(a, b), c)
    assert (below(c, a) and below(c, b)) == below(c, down(a, b))
    # Commutative, associative, idempotent, absorbing; consistent with the order.
    assert up(a, b) == up(b, a)
    assert down(a, b) == down(b, a)
    assert up(a, up(b, c)) == up(up(a, b), c) == up(a, b, c)
    assert down(a, down(b, c)) == down(down(a, b), c)
    assert up(a, a) == a == down(a, a)
    assert up(a, down(a, b)) == a == down(a, up(a, b))
    assert below(a, b) == (up(a, b) == b) == (down(a, b) == a)
    # Combine is monotone, admission follows dominance, ranges are intervals, text is canonical.
    assert not below(a, b) or below(up(a, c), up(b, c))
    assert mode.admits(c, up(a, b)) == (mode.admits(c, a) and mode.admits(c, b))
    assert mode.within(c, LabelRange(a, b)) == (below(a, c) and below(c, b))
    assert mode.parse(mode.format(a)) == a
    assert (mode.format(a) == mode.format(b)) == (a == b)
    # The part below a level is the down-set, and knows its own bounds.
    part = lattice.below(a)
    assert set(part) == set(lattice.down_set(a)) == {x for x in lattice if below(x, a)}
    assert set(lattice.up_set(a)) == {x for x in lattice if below(a, x)}
