"""OxRBAC's objects, owners, roles and permissions as a pure state machine.

The state is a value; each change returns a new one or raises. Rules, tagged O1.. at their checks:

O1  A session holds a permission on an object if it owns the object, or one of its active roles was granted it.
O2  A session sees an object if it holds VIEW CATALOG on the system and VIEW OBJECT on the object.
O3  What a session does not see does not exist for it: the same error as for an unknown name.
O4  Permissions change by whoever holds CHANGE PERM on the object; CHANGE PERM itself only by the owner.
O5  A permission can only be granted on a kind of object it has a meaning for.
O6  Adding needs ADD on the system; a query needs VIEW OBJECT on each input, and is owned with its output.
O7  Removing is the owner's; grants on the object go with it, so that a later namesake inherits nothing.
O8  Names are the owner's: what anyone but the administrator adds is called `user.name`, so that whether a
    name is taken tells nothing about objects one does not see.
O9  The aggregate-read right is granted on streams like READ TUPLE, with a minimum of at least 2 tuples.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from security_lattice.errors import Denied, PolicyError, UnknownObject
from security_lattice.oxrbac import MOST_TUPLES, Rights
from security_lattice.text import is_name

SYSTEM = "system"


class Kind(Enum):
    """The kinds of objects."""

    SYSTEM = "system"
    SCHEMA = "schema"
    STREAM = "stream"
    QUERY = "query"
    OUTPUT = "output"


class Permission(Enum):
    """The eight permissions."""

    VIEW_CATALOG = "VIEW CATALOG"
    VIEW_OBJECT = "VIEW OBJECT"
    ADD = "ADD"
    SET_QUERY_STATUS = "SET QUERY STATUS"
    SUBSCRIBE = "SUBSCRIBE"
    READ_TUPLE = "READ TUPLE"
    CHANGE_PERM = "CHANGE PERM"
    CHANGE_SYSTEM = "CHANGE SYSTEM"


_EVERY_KIND = {Permission.VIEW_OBJECT, Permission.CHANGE_PERM}
MEANINGFUL: Mapping[Kind, frozenset[Permission]] = {
    Kind.SYSTEM: frozenset(_EVERY_KIND | {Permission.VIEW_CATALOG, Permission.ADD, Permission.CHANGE_SYSTEM}),
    Kind.SCHEMA: frozenset(_EVERY_KIND),
    Kind.STREAM: frozenset(_EVERY_KIND | {Permission.READ_TUPLE}),
    Kind.QUERY: frozenset(_EVERY_KIND | {Permission.SET_QUERY_STATUS}),
    Kind.OUTPUT: frozenset(_EVERY_KIND | {Permission.SUBSCRIBE}),
}


@dataclass(frozen=True, slots=True)
class Object:
    """Something with an owner."""

    kind: Kind
    owner: str


@dataclass(frozen=True, slots=True)
class Grant:
    """A role's permission on an object."""

    role: str
    permission: Permission
    object: str


@dataclass(frozen=True, slots=True)
class Session:
    """A user with the roles he has activated, all of them assigned to him."""

    user: str
    roles: frozenset[str]

    def __post_init__(self) -> None:
        if not is_name(self.user):
            raise PolicyError(f"{self.user!r} cannot name a user")


