"""From a file to a checked topology. Pure but for reading the file; every error has its place in it."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from security_lattice import (
    LabelMode,
    LabelRange,
    LabelSyntaxError,
    Lattice,
    LatticeError,
    MlsMode,
    Order,
    OrderError,
    OxrbacMode,
    RbacMode,
    Rights,
    Semantics,
)
from topology import document as declared
from topology.cluster import Group, Site, Source, Stream, Topology
from topology.document import AnyDocument, read_document
from topology.errors import UnknownName
from topology.yaml_file import Keys, YamlFile, read_yaml

EXAMPLES = Path(__file__).parent / "examples"
RESERVED_SITES = frozenset({"users", "quarantine"})  # `policy.users` and `lane.quarantine` are not a site's
RESERVED_FIELDS = frozenset({"level"})  # every tuple has a LEVEL in queries already


def load(path_or_example: str) -> Topology:
    """The topology in a file, or the example of that name."""
    if re.fullmatch(r"[a-z]{1,64}", path_or_example) and not Path(path_or_example).is_file():
        if path_or_example not in examples():
            raise UnknownName(f"`{path_or_example}` is neither a file nor one of the examples {', '.join(examples())}")
        return load_example(path_or_example)
    return check(read_yaml(Path(path_or_example)))


def load_example(name: str) -> Topology:
    """One of the examples, whatever lies in the current directory."""
    return check(read_yaml(EXAMPLES / f"{name}.yaml"))


def examples() -> list[str]:
    """The names of the examples that come along."""
    return sorted(path.stem for path in EXAMPLES.glob("*.yaml"))


def check(file: YamlFile) -> Topology:
    """The topology that a file declares; the first thing wrong with it is raised with its place."""
    return _Checker(file, read_document(file)).topology()


class _Checker:
    """Turns a document into a topology, keeping the keys of what it looks at for errors."""

    def __init__(self, file: YamlFile, document: AnyDocument) -> None:
        self.file = file
        self.document = document
        self.mode = self._mode()

    def fail(self, keys: Keys, message: str) -> NoReturn:
        raise self.file.error(keys, message)

    def topology(self) -> Topology:
        document = self.document
        for part in ("sites", "streams", "sources"):
            self._distinct_in_lower_case(part, getattr(document, part))
        rights = self._role_rights()
        sites = {name: self._site(name, site) for name, site in document.sites.items()}
        self._distinct_subjects(sites)
        streams = {name: self._stream(name, stream) for name, stream in document.streams.items()}
        sources = {name: self._source(name, source) for name, source in document.sources.items()}
        groups = self._groups(streams, sources, sites)
        return Topology(
            document.name, document.mode, self.mode, sites, streams, sources, groups,
            document.partitions, document.kafka, document.lanes, rights,
        )  # fmt: skip

    def _mode(self) -> LabelMode[Any, Any]:
        match self.document:
            case declared.MlsDocument(lattice=declared.Levels(levels=levels)):
                return MlsMode(self._lattice(levels, (), ("lattice", "levels")))
            case declared.MlsDocument(lattice=declared.Classifications() as parts):
                self._distinct(("lattice", "classifications"), parts.classifications)
                self._distinct(("lattice", "compartments"), parts.compartments)
                chain = {name: parts.classifications[:i] for i, name in enumerate(parts.classifications)}
                return MlsMode(self._lattice(chain, parts.compartments, ("lattice",)))
            case declared.RbacDocument(roles=roles):
                self._distinct(("roles",), roles)
                return RbacMode(roles)
            case declared.OxrbacDocument(roles=roles, semantics=semantics, streams=streams):
                self._distinct(("roles",), roles)
                return OxrbacMode(list(streams), Semantics(semantics))
        raise AssertionError("a document has one of three modes")

    def _lattice(self, below: Mapping[str, Iterable[str]], compartments: Iterable[str], keys: Keys) -> Lattice:
        try:
            return Lattice(Order(below), compartments)
        except OrderError as error:
            self.fail(keys, str(error))

    def _role_rights(self) -> dict[str, Rights]:
        if not isinstance(self.document, declared.OxrbacDocument):
            return {}
        result = {role: Rights() for role in self.document.roles}
        for role, rights in self.document.rights.items():
            self._known(("rights", role), "role", role, self.document.roles)
            for i, stream in enumerate(rights.read):
                self._known(("rights", role, "read", i), "stream", stream, self.document.streams)
            for stream in rights.aggregate:
                self._known(("rights", role, "aggregate", stream), "stream", stream, self.document.streams)
            result[role] = Rights(frozenset(rights.read), dict(rights.aggregate))
        return result

    def _site(self, name: str, site: Any) -> Site:
        keys: Keys = ("sites", name)
        if name.lower() in RESERVED_SITES:
            self.fail(keys, f"no site can be called {' or '.join(sorted(RESERVED_SITES))}")
        if isinstance(site, declared.LevelSite):
            level = self._label((*keys, "level"), site.level)
            return Site(name, level, self.mode.format(level))
        known = self.mode.roles if isinstance(self.mode, RbacMode) else self.document.roles  # type: ignore[union-attr]
        for i, role in enumerate(site.roles):
            self._known((*keys, "roles", i), "role", role, known)
        self._distinct((*keys, "roles"), site.roles)
        text = ",".join(sorted(site.roles))
        if not isinstance(site, declared.OwnedSite):
            return Site(name, frozenset(site.roles), text, tuple(sorted(site.roles)))
        for i, stream in enumerate(site.streams):
            self._known((*keys, "streams", i), "stream", stream, self.document.streams)
        self._distinct((*keys, "streams"), site.streams)
        return Site(name, Rights(frozenset(site.streams)), text, tuple(sorted(site.roles)))

    def _stream(self, name: str, stream: Any) -> Stream:
        keys: Keys = ("streams", name)
        self._distinct_in_lower_case("streams", stream.fields, (*keys, "fields"))
        for field in stream.fields:
            if field.lower() in RESERVED_FIELDS:
                self.fail((*keys, "fields", field), "every tuple has a LEVEL already; choose another name")
        if not isinstance(stream, declared.LabelledStream):
            return Stream(name, stream.fields, "fixed", self.mode.parse(name), None, stream.proof)
        fixed = floor = None
        labelling = "fixed"
        if isinstance(stream.label, declared.FixedLabel):
            fixed = self._label((*keys, "label", "fixed"), stream.label.fixed)
        else:
            labelling = stream.label
        if stream.floor is not None:
            floor = self._label((*keys, "floor"), stream.floor)
            if fixed is not None and not self.mode.dominates(fixed, floor):
                self.fail((*keys, "floor"), "the stream's fixed label does not dominate its floor")
        return Stream(name, stream.fields, labelling, fixed, floor, stream.proof)

    def _source(self, name: str, source: Any) -> Source:
        keys: Keys = ("sources", name)
        for i, stream in enumerate(source.streams):
            self._known((*keys, "streams", i), "stream", stream, self.document.streams)
        self._distinct((*keys, "streams"), source.streams)
        if not isinstance(source, declared.RangedSource):
            return Source(name, tuple(source.streams), None)
        low = self._label((*keys, "range", "low"), source.range.low)
        high = self._label((*keys, "range", "high"), source.range.high)
        if not self.mode.dominates(high, low):
            self.fail((*keys, "range"), "`high` does not dominate `low`: the range holds nothing")
        return Source(name, tuple(source.streams), LabelRange(low, high))

    def _groups(
        self, streams: Mapping[str, Stream], sources: Mapping[str, Source], sites: Mapping[str, Site]
    ) -> tuple[Group, ...]:
        members: dict[tuple[str, str], list[str]] = {}
        possible: dict[tuple[str, str], LabelRange[Any]] = {}
        for source in sources.values():
            for i, stream in enumerate(source.streams):
                narrowed = self._possible(("sources", source.name, "streams", i), source, streams[stream])
                range_ = source.range or narrowed
                if not any(self.mode.admits(site.subject, range_.high) for site in sites.values()):
                    label = self.mode.format(range_.high)
                    self.fail(
                        ("sources", source.name, "range" if source.range else "streams"),
                        f"no site admits `{label}`, which this source may say: add a site or lower the range",
                    )
                key = (stream, self._group_name(range_))
                members.setdefault(key, []).append(source.name)
                if possible.setdefault(key, narrowed) != narrowed:  # whoever finds such ranges made them so
                    self.fail(("sources", source.name), "this range and another one have the same digest")
        return tuple(
            Group(stream, group, tuple(sorted(members[stream, group])), possible[stream, group])
            for stream, group in sorted(members)
        )

    def _possible(self, keys: Keys, source: Source, stream: Stream) -> LabelRange[Any]:
        """What this source can say on this stream: its range, as the stream narrows it."""
        if stream.labelling == "fixed":
            if source.range and not self.mode.within(stream.fixed, source.range):
                self.fail(keys, f"the fixed label of `{stream.name}` is outside this source's range")
            return LabelRange(stream.fixed, stream.fixed)
        assert source.range is not None
        if stream.labelling == "source" and source.range.low != source.range.high:
            self.fail(keys, f"`{stream.name}` takes its source's label, so the range must be a single label")
        low = source.range.low
        if stream.floor is not None:
            if not self.mode.dominates(source.range.high, stream.floor):
                self.fail(keys, f"nothing in this source's range dominates the floor of `{stream.name}`")
            try:
                low = self.mode.combine([low, stream.floor])
            except LatticeError as error:
                self.fail(keys, str(error))
        return LabelRange(low, source.range.high)

    def _group_name(self, range: LabelRange[Any]) -> str:
        """A topic-safe name that tells equal ranges from different ones, and a reader what they are."""
        ends = [self.mode.format(range.low), self.mode.format(range.high)]
        digest = hashlib.sha256("\0".join(ends).encode()).hexdigest()[:16]
        readable = re.sub(r"[^A-Za-z0-9]+", "-", "-to-".join(dict.fromkeys(ends)))[:40].strip("-")
        return f"{readable}-{digest}"

    def _label(self, keys: Keys, text: str) -> Any:
        try:
            return self.mode.parse(text)
        except LabelSyntaxError as error:
            self.fail(keys, f"{error}, at offset {error.offset} of `{text}`")

    def _known(self, keys: Keys, what: str, name: str, known: Iterable[str]) -> None:
        if name not in known:
            self.fail(keys, f"unknown {what} `{name}`; declared are {', '.join(sorted(known))}")

    def _distinct(self, keys: Keys, names: list[str]) -> None:
        seen: set[str] = set()
        for i, name in enumerate(names):
            if name in seen:
                self.fail((*keys, i), f"`{name}` stands twice")
            seen.add(name)

    def _distinct_in_lower_case(self, part: str, names: Iterable[str], keys: Keys = ()) -> None:
        # Kubernetes names have no capitals, some file systems do not tell them apart, and CQL does not.
        seen: dict[str, str] = {}
        for name in names:
            if seen.setdefault(name.lower(), name) != name:
                message = f"`{name}` and `{seen[name.lower()]}` differ only in capitals"
                self.fail((*(keys or (part,)), name), message)

    def _distinct_subjects(self, sites: Mapping[str, Site]) -> None:
        seen: dict[tuple[Any, ...], str] = {}
        for site in sites.values():
            identity = (site.subject_text, frozenset(getattr(site.subject, "tuples", ())))
            other = seen.setdefault(identity, site.name)
            if other != site.name:
                self.fail(("sites", site.name), f"is the same site as `{other}`: {site.subject_text}")
