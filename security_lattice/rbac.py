"""RBAC mode: a label is a monotone role expression, kept as a minimal antichain of role sets.

The antichain {{a, b}, {c}} means "(a and b) or c": a subject satisfies it if his roles include one
of the sets. No set includes another, so equal meaning is equal form.
"""

from collections.abc import Iterable
from functools import reduce
from itertools import product

from security_lattice.errors import LabelSyntaxError, LabelTooLarge, LatticeError
from security_lattice.mode import LabelMode
from security_lattice.text import MOST_CHARACTERS, Reader

RoleSet = frozenset[str]
RoleExpression = frozenset[RoleSet]

MOST_ROLE_SETS = 64  # of any minimal form: n clauses "(a or b)" in conjunction would give 2 ** n
MOST_DEPTH = 16  # of parentheses, so that no text can exhaust the stack


class RbacMode(LabelMode[RoleExpression, RoleSet]):
    """Labels such as `(doctor and icu) or nurse` over declared roles."""

    def __init__(self, roles: Iterable[str]) -> None:
        self.roles = frozenset(roles)

    def parse(self, text: str) -> RoleExpression:
        """Read an expression; `and` and `or` mix only with parentheses."""
        reader = Reader(text)
        label = self._expression(reader, depth=0)
        reader.end()
        if len(self.format(label)) > MOST_CHARACTERS:
            raise LabelSyntaxError(f"longer than {MOST_CHARACTERS:,} characters in canonical form", 0)
        return label

    def _expression(self, reader: Reader, depth: int) -> RoleExpression:
        label, operator = self._term(reader, depth), ""
        while reader.kind == "word":
            word, offset = reader.value, reader.offset
            if operator and word != operator:
                raise LabelSyntaxError(f"`{operator}` and `{word}` need parentheses between them", offset)
            operator = word
            reader.take(word)
            right = self._term(reader, depth)
            try:
                label = _conjunction(label, right) if word == "and" else _minimal(label | right)
            except LabelTooLarge as error:
                raise LabelSyntaxError(str(error), offset) from None
        return label

    def _term(self, reader: Reader, depth: int) -> RoleExpression:
        offset = reader.offset
        if not reader.take("("):
            return frozenset({frozenset({reader.name("role", self.roles)})})
        if depth == MOST_DEPTH:
            raise LabelSyntaxError(f"more than {MOST_DEPTH} parentheses deep", offset)
        label = self._expression(reader, depth + 1)
        if not reader.take(")"):
            raise reader.unexpected("`)`")
        return label

    def format(self, label: RoleExpression) -> str:
        """Write role sets in alphabetical order of their sorted roles."""
        ordered = sorted(sorted(roles) for roles in label)
        if len(ordered) == 1:
            return " and ".join(ordered[0])
        return " or ".join(roles[0] if len(roles) == 1 else f"({' and '.join(roles)})" for roles in ordered)

    def combine(self, labels: Iterable[RoleExpression]) -> RoleExpression:
        """Conjunction with absorption (the Redundancy Law)."""
        # Sorted first, so that whether a limit is met does not hang on the order of arrival.
        distinct = sorted(set(labels), key=self.format)
        if not distinct:
            raise LatticeError("nothing to combine: what derives from no tuple has no label")
        label = reduce(_conjunction, distinct)
        if len(self.format(label)) > MOST_CHARACTERS:
            raise LabelTooLarge(f"longer than {MOST_CHARACTERS:,} characters in canonical form")
        return label

    def dominates(self, high: RoleExpression, low: RoleExpression) -> bool:
        """Whether `high` implies `low`: each way to satisfy it satisfies `low` too."""
        return all(self.admits(roles, low) for roles in high)

    def admits(self, site: RoleSet, label: RoleExpression) -> bool:
        """Whether the roles satisfy the expression; an empty expression is satisfied by nobody."""
        return any(roles <= site for roles in label)

    def seen_by(self, site: RoleSet, label: RoleExpression) -> RoleExpression:
        """Only the role sets that the site's roles include: nobody at the site can satisfy another."""
        return frozenset(roles for roles in label if roles <= site)


def _conjunction(a: RoleExpression, b: RoleExpression) -> RoleExpression:
    return _minimal(left | right for left, right in product(a, b))


def _minimal(role_sets: Iterable[RoleSet]) -> RoleExpression:
    """Absorption: drop each set that includes another one."""
    kept: list[RoleSet] = []
    # By size: a set can only be absorbed by a smaller one, which then stands in `kept` already.
    for roles in sorted(set(role_sets), key=len):
        if not any(smaller <= roles for smaller in kept):
            kept.append(roles)
            if len(kept) > MOST_ROLE_SETS:
                raise LabelTooLarge(f"more than {MOST_ROLE_SETS} alternatives in minimal form")
    return frozenset(kept)
