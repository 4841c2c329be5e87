"""The schema of `bellwether.yaml`: what may be written where. Meaning is checked in `checking.py`."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from security_lattice import Semantics, is_name
from security_lattice.lattice import MOST_LEVEL_NAMES
from topology.yaml_file import Keys, YamlFile

# Level, role and source names follow the lattice's own rule; the others become parts of topic names,
# where Kafka confuses `.` with `_`, so a site has no `_` and a stream (a CQL identifier) no `-`.
SITE_PATTERN = r"^[A-Za-z][A-Za-z0-9-]{0,63}$"
MOST_ROLES = 1024  # and limits below: far above any sensible cluster, far below what would exhaust a machine
MOST_SITES = 256
MOST_STREAMS = 1024
MOST_SOURCES = 10_000
IDENTIFIER_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,63}$"


def _name(text: Any) -> Any:
    if not isinstance(text, str) or not is_name(text):
        raise ValueError("a name is a letter, then letters, digits, `_` or `-`, 64 at most, and not `and` or `or`")
    return text


def _list(value: Any) -> Any:
    return [] if value is None else value


def _has(value: Any, key: str) -> bool:
    return isinstance(value, dict) and key in value


def _both_ends(value: Any) -> Any:
    return {"low": value, "high": value} if isinstance(value, str) else value


Name = Annotated[str, BeforeValidator(_name)]
SiteName = Annotated[Name, Field(pattern=SITE_PATTERN)]
Identifier = Annotated[Name, Field(pattern=IDENTIFIER_PATTERN)]
NameList = Annotated[list[Name], Field(max_length=MOST_LEVEL_NAMES), BeforeValidator(_list)]
RoleList = Annotated[list[Name], Field(min_length=1, max_length=MOST_ROLES)]
FieldType = Literal["string", "integer", "double", "boolean"]
Proof = Literal["none", "hmac", "ed25519", "ed25519-batch"]


class Part(BaseModel):
    """Every part of the document refuses keys that it does not know, and says which it does."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, content: Any) -> Any:
        for key in content if isinstance(content, dict) else ():
            if key not in cls.model_fields:
                expected = ", ".join(cls.model_fields)
                raise PydanticCustomError(
                    "unknown_key", "unknown key; expected are {expected}", {"key": key, "expected": expected}
                )
        return content


class Levels(Part):
    """A named partial order: each level with the levels right below it."""

    levels: dict[Name, NameList] = Field(min_length=1, max_length=MOST_LEVEL_NAMES)


class Classifications(Part):
    """Classifications, lowest first, times sets of compartments."""

    classifications: list[Name] = Field(min_length=1, max_length=MOST_LEVEL_NAMES)
    compartments: NameList = []


AnyLattice = Annotated[
    Annotated[Levels, Tag("(levels)")] | Annotated[Classifications, Tag("(classifications)")],
    Discriminator(lambda value: "(classifications)" if _has(value, "classifications") else "(levels)"),
]


class LevelSite(Part):
    """A site of the mls mode."""

    level: str


class RoleSite(Part):
    """A site of the rbac mode: the roles it serves."""

    roles: RoleList


class OwnedSite(RoleSite):
    """A site of the oxrbac mode: the roles it serves, and the streams whose tuples it may ever hold."""

    streams: list[Identifier] = Field(min_length=1)


class FixedLabel(Part):
    """All tuples of a stream carry this label."""

    fixed: str


StreamLabel = Annotated[
    Annotated[Literal["claimed", "source"], Tag("(word)")] | Annotated[FixedLabel, Tag("(fixed)")],
    Discriminator(lambda value: "(fixed)" if isinstance(value, dict) else "(word)"),
]


class Stream(Part):
    """A declared schema and how strongly its sources prove what they say."""

    fields: dict[Identifier, FieldType] = Field(min_length=1)
    proof: Proof = "ed25519"


class LabelledStream(Stream):
    """A stream whose tuples carry a fixed label, their source's, or one that the source claims."""

    label: StreamLabel = "claimed"
    floor: str | None = None


class RangeEnds(Part):
    """A range of labels, ends included."""

    low: str
    high: str


class Source(Part):
    """A registered producer."""

    streams: list[Identifier] = Field(min_length=1)


class RangedSource(Source):
    """A producer with the labels it may say: one label, or all from `low` to `high`."""

    range: Annotated[RangeEnds, BeforeValidator(_both_ends)]


class RoleRights(Part):
    """What a role may read at first start: tuples of streams, and aggregates over a minimum of tuples."""

    read: list[Identifier] = []
    aggregate: dict[Identifier, Annotated[int, Field(ge=2, le=10**9)]] = {}


