"""OxRBAC: owners, permissions, and the stock exchange scenario step by step."""

import pytest

from security_lattice import (
    Denied,
    Grant,
    Kind,
    Ownership,
    OxrbacMode,
    Permission,
    PolicyError,
    Rights,
    Semantics,
    Session,
    UnknownObject,
)

ROLES = ("ADMIN", "INFO_PROVIDER", "CUSTOMER1", "CUSTOMER2")
JOE = Session("joe", frozenset({"ADMIN"}))
ED = Session("ed", frozenset({"INFO_PROVIDER"}))
AL = Session("al", frozenset({"CUSTOMER1"}))
BOB = Session("bob", frozenset({"CUSTOMER2"}))
VIEW, READ, SUBSCRIBE = Permission.VIEW_OBJECT, Permission.READ_TUPLE, Permission.SUBSCRIBE


def founded() -> Ownership:
    """The system with its customers let into the catalog, and customer 1 allowed to add queries."""
    state = Ownership.founded_by("joe", ROLES)
    for role in ROLES[1:]:
        state = state.grant(JOE, Grant(role, Permission.VIEW_CATALOG, "system"))
    return state.grant(JOE, Grant("CUSTOMER1", Permission.ADD, "system"))


def with_streams() -> Ownership:
    """Joe adds a schema and two streams and opens them to customer 1 and the provider."""
    state = founded().add(JOE, "s", Kind.SCHEMA).add(JOE, "in1", Kind.STREAM).add(JOE, "in2", Kind.STREAM)
    for role in ("CUSTOMER1", "INFO_PROVIDER"):
        for name in ("s", "in1", "in2"):
            state = state.grant(JOE, Grant(role, VIEW, name))
        for name in ("in1", "in2"):
            state = state.grant(JOE, Grant(role, READ, name))
    return state


def test_the_scenario_of_the_stock_exchange() -> None:
    # Part 1: the provider sees the three objects that he was given.
    state = with_streams()
    assert state.catalog(ED) == ["in1", "in2", "s"]
    # Part 2: customer 1 inserts a query over both streams, and owns it and its output.
    assert state.catalog(AL) == ["in1", "in2", "s"]
    state = state.insert_query(AL, "q1", "out1", ["in1", "in2"])
    assert state.catalog(AL) == ["al.out1", "al.q1", "in1", "in2", "s"]
    state.require(AL, SUBSCRIBE, "al.out1")
    mode = OxrbacMode(["in1", "in2"])
    results = [mode.parse(text) for text in ("in1", "in2", "in1,in2")]
    assert [mode.bits(label) for label in results if mode.releases(state.rights(AL), label)] == [1, 2, 3]
    # Part 3: customer 2 sees nothing, until Joe gives him in1 and Al his output.
    assert state.catalog(BOB) == []
    with pytest.raises(UnknownObject):
        state.require(BOB, SUBSCRIBE, "al.out1")
    for grant in (Grant("CUSTOMER2", VIEW, "s"), Grant("CUSTOMER2", VIEW, "in1"), Grant("CUSTOMER2", READ, "in1")):
        state = state.grant(JOE, grant)
    for permission in (VIEW, SUBSCRIBE):
        state = state.grant(AL, Grant("CUSTOMER2", permission, "al.out1"))
    assert state.catalog(BOB) == ["al.out1", "in1", "s"]
    state.require(BOB, SUBSCRIBE, "al.out1")
    assert [mode.bits(label) for label in results if mode.releases(state.rights(BOB), label)] == [1]
    # A revocation takes effect at the next release.
    state = state.revoke(JOE, Grant("CUSTOMER2", READ, "in1"))
    assert not any(mode.releases(state.rights(BOB), label) for label in results)


@pytest.mark.parametrize(("in1", "in2", "out"), [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 1)])
def test_the_strong_semantics_is_a_logical_and(in1: int, in2: int, out: int) -> None:
    readable = frozenset(name for name, allowed in (("in1", in1), ("in2", in2)) if allowed)
    strong, weak = OxrbacMode(["in1", "in2"]), OxrbacMode(["in1", "in2"], Semantics.UNSAFE_WEAK)
    label = strong.parse("in1,in2")
    assert strong.releases(Rights(readable), label) == bool(out)
    assert weak.releases(Rights(readable), label) == bool(in1 or in2)


def test_an_empty_label_is_released_to_nobody() -> None:
    everything = Rights(frozenset({"in1"}), {"in1": 2})
    for semantics in Semantics:
        assert not OxrbacMode(["in1"], semantics).releases(everything, frozenset())


