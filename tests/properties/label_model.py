"""An independent model of the labels, written from SPECIFICATION.md. It must not import the package `security_lattice`.

It is meant to be plain rather than clever: a text is cut into a whole list of tokens by a loop over its characters;
the order of levels is a set of pairs, searched for bounds; a role expression is the table of its truth values.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

_TEXT_LIMIT = 4096
_TOKEN_LIMIT = 64
_ALTERNATIVES_LIMIT = 64
_DEPTH_LIMIT = 16
_NUMBER_LIMIT = 1_000_000_000
# A table of 2**12 truth values is still cheap; every further role doubles it.
_TABLE_ROLES = 12
# Seven roles have at most 35 sets of which none includes another (Sperner), so no part of theirs can be refused.
_SAFE_ROLES = 7
_CACHE_LIMIT = 50_000

_LETTERS = frozenset(string.ascii_letters)
_DIGITS = frozenset(string.digits)
_NAME_TAIL = _LETTERS | _DIGITS | {"_", "-"}
_MARKS = frozenset(":,/()")

# (kind, text, offset). Kinds: "name", "number", "and", "or", the marks themselves, "end", and "bad" for what is wrong
# wherever it stands. Nothing follows "end" or "bad".
Token = tuple[str, str, int]
# The sets of the minimal form, each sorted, in canonical order.
Sets = tuple[tuple[str, ...], ...]
IndexSets = tuple[tuple[int, ...], ...]
V = TypeVar("V")


class Fault(Exception):
    """A text that is refused, with the offset of the fault; or a combination that is refused, without an offset."""

    def __init__(self, offset: int | None, why: str) -> None:
        super().__init__(f"{why} (offset {offset})")
        self.offset = offset


def _tokens(text: str, limit: int = _TEXT_LIMIT) -> list[Token]:
    """Cut a text into tokens. A lexical fault becomes a last token "bad", as faults before it come first."""
    length = len(text)
    if length > limit:
        raise Fault(limit, "text too long")
    found: list[Token] = []
    at = 0
    while at < length:
        char = text[at]
        start = at
        at += 1
        if char == " ":
            continue
        if char in _MARKS:
            found.append((char, char, start))
            continue
        if char in _LETTERS:
            kind, tail = "name", _NAME_TAIL
        elif char in _DIGITS:
            kind, tail = "number", _DIGITS
        else:
            found.append(("bad", char, start))
            return found
        while at < length and text[at] in tail:
            at += 1
        word = text[start:at]
        if len(word) > _TOKEN_LIMIT:
            found.append(("bad", word, start))
            return found
        found.append((word if word in ("and", "or") else kind, word, start))
    found.append(("end", "", length))
    return found


def _ordering(up: bool, down: bool) -> str:
    """Name the outcome of a comparison: `up` if the first dominates the second, `down` if the second the first."""
    if up:
        return "equal" if down else "dominates"
    return "dominated" if down else "incomparable"


class MlsModel:
    """Labels of the mode mls: a name of a partial order and a set of compartments."""

    def __init__(self, below: dict[str, list[str]], compartments: list[str]) -> None:
        self._names = set(below)
        for lower in below.values():
            self._names.update(lower)
        self._compartments = set(compartments)
        # All pairs (low, high) with low <= high.
        self._pairs: set[tuple[str, str]] = set()
        for high in self._names:
            waiting = [high]
            while waiting:
                low = waiting.pop()
                if (low, high) not in self._pairs:
                    self._pairs.add((low, high))
                    waiting.extend(below.get(low, ()))
        (self._least,) = (n for n in self._names if all((n, m) in self._pairs for m in self._names))
        self._joins: dict[tuple[str, str], str] = {}

    def canonical(self, text: str) -> str:
        """The canonical text of a label."""
        return self._write(*self._read(text))

    def combine(self, texts: list[str]) -> str:
        """The least upper bound of the labels."""
        labels = [self._read(text) for text in texts]
        name = self._least
        compartments: set[str] = set()
        for other, more in labels:
            name = self._join(name, other)
            compartments |= more
        return self._write(name, compartments)

    def compare(self, a: str, b: str) -> str:
        """How the label `a` stands to the label `b`."""
        first, second = self._read(a), self._read(b)
        return _ordering(self._at_most(second, first), self._at_most(first, second))

    def admits(self, subject: str, text: str) -> bool:
        """Whether a subject of this level may be shown the label."""
        level = self._read(subject)
        return self._at_most(self._read(text), level)

    def _read(self, text: str) -> tuple[str, set[str]]:
        tokens = _tokens(text)
        kind, name, at = tokens[0]
        if kind != "name" or name not in self._names:
            raise Fault(at, "expected a level")
        chosen: set[str] = set()
        place = 1
        mark = ":"
        while tokens[place][0] == mark:
            kind, compartment, at = tokens[place + 1]
            if kind != "name" or compartment not in self._compartments:
                raise Fault(at, "expected a compartment")
            if compartment in chosen:
                raise Fault(at, "compartment stands twice")
            chosen.add(compartment)
            place += 2
            mark = ","
        if tokens[place][0] != "end":
            raise Fault(tokens[place][2], "expected the end")
        return name, chosen

    def _write(self, name: str, compartments: set[str]) -> str:
        return name + ":" + ",".join(sorted(compartments)) if compartments else name

    def _at_most(self, low: tuple[str, set[str]], high: tuple[str, set[str]]) -> bool:
        return (low[0], high[0]) in self._pairs and all(c in high[1] for c in low[1])

    def _join(self, a: str, b: str) -> str:
        """The one name above both that is below every other name above both."""
        known = self._joins.get((a, b))
        if known is None:
            above = [n for n in self._names if (a, n) in self._pairs and (b, n) in self._pairs]
            (known,) = (n for n in above if all((n, m) in self._pairs for m in above))
            self._joins[a, b] = known
        return known


class _Algebra(Generic[V]):
    """How the meaning of an expression over the roles 0, 1, ... is held while its parts are joined."""

    def meaning(self, sets: Iterable[Iterable[int]]) -> V:
        """The meaning of alternatives, each a set of roles needed together, given in minimal form."""
        raise NotImplementedError

    def join(self, operator: str, left: V, right: V) -> V | None:
        """The meaning of `left operator right`, or None if it has too many alternatives."""
        raise NotImplementedError

    def minimal(self, value: V) -> IndexSets:
        """The minimal sets, sorted."""
        raise NotImplementedError


def _members(mask: int) -> tuple[int, ...]:
    """The numbers of the bits that are set."""
    members = []
    while mask:
        lowest = mask & -mask
        members.append(lowest.bit_length() - 1)
        mask ^= lowest
    return tuple(members)


class _Tables(_Algebra[int]):
    """Truth tables: bit p of the meaning says whether the role set with the bits of p satisfies the expression."""

    def __init__(self, count: int) -> None:
        self._count = count
        size = 1 << count
        # For each role, the table of the expression that is just this role.
        self._role = [sum(1 << p for p in range(size) if p >> i & 1) for i in range(count)]
        self._known: dict[int, IndexSets] = {}

    def meaning(self, sets: Iterable[Iterable[int]]) -> int:
        table = 0
        for members in sets:
            part = (1 << (1 << self._count)) - 1
            for i in members:
                part &= self._role[i]
            table |= part
        return table

    def join(self, operator: str, left: int, right: int) -> int | None:
        table = left & right if operator == "and" else left | right
        if self._count > _SAFE_ROLES and self._least_points(table).bit_count() > _ALTERNATIVES_LIMIT:
            return None
        return table

    def minimal(self, value: int) -> IndexSets:
        known = self._known.get(value)
        if known is None:
            known = tuple(sorted(_members(p) for p in _members(self._least_points(value))))
            if len(self._known) >= _CACHE_LIMIT:
                self._known.clear()
            self._known[value] = known
        return known

    def _least_points(self, table: int) -> int:
        """The satisfying sets that satisfy no more as soon as any one role is taken away."""
        spare = 0
        for i, role in enumerate(self._role):
            # Adding role i to a set adds 2**i to its number, so this shift gives the sets that can do without i.
            spare |= (table & ~role) << (1 << i)
        return table & ~spare


class _Shrinking(_Algebra[frozenset[int]]):
    """For more roles than a table can hold: the minimal sets as bit masks.

    Every minimal set of a joined part is among the obvious candidates, so each candidate is made smaller, role by
    role, as long as it still satisfies the part. What is left is minimal, and a minimal candidate is left as it was.
    """

    def meaning(self, sets: Iterable[Iterable[int]]) -> frozenset[int]:
        return frozenset(sum(1 << i for i in members) for members in sets)

    def join(self, operator: str, left: frozenset[int], right: frozenset[int]) -> frozenset[int] | None:
        both = operator == "and"
        if both:
            candidates = {a | b for a in left for b in right}
            needed = self._common(left) | self._common(right)
        else:
            candidates = set(left | right)
            needed = self._common(left) & self._common(right)
        found: set[int] = set()
        for candidate in candidates:
            kept = candidate
            # A role that every alternative needs can never be dropped; not trying saves most of the time.
            untried = candidate & ~needed
            while untried:
                role = untried & -untried
                untried ^= role
                fewer = kept ^ role
                holds = self._satisfies(fewer, left)
                if holds == both:
                    holds = self._satisfies(fewer, right)
                if holds:
                    kept = fewer
            found.add(kept)
            if len(found) > _ALTERNATIVES_LIMIT:
                return None
        return frozenset(found)

    def minimal(self, value: frozenset[int]) -> IndexSets:
        return tuple(sorted(_members(mask) for mask in value))

    @staticmethod
    def _common(masks: frozenset[int]) -> int:
        common = -1
        for mask in masks:
            common &= mask
        return common

    @staticmethod
    def _satisfies(chosen: int, masks: frozenset[int]) -> bool:
        missing = ~chosen
        return any(not mask & missing for mask in masks)


def _join_or_fault(algebra: _Algebra[V], left: V | None, operator: str, at: int, right: V) -> V:
    """Join a term to what stands before it in its part; the first term of a part has nothing before it."""
    if left is None:
        return right
    joined = algebra.join(operator, left, right)
    if joined is None:
        raise Fault(at, "too many alternatives")
    return joined


def _read_expression(tokens: Sequence[Token], number: dict[str, int], algebra: _Algebra[V]) -> IndexSets:
    """Read a role expression to its minimal sets; `number` holds the declared roles that occur in it."""
    # One entry for each open parenthesis: what stood before it in the part around it.
    outer: list[tuple[V | None, str, int]] = []
    left: V | None = None
    operator, operator_at = "", 0
    term_due = True
    for kind, name, at in tokens:
        if term_due:
            if kind == "(":
                if len(outer) == _DEPTH_LIMIT:
                    raise Fault(at, "too many open parentheses")
                outer.append((left, operator, operator_at))
                left, operator, operator_at = None, "", 0
            elif kind == "name" and name in number:
                left = _join_or_fault(algebra, left, operator, operator_at, algebra.meaning([[number[name]]]))
                term_due = False
            else:
                raise Fault(at, "expected a role or (")
        elif kind == "and" or kind == "or":
            if operator and operator != kind:
                raise Fault(at, "and with or needs parentheses")
            operator, operator_at = kind, at
            term_due = True
        elif kind == ")" and outer and left is not None:
            inner = left
            left, operator, operator_at = outer.pop()
            left = _join_or_fault(algebra, left, operator, operator_at, inner)
        elif kind == "end" and not outer and left is not None:
            return algebra.minimal(left)
        else:
            raise Fault(at, "expected an operator, ) or the end")
    raise AssertionError("the last token is always refused or ends the text")


class RbacModel:
    """Labels of the mode rbac: role expressions."""

    def __init__(self, roles: list[str]) -> None:
        self._roles = set(roles)
        self._tables: dict[int, _Tables] = {}
        self._shrinking = _Shrinking()
        self._labels: dict[str, Sets] = {}

    def canonical(self, text: str) -> str:
        """The canonical text of a label."""
        return self._write(self._read(text))

    def combine(self, texts: list[str]) -> str:
        """The conjunction of the labels, joined in the order of their canonical texts."""
        labels = {self._write(sets): sets for sets in [self._read(text) for text in texts]}
        if not labels:
            raise Fault(None, "nothing to combine")
        roles = sorted({role for sets in labels.values() for members in sets for role in members})
        ordered = [labels[text] for text in sorted(labels)]
        if len(roles) <= _TABLE_ROLES:
            sets = self._conjunction(ordered, roles, self._table(len(roles)))
        else:
            sets = self._conjunction(ordered, roles, self._shrinking)
        text = self._write(sets)
        if len(text) > _TEXT_LIMIT:
            raise Fault(None, "canonical text of the combination too long")
        return text

    def compare(self, a: str, b: str) -> str:
        """How the label `a` stands to the label `b`."""
        first, second = self._read(a), self._read(b)
        return _ordering(self._dominates(first, second), self._dominates(second, first))

    def admits(self, subject: set[str], text: str) -> bool:
        """Whether a subject with these roles may be shown the label."""
        return any(subject.issuperset(members) for members in self._read(text))

    def seen_by(self, subject: set[str], text: str) -> str | None:
        """The label as seen by a site with these roles, or None if no set is left."""
        left = tuple(members for members in self._read(text) if subject.issuperset(members))
        return self._write(left) if left else None

    def _table(self, count: int) -> _Tables:
        if count not in self._tables:
            self._tables[count] = _Tables(count)
        return self._tables[count]

    def _read(self, text: str) -> Sets:
        known = self._labels.get(text)
        if known is not None:
            return known
        tokens = _tokens(text)
        # Numbered in sorted order, so that sorting the numbers sorts the roles.
        roles = sorted({name for kind, name, _ in tokens if kind == "name" and name in self._roles})
        number = {role: i for i, role in enumerate(roles)}
        if len(roles) <= _TABLE_ROLES:
            minimal = _read_expression(tokens, number, self._table(len(roles)))
        else:
            minimal = _read_expression(tokens, number, self._shrinking)
        sets = self._named(minimal, roles)
        if len(self._write(sets)) > _TEXT_LIMIT:
            raise Fault(0, "canonical text too long")
        if len(self._labels) >= _CACHE_LIMIT:
            self._labels.clear()
        self._labels[text] = sets
        return sets

    def _conjunction(self, labels: list[Sets], roles: list[str], algebra: _Algebra[V]) -> Sets:
        number = {role: i for i, role in enumerate(roles)}
        meanings = [algebra.meaning([[number[role] for role in members] for members in sets]) for sets in labels]
        sofar = meanings[0]
        for meaning in meanings[1:]:
            joined = algebra.join("and", sofar, meaning)
            if joined is None:
                raise Fault(None, "too many alternatives in the combination")
            sofar = joined
        return self._named(algebra.minimal(sofar), roles)

    @staticmethod
    def _named(minimal: IndexSets, roles: list[str]) -> Sets:
        return tuple(tuple([roles[i] for i in members]) for members in minimal)

    @staticmethod
    def _write(sets: Sets) -> str:
        if len(sets) == 1:
            return " and ".join(sets[0])
        return " or ".join("(" + " and ".join(s) + ")" if len(s) > 1 else s[0] for s in sets)

    @staticmethod
    def _dominates(high: Sets, low: Sets) -> bool:
        """Whether every role set that satisfies `high` satisfies `low`; the minimal ones of `high` decide."""
        return all(any(set(members).issuperset(other) for other in low) for members in high)


class OxrbacModel:
    """Labels of the mode oxrbac: streams, each with the least number of its tuples behind any value."""

    def __init__(self, streams: list[str], weak: bool) -> None:
        self._streams = list(streams)
        self._declared = set(streams)
        self._weak = weak
        self._limit = max(_TEXT_LIMIT, sum(len(f"{stream}/{_NUMBER_LIMIT},") for stream in streams))

    def canonical(self, text: str) -> str:
        """The canonical text of a label."""
        return self._write(self._read(text))

    def combine(self, texts: list[str]) -> str:
        """All streams of the labels, each with its least number."""
        return self._write(self._union([self._read(text) for text in texts]))

    def aggregate(self, texts: list[str], distinct: dict[str, int]) -> str:
        """The label of an aggregate over rows with these labels, out of so many distinct tuples of each stream."""
        raised = self._union([self._read(text) for text in texts])
        for stream, number in raised.items():
            if number == 1 and stream in distinct:
                raised[stream] = min(max(distinct[stream], 1), _NUMBER_LIMIT)
        return self._write(raised)

    def compare(self, a: str, b: str) -> str:
        """How the label `a` stands to the label `b`."""
        first, second = self._read(a), self._read(b)
        return _ordering(self._dominates(first, second), self._dominates(second, first))

    def admits(self, subject: tuple[set[str], dict[str, int]], text: str) -> bool:
        """Whether a subject who may read these streams, and aggregates with these minima, may be shown the label."""
        readable, minima = subject
        covered = []
        for stream, number in self._read(text).items():
            minimum = minima.get(stream)
            covered.append(stream in readable or (minimum is not None and 2 <= minimum <= number))
        return any(covered) if self._weak else all(covered)

    def bits(self, text: str) -> int:
        """The label as a bit vector over the declared streams."""
        label = self._read(text)
        return sum(1 << n for n, stream in enumerate(self._streams) if stream in label)

    def _read(self, text: str) -> dict[str, int]:
        tokens = _tokens(text, self._limit)
        label: dict[str, int] = {}
        place = 0
        while True:
            kind, stream, at = tokens[place]
            if kind != "name" or stream not in self._declared:
                raise Fault(at, "expected a stream")
            if stream in label:
                raise Fault(at, "stream stands twice")
            label[stream] = 1
            place += 1
            if tokens[place][0] == "/":
                kind, digits, at = tokens[place + 1]
                if kind != "number" or digits[0] == "0" or not 2 <= int(digits) <= _NUMBER_LIMIT:
                    raise Fault(at, "expected a number from 2 to 1000000000")
                label[stream] = int(digits)
                place += 2
            kind, _, at = tokens[place]
            if kind == "end":
                return label
            if kind != ",":
                raise Fault(at, "expected , or the end")
            place += 1

    @staticmethod
    def _union(labels: list[dict[str, int]]) -> dict[str, int]:
        if not labels:
            raise Fault(None, "nothing to combine")
        least: dict[str, int] = {}
        for label in labels:
            for stream, number in label.items():
                least[stream] = min(number, least.get(stream, number))
        return least

    @staticmethod
    def _write(label: dict[str, int]) -> str:
        return ",".join(stream if label[stream] == 1 else f"{stream}/{label[stream]}" for stream in sorted(label))

    @staticmethod
    def _dominates(high: dict[str, int], low: dict[str, int]) -> bool:
        return all(stream in high and high[stream] <= number for stream, number in low.items())
