"""Role expressions mean what their truth tables say, for every assignment of up to six roles."""

from functools import reduce
from itertools import chain, combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from security_lattice import LabelSyntaxError, LatticeError, RbacMode, RoleExpression, RoleSet
from tests.properties.label_model import Fault, RbacModel

ROLES = ["a", "b", "c", "d", "e", "f"]
MODE = RbacMode(ROLES)
ASSIGNMENTS = [frozenset(chosen) for size in range(7) for chosen in combinations(ROLES, size)]

# A tree is a role, or an operator with two or three trees; text and truth are read off it independently.
trees = st.recursive(
    st.sampled_from(ROLES),
    lambda inner: st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=3)),
    max_leaves=12,
)


def text_of(tree: object) -> str:
    if isinstance(tree, str):
        return tree
    assert isinstance(tree, tuple)
    word, parts = tree
    return "(" + f" {word} ".join(text_of(part) for part in parts) + ")"


def truth(tree: object, active: RoleSet) -> bool:
    if isinstance(tree, str):
        return tree in active
    assert isinstance(tree, tuple)
    word, parts = tree
    values = [truth(part, active) for part in parts]
    return all(values) if word == "and" else any(values)


@given(trees)
@settings(max_examples=400, deadline=None)
def test_an_expression_admits_exactly_the_assignments_that_make_it_true(tree: object) -> None:
    label = MODE.parse(text_of(tree))
    for active in ASSIGNMENTS:
        assert MODE.admits(active, label) == truth(tree, active)


@given(trees, trees)
@settings(max_examples=400, deadline=None)
def test_equal_meaning_is_equal_form(one: object, other: object) -> None:
    first, second = MODE.parse(text_of(one)), MODE.parse(text_of(other))
    same = all(truth(one, active) == truth(other, active) for active in ASSIGNMENTS)
    assert (first == second) == same
    assert (MODE.format(first) == MODE.format(second)) == same
    assert MODE.parse(MODE.format(first)) == first
    for roles, others in combinations(first, 2):
        assert not roles <= others
        assert not others <= roles


@given(st.lists(trees, min_size=1, max_size=4), trees)
@settings(max_examples=400, deadline=None)
def test_combine_is_conjunction_by_truth_table(many: list[object], one: object) -> None:
    labels = [MODE.parse(text_of(tree)) for tree in many]
    combined = MODE.combine(labels)
    for active in ASSIGNMENTS:
        assert MODE.admits(active, combined) == all(truth(tree, active) for tree in many)
    assert MODE.combine(reversed(labels)) == combined == MODE.combine([combined, *labels])
    assert reduce(lambda x, y: MODE.combine([x, y]), labels) == combined
    assert all(MODE.dominates(combined, label) for label in labels)
    extra = MODE.parse(text_of(one))
    implied = all(truth(one, active) for active in ASSIGNMENTS if MODE.admits(active, combined))
    assert MODE.dominates(combined, extra) == implied


@given(trees, trees, st.frozensets(st.sampled_from(ROLES)))
@settings(max_examples=400, deadline=None)
def test_what_a_site_sees_of_a_label_changes_no_verdict_there_and_names_no_other_role(
    one: object, other: object, site: RoleSet
) -> None:
    first, second = MODE.parse(text_of(one)), MODE.parse(text_of(other))
    seen = MODE.seen_by(site, first)
    assert set(chain.from_iterable(seen)) <= site
    for active in ASSIGNMENTS:
        if active <= site:
            assert MODE.admits(active, seen) == MODE.admits(active, first)
    if seen and MODE.seen_by(site, second):
        assert MODE.combine([seen, MODE.seen_by(site, second)]) == MODE.seen_by(site, MODE.combine([first, second]))


def test_the_minimal_form_is_unique_for_every_monotone_function_of_three_roles() -> None:
    sets = [frozenset(chosen) for size in range(1, 4) for chosen in combinations("abc", size)]
    forms: dict[tuple[bool, ...], RoleExpression] = {}
    for family in chain.from_iterable(combinations(sets, size) for size in range(1, len(sets) + 1)):
        label = MODE.parse(" or ".join("(" + " and ".join(sorted(roles)) + ")" for roles in family))
        meaning = tuple(MODE.admits(active, label) for active in ASSIGNMENTS)
        assert forms.setdefault(meaning, label) == label
    assert len(forms) == 18  # Dedekind's number for three, without the two constants


def test_wide_expressions_are_refused_where_the_model_refuses_them() -> None:
    roles = [f"r{i}" for i in range(16)]
    mode, model = RbacMode(roles), RbacModel(roles)
    clauses = [f"({a} or {b})" for a, b in zip(roles[::2], roles[1::2], strict=True)]
    wide = [" and ".join(clauses[:n]) for n in range(2, 9)]
    wide += [f"({' or '.join(roles[:8])}) and ({' or '.join(roles[8:])})", f"{wide[4]} $", f"({wide[6]}) or r0"]
    refused = 0
    for text in wide:
        try:
            expected: str | int | None = model.canonical(text)
        except Fault as fault:
            expected = fault.offset
        try:
            found: str | int | None = mode.format(mode.parse(text))
        except LabelSyntaxError as error:
            found = error.offset
            refused += 1
        assert found == expected, text
    assert refused >= 3
    with pytest.raises(LatticeError, match="more than 64 alternatives"):
        mode.combine([mode.parse(clause) for clause in clauses])
    with pytest.raises(Fault):
        model.combine(clauses)