def test_an_aggregate_read_right_admits_aggregates_over_enough_tuples_of_each_source() -> None:
    mode = OxrbacMode(["in1", "in2"])
    state = with_streams().grant_aggregate(JOE, "CUSTOMER2", "in2", 20).grant(JOE, Grant("CUSTOMER2", READ, "in1"))
    for name in ("in1", "in2"):
        state = state.grant(JOE, Grant("CUSTOMER2", VIEW, name))
    rights = state.rights(BOB)
    plain1, plain2, both = mode.parse("in1"), mode.parse("in2"), mode.parse("in1,in2")
    assert not mode.releases(rights, plain2)
    assert not mode.releases(rights, mode.aggregate([plain2] * 19, {"in2": 19}))
    assert mode.releases(rights, mode.aggregate([plain2] * 20, {"in2": 20}))
    # Nineteen tuples of a source he may read do not hide the one of the source he may not.
    assert not mode.releases(rights, mode.aggregate([plain1] * 19 + [plain2], {"in1": 19, "in2": 1}))
    # Nor does a join that repeats the one tuple in twenty rows.
    assert not mode.releases(rights, mode.aggregate([both] * 20, {"in1": 20, "in2": 1}))
    # Aggregating small aggregates again raises nothing; joined with a plain tuple, an aggregate is plain again.
    assert not mode.releases(rights, mode.aggregate([mode.parse("in2/2")] * 20, {"in2": 40}))
    assert not mode.releases(rights, mode.combine([mode.parse("in2/20"), plain2]))
    # What he does not see he does not read, not even summed up.
    assert state.revoke(JOE, Grant("CUSTOMER2", VIEW, "in2")).rights(BOB).aggregates == {}
    assert not mode.releases(state.revoke_aggregate(JOE, "CUSTOMER2", "in2").rights(BOB), mode.parse("in2/20"))


def test_an_invisible_object_and_an_unknown_one_give_the_same_error() -> None:
    for state in (with_streams(), founded()):  # once `in1` exists, once it never was
        with pytest.raises(UnknownObject, match=r"^unknown object `in1`$"):
            state.require(BOB, READ, "in1")
        with pytest.raises(UnknownObject, match=r"^unknown object `in1`$"):
            state.grant(BOB, Grant("CUSTOMER2", READ, "in1"))
        with pytest.raises(UnknownObject, match=r"^unknown object `in1`$"):
            state.remove(BOB, "in1")


def test_whether_a_name_is_taken_tells_nothing_about_others() -> None:
    state = with_streams().grant(JOE, Grant("CUSTOMER2", Permission.ADD, "system"))
    state = state.insert_query(AL, "q1", "out1", ["in1"]).grant(JOE, Grant("CUSTOMER2", VIEW, "in1"))
    state = state.insert_query(BOB, "q1", "out1", ["in1"])
    assert state.catalog(BOB) == ["bob.out1", "bob.q1", "in1"]
    with pytest.raises(PolicyError, match=r"the name `bob.q1` is taken"):
        state.insert_query(BOB, "q1", "out2", ["in1"])


@pytest.mark.parametrize(
    ("session", "grant", "error", "message"),
    [
        (AL, Grant("CUSTOMER2", READ, "in1"), Denied, "CHANGE PERM on `in1` is missing"),
        (JOE, Grant("CUSTOMER2", SUBSCRIBE, "s"), PolicyError, "SUBSCRIBE has no meaning for a schema"),
        (JOE, Grant("NOBODY", READ, "in1"), PolicyError, "unknown role `NOBODY`"),
        (BOB, Grant("CUSTOMER2", READ, "in1"), UnknownObject, "unknown object `in1`"),
    ],
)
def test_a_grant_is_refused_and_says_what_the_asker_may_know(
    session: Session, grant: Grant, error: type[PolicyError], message: str
) -> None:
    for change in (with_streams().grant, with_streams().revoke):
        with pytest.raises(error, match=message):
            change(session, grant)


def test_the_right_to_change_permissions_is_the_owners_to_give() -> None:
    state = with_streams().grant(JOE, Grant("CUSTOMER1", Permission.CHANGE_PERM, "in1"))
    state = state.grant(AL, Grant("CUSTOMER2", READ, "in1"))
    with pytest.raises(Denied, match="the owner's to give and take"):
        state.grant(AL, Grant("CUSTOMER2", Permission.CHANGE_PERM, "in1"))


def test_a_query_needs_the_right_to_add_and_to_see_each_input() -> None:
    state = with_streams()
    with pytest.raises(Denied, match="ADD on `system` is missing"):
        state.insert_query(BOB, "q", "out", [])
    state = state.grant(JOE, Grant("CUSTOMER2", Permission.ADD, "system"))
    with pytest.raises(UnknownObject):
        state.insert_query(BOB, "q", "out", ["in1"])
    with pytest.raises(PolicyError, match="`s` is no stream"):
        state.insert_query(AL, "q", "out", ["s"])
    with pytest.raises(PolicyError, match="two names"):
        state.insert_query(AL, "q", "q", ["in1"])


def test_a_removed_object_leaves_no_grants_to_its_namesake() -> None:
    state = with_streams().grant_aggregate(JOE, "CUSTOMER2", "in1", 2).remove(JOE, "in1").add(JOE, "in1", Kind.STREAM)
    assert "in1" not in state.rights(AL).tuples
    assert state.rights(BOB).aggregates == {}
    with pytest.raises(Denied, match="its owner alone"):
        state.remove(AL, "in2")
    with pytest.raises(Denied, match="the system by nobody"):
        state.remove(JOE, "system")


def test_changes_leave_the_state_before_them_as_it_was() -> None:
    before = with_streams()
    before.revoke(JOE, Grant("CUSTOMER1", READ, "in1"))
    before.remove(JOE, "in1")
    assert before == with_streams()


@pytest.mark.parametrize("user", ["", "a b", "a.b", "a\nb"])
def test_a_user_has_a_name(user: str) -> None:
    with pytest.raises(PolicyError, match="cannot name a user"):
        Session(user, frozenset())