@dataclass(frozen=True)
class Ownership:
    """Who owns what and which role may do what; begin with `Ownership.founded_by`."""

    roles: frozenset[str]
    objects: Mapping[str, Object]
    grants: frozenset[Grant] = frozenset()
    aggregates: Mapping[tuple[str, str], int] = field(default_factory=dict)  # (role, stream) -> minimum

    @classmethod
    def founded_by(cls, administrator: str, roles: Iterable[str]) -> "Ownership":
        """The first state: one object, the system, owned by the administrator."""
        return cls(frozenset(roles), {SYSTEM: Object(Kind.SYSTEM, administrator)})

    # Who may do what

    def holds(self, session: Session, permission: Permission, name: str) -> bool:
        """O1, O5: whether the session holds a permission that has a meaning for the object."""
        found = self.objects.get(name)
        if found is None or permission not in MEANINGFUL[found.kind]:
            return False
        owned = found.owner == session.user
        return owned or any(Grant(role, permission, name) in self.grants for role in session.roles)

    def sees(self, session: Session, name: str) -> bool:
        """O2: whether the object exists for this session."""
        catalog = self.holds(session, Permission.VIEW_CATALOG, SYSTEM)
        return catalog and self.holds(session, Permission.VIEW_OBJECT, name)

    def catalog(self, session: Session) -> list[str]:
        """Everything the session sees, in alphabetical order."""
        return sorted(name for name in self.objects if self.sees(session, name))

    def require(self, session: Session, permission: Permission, name: str) -> Object:
        """The object, if the session sees it and holds the permission; else the error that O3 allows."""
        if not self.sees(session, name):
            raise UnknownObject(name)  # O3
        if not self.holds(session, permission, name):
            raise Denied(f"{permission.value} on `{name}` is missing")
        return self.objects[name]

    def rights(self, session: Session) -> Rights:
        """What the session may read, for the release check; of a stream that it does not see, nothing (O3)."""
        seen = [name for name in self.objects if self.sees(session, name)]
        aggregates: dict[str, int] = {}
        for (role, stream), least in self.aggregates.items():
            if role in session.roles and stream in seen:
                aggregates[stream] = min(least, aggregates.get(stream, least))
        return Rights(frozenset(n for n in seen if self.holds(session, Permission.READ_TUPLE, n)), aggregates)

    # Changes

    def add(self, session: Session, name: str, kind: Kind) -> "Ownership":
        """O6: a schema or stream of the session's own."""
        self._require_add(session)
        if kind not in (Kind.SCHEMA, Kind.STREAM):
            raise PolicyError("only schemas and streams are added alone; a query brings its output")
        return self._with_objects(session, {name: kind})

    def insert_query(self, session: Session, query: str, output: str, inputs: Iterable[str]) -> "Ownership":
        """O6: a query over visible inputs, with its output, both the session's own."""
        self._require_add(session)
        for name in inputs:
            found = self.require(session, Permission.VIEW_OBJECT, name)
            if found.kind not in (Kind.STREAM, Kind.OUTPUT):
                raise PolicyError(f"`{name}` is no stream")
        if query == output:
            raise PolicyError("a query and its output need two names")
        return self._with_objects(session, {query: Kind.QUERY, output: Kind.OUTPUT})

    def remove(self, session: Session, name: str) -> "Ownership":
        """O7: remove an object of the session's own, and every grant on it."""
        found = self.require(session, Permission.VIEW_OBJECT, name)
        if found.owner != session.user or found.kind is Kind.SYSTEM:
            raise Denied(f"`{name}` can be removed by its owner alone, and the system by nobody")
        return replace(
            self,
            objects={other: value for other, value in self.objects.items() if other != name},
            grants=frozenset(grant for grant in self.grants if grant.object != name),
            aggregates={key: least for key, least in self.aggregates.items() if key[1] != name},
        )

    def grant(self, session: Session, grant: Grant) -> "Ownership":
        """O4: give a role a permission."""
        self._require_change(session, grant)
        return replace(self, grants=self.grants | {grant})

    def revoke(self, session: Session, grant: Grant) -> "Ownership":
        """O4: take a permission back from a role; what the owner holds by owning cannot be taken."""
        self._require_change(session, grant)
        return replace(self, grants=self.grants - {grant})

    def grant_aggregate(self, session: Session, role: str, stream: str, least: int) -> "Ownership":
        """O9: let a role read sums, counts and averages over at least `least` tuples of a stream."""
        self._require_change(session, Grant(role, Permission.READ_TUPLE, stream))
        if not 2 <= least <= MOST_TUPLES:
            raise PolicyError(f"an aggregate-read right needs a minimum from 2 to {MOST_TUPLES} tuples")
        return replace(self, aggregates={**self.aggregates, (role, stream): least})

    def revoke_aggregate(self, session: Session, role: str, stream: str) -> "Ownership":
        """O9: take the aggregate-read right back."""
        self._require_change(session, Grant(role, Permission.READ_TUPLE, stream))
        return replace(self, aggregates={k: least for k, least in self.aggregates.items() if k != (role, stream)})

    def _require_add(self, session: Session) -> None:
        if not self.holds(session, Permission.ADD, SYSTEM):  # O6
            raise Denied(f"{Permission.ADD.value} on `{SYSTEM}` is missing")

    def _require_change(self, session: Session, grant: Grant) -> None:
        found = self.require(session, Permission.CHANGE_PERM, grant.object)  # O4
        if grant.permission is Permission.CHANGE_PERM and found.owner != session.user:
            raise Denied(f"{Permission.CHANGE_PERM.value} on `{grant.object}` is the owner's to give and take")
        if grant.permission not in MEANINGFUL[found.kind]:  # O5
            raise PolicyError(f"{grant.permission.value} has no meaning for a {found.kind.value}")
        if grant.role not in self.roles:
            raise PolicyError(f"unknown role `{grant.role}`")

    def _with_objects(self, session: Session, added: Mapping[str, Kind]) -> "Ownership":
        prefix = "" if session.user == self.objects[SYSTEM].owner else f"{session.user}."  # O8
        for name in added:
            if not is_name(name):
                raise PolicyError(f"{name!r} cannot name an object")
            if prefix + name in self.objects:
                raise PolicyError(f"the name `{prefix + name}` is taken")
        objects = {prefix + name: Object(kind, session.user) for name, kind in added.items()}
        return replace(self, objects={**self.objects, **objects})