class Kafka(Part):
    """Settings of the topics."""

    replication: int = Field(default=1, ge=1, le=9)
    max_tuple_bytes: int = Field(default=1_000_000, ge=1_000, le=100_000_000)
    input_retention_hours: int = Field(default=168, ge=1, le=87_600)
    result_retention_hours: int = Field(default=168, ge=1, le=87_600)


class Lanes(Part):
    """How lanes keep order and cut transactions: the same for all of a cluster's lanes, so that they agree."""

    skew_ms: int = Field(default=200, ge=0, le=60_000)
    bucket_ms: int = Field(default=100, ge=1, le=60_000)
    transaction_tuples: int = Field(default=4_096, ge=1, le=100_000)
    transaction_bytes: int = Field(default=8 << 20, ge=1, le=1 << 30)


class Document(Part):
    """What all modes have in common."""

    version: Literal["1"]
    name: SiteName
    partitions: int = Field(default=1, ge=1, le=1_000)
    kafka: Kafka = Kafka()
    lanes: Lanes = Lanes()


class MlsDocument(Document):
    """A multilevel-secure cluster."""

    mode: Literal["mls"]
    lattice: AnyLattice
    sites: dict[SiteName, LevelSite] = Field(min_length=1, max_length=MOST_SITES)
    streams: dict[Identifier, LabelledStream] = Field(min_length=1, max_length=MOST_STREAMS)
    sources: dict[SiteName, RangedSource] = Field(default={}, max_length=MOST_SOURCES)


class RbacDocument(Document):
    """A cluster with role expressions for labels."""

    mode: Literal["rbac"]
    roles: RoleList
    sites: dict[SiteName, RoleSite] = Field(min_length=1, max_length=MOST_SITES)
    streams: dict[Identifier, LabelledStream] = Field(min_length=1, max_length=MOST_STREAMS)
    sources: dict[SiteName, RangedSource] = Field(default={}, max_length=MOST_SOURCES)


class OxrbacDocument(Document):
    """A cluster with sets of sources for labels, owners and permissions."""

    mode: Literal["oxrbac"]
    semantics: Literal["strong", "unsafe-weak"] = Semantics.STRONG.value
    roles: RoleList
    rights: dict[Name, RoleRights] = {}
    sites: dict[SiteName, OwnedSite] = Field(min_length=1, max_length=MOST_SITES)
    streams: dict[Identifier, Stream] = Field(min_length=1, max_length=MOST_STREAMS)
    sources: dict[SiteName, Source] = Field(default={}, max_length=MOST_SOURCES)


AnyDocument = MlsDocument | RbacDocument | OxrbacDocument
_BY_MODE: dict[str, type[AnyDocument]] = {"mls": MlsDocument, "rbac": RbacDocument, "oxrbac": OxrbacDocument}


def read_document(file: YamlFile) -> AnyDocument:
    """Hold a file against the schema; the first fault in file order is raised, with its place."""
    if not isinstance(file.content, dict):
        raise file.error((), "expected keys such as `version`, `name`, `mode`, `sites`, `streams`")
    mode = file.content.get("mode")
    if not isinstance(mode, str) or mode not in _BY_MODE:
        message = f"expected one of {', '.join(_BY_MODE)}" + ("" if mode is None else ", found another value")
        raise file.error(("mode",), message)
    try:
        return _BY_MODE[mode].model_validate(file.content)
    except ValidationError as error:
        faults = [_fault(details, file) for details in error.errors()]
        faults.sort(key=lambda fault: (file.position(fault[0]), str(fault[0])))
        keys, message = faults[0]
        more = len({fault[0] for fault in faults}) - 1
        raise file.error(keys, message + (f" (and {more} more)" if more else "")) from None


def _fault(details: Any, file: YamlFile) -> tuple[Keys, str]:
    """The keys and the message of one of pydantic's findings, in our words."""
    keys: Keys = ()
    content = file.content
    for part in details["loc"]:
        # pydantic puts the tag of a union, and `[key]`, among the keys: keep what is in the file.
        if (isinstance(content, dict) and part in content) or (isinstance(content, list) and isinstance(part, int)):
            keys, content = (*keys, part), content[part]
        elif details["type"] == "missing" and part == details["loc"][-1]:
            keys = (*keys, part)
    message = str(details["msg"])
    match details["type"]:
        case "unknown_key":
            keys = (*keys, details["ctx"]["key"])
        case "missing":
            message = "is missing"
        case "string_pattern_mismatch":
            allowed = "_" if details["ctx"]["pattern"] == IDENTIFIER_PATTERN else "-"
            message = f"a name here is a letter, then letters, digits or `{allowed}`, 64 at most"
        case "literal_error":
            message = f"expected {details['ctx']['expected']}"
        case "value_error":
            message = str(details["ctx"]["error"])
        case _:
            message = message[0].lower() + message[1:]
    return keys, message
