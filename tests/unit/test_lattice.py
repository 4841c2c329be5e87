"""What construction of an order refuses, and that the error names the pair."""

import pytest

from security_lattice import (  # fmt: skip
    Denied,
    Lattice,
    Level,
    MlsMode,
    Order,
    OrderError,
    level_principals,
    principal_as,
    principal_at,
    role_principals,
)


@pytest.mark.parametrize(
    ("below", "message"),
    [
        ({}, "expected 1 to 256 levels, found 0"),
        ({"A": ["B"], "B": ["A"]}, "`A` and `B` form a cycle: each dominates the other"),
        ({"U": [], "A": ["C", "U"], "B": ["A"], "C": ["B"]}, "`A` and `B` form a cycle"),
        ({"U": [], "A": ["U"], "B": ["U"]}, "`A` and `B` have no common level above them"),
        ({"A": [], "B": [], "T": ["A", "B"]}, "no least level: nothing lies below both `A` and `B`"),
        (
            {"U": [], "A": ["U"], "B": ["U"], "C": ["A", "B"], "D": ["A", "B"], "T": ["C", "D"]},
            "`A` and `B` have no least upper bound: `C` and `D` both could be",
        ),
        ({"A": ["X"]}, "`A` lies above `X`, which is not declared"),
        ({"A": ["A"]}, "`A` cannot lie below itself"),
        ({"and": []}, "'and' cannot name a level"),
        ({"H\u0456gh": []}, "cannot name a level"),
        ({"a" * 65: []}, "cannot name a level"),
        ({f"n{i}": [] for i in range(257)}, "expected 1 to 256 levels, found 257"),
    ],
)
def test_what_is_no_lattice_is_refused_with_the_pair(below: dict[str, list[str]], message: str) -> None:
    with pytest.raises(OrderError) as refusal:
        Order(below)
    assert message in str(refusal.value)


def test_compartments_are_checked_like_levels() -> None:
    order = Order({"S": []})
    with pytest.raises(OrderError, match="compartment `A` is declared twice"):
        Lattice(order, ["A", "A"])
    with pytest.raises(OrderError, match="cannot name a compartment"):
        Lattice(order, ["A B"])
    with pytest.raises(OrderError, match="expected 0 to 60 compartments, found 61"):
        Lattice(order, [f"c{i}" for i in range(61)])


def test_the_longest_level_can_be_written_and_read_back() -> None:
    names = [f"{'c' * 61}{i:03}" for i in range(60)]
    mode = MlsMode(Lattice(Order({"n" * 64: []}), names))
    level = Level("n" * 64, frozenset(names))
    assert mode.parse(mode.format(level)) == level


def test_a_long_chain_and_a_wide_diamond_are_built_quickly() -> None:
    chain = Order({f"n{i}": [f"n{i - 1}"] if i else [] for i in range(256)})
    assert chain.dominates("n255", "n0")
    middle = [f"m{i}" for i in range(254)]
    wide = Order({"U": [], **{name: ["U"] for name in middle}, "T": middle})
    assert wide.least_upper_bound("m0", "m1") == "T"
    assert wide.greatest_lower_bound("m0", "m1") == "U"


def test_jane_cleared_to_high_has_one_principal_for_each_level_she_dominates() -> None:
    mode = MlsMode(Lattice(Order({"L": [], "H": ["L"]})))
    assert [str(p) for p in level_principals("jane", Level("H"), mode)] == ["jane.L", "jane.H"]
    assert [str(p) for p in level_principals("john", Level("L"), mode)] == ["john.L"]
    assert str(principal_at("jane", Level("H"), Level("L"), mode)) == "jane.L"
    with pytest.raises(Denied):
        principal_at("john", Level("L"), Level("H"), mode)


def test_a_user_can_activate_any_of_his_roles_and_no_other() -> None:
    assigned = frozenset({"doctor", "nurse"})
    assert [str(p) for p in role_principals("bob", assigned)] == ["bob.doctor", "bob.nurse", "bob.doctor,nurse"]
    assert str(principal_as("bob", assigned, frozenset({"nurse"}))) == "bob.nurse"
    for wanted in (frozenset({"nurse", "admin"}), frozenset[str]()):
        with pytest.raises(Denied):
            principal_as("bob", assigned, wanted)
