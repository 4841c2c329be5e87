"""Principals: a user logs in as himself at one level, or with some of his roles, never as all at once."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

from security_lattice.errors import Denied
from security_lattice.lattice import Level
from security_lattice.mls import MlsMode
from security_lattice.rbac import RoleSet


@dataclass(frozen=True, slots=True)
class Principal:
    """A user in the standing of one session: `jane.H`, or `bob.doctor,nurse` in the role modes."""

    user: str  # names have no dot, so the first dot ends the user
    standing: str  # canonical text of the level, or of the active roles

    def __str__(self) -> str:
        return f"{self.user}.{self.standing}"


def level_principals(user: str, clearance: Level, mode: MlsMode) -> Iterator[Principal]:
    """One principal for each level that the clearance dominates."""
    return (Principal(user, mode.format(level)) for level in mode.lattice.down_set(clearance))


def role_principals(user: str, assigned: RoleSet) -> Iterator[Principal]:
    """One principal for each non-empty set of assigned roles that a session can activate."""
    for size in range(1, len(assigned) + 1):
        yield from (Principal(user, ",".join(active)) for active in combinations(sorted(assigned), size))


def principal_at(user: str, clearance: Level, wanted: Level, mode: MlsMode) -> Principal:
    """The principal of a user at one level; refused unless his clearance dominates it."""
    if not mode.dominates(clearance, wanted):
        raise Denied(f"`{user}` is not cleared for that level")
    return Principal(user, mode.format(wanted))


def principal_as(user: str, assigned: RoleSet, wanted: RoleSet) -> Principal:
    """The principal of a user with some roles active; refused unless all of them are assigned, or if none is."""
    if not wanted or not wanted <= assigned:
        raise Denied(f"`{user}` cannot activate those roles")
    return Principal(user, ",".join(sorted(wanted)))
