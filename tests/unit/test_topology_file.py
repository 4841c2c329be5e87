"""`bellwether.yaml`: whatever is wrong with it gets one line that names the place and what would be right."""

from pathlib import Path

import pytest

from topology import DeclarationError, UnknownName, check, checking, examples, load
from topology.checking import EXAMPLES
from topology.yaml_file import parse_yaml, read_yaml

BATTLEFIELD = (EXAMPLES / "battlefield.yaml").read_text()
DIAMOND = (EXAMPLES / "diamond.yaml").read_text()
HOSPITAL = (EXAMPLES / "hospital.yaml").read_text()
STOCKS = (EXAMPLES / "stocks.yaml").read_text()


@pytest.mark.parametrize("name", ["battlefield", "diamond", "hospital", "stocks"])
def test_every_example_is_sound(name: str) -> None:
    assert name in examples()
    assert load(name).name == name


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        # Keys and values
        (BATTLEFIELD, "mode: mls", "mode: mlz", "t.yaml:5:1: mode: expected one of mls, rbac, oxrbac"),
        (BATTLEFIELD, "mode: mls\n", "", "t.yaml:3:1: mode: expected one of mls, rbac, oxrbac"),
        (BATTLEFIELD, "version: 1", "version: 2", "t.yaml:3:1: version: expected '1'"),
        (
            BATTLEFIELD,
            "sites:\n",
            "places: {}\nsites:\n",
            "t.yaml:10:1: places: unknown key; expected are version, name, partitions, kafka, lanes, mode",
        ),
        (BATTLEFIELD, "proof: hmac", "proof: md5", "t.yaml:16:5: streams.Vitals.proof: expected 'none', 'hmac'"),
        (BATTLEFIELD, "bp: integer", "bp: int", "streams.Vitals.fields.bp: expected 'string', 'integer'"),
        (BATTLEFIELD, "    range: L\n", "", "sources.patrol.range: is missing"),
        (BATTLEFIELD, "{low: L, high: H}", "{low: L}", "sources.field-hospital.range.high: is missing"),
        (
            BATTLEFIELD,
            "{low: L, high: H}",
            "{low: L, hi: H}",
            "sources.field-hospital.range.hi: unknown key; expected are low, high",
        ),
        (BATTLEFIELD, "L: {level: L}", "L: {lvl: L}", "sites.L.lvl: unknown key; expected are level"),
        (
            BATTLEFIELD,
            "  Vitals:",
            "  Vital-s:",
            "streams.Vital-s: a name here is a letter, then letters, digits or `_`",
        ),
        (BATTLEFIELD, "name: battlefield", "name: [a]", "t.yaml:4:1: name: a name is a letter"),
        (
            BATTLEFIELD,
            "name: battlefield",
            "name: a\npartitions: none",
            "t.yaml:5:1: partitions: input should be a valid int",
        ),
        (BATTLEFIELD, "name: battlefield", "name: a\npartitions: 0", "greater than or equal to 1"),
        # YAML
        (BATTLEFIELD, "sites:\n", "name: b\nsites:\n", "t.yaml:10:1: key `name` stands twice"),
        (BATTLEFIELD, "[Vitals]", "[Vitals", "t.yaml:"),
        (BATTLEFIELD, "range: L", "range: &a L", "anchors and aliases are not allowed"),
        (BATTLEFIELD, "range: L", "range: *a", "anchors and aliases are not allowed"),
        (BATTLEFIELD, "range: L", "range: " + "[" * 20 + "]" * 20, "nested more than 16 deep"),
        (BATTLEFIELD, "range: L", "? [a]\n    : b", "a key must be a plain text"),
        # The lattice
        (BATTLEFIELD, "L: []", "L: [H]", "lattice.levels: levels `L` and `H` form a cycle"),
        (BATTLEFIELD, "H: [L]", "H: []", "lattice.levels: levels `L` and `H` have no common level above them"),
        (BATTLEFIELD, "H: [L]", "H: [M]", "level `H` lies above `M`, which is not declared"),
        (DIAMOND, "[ARMY, NAVY]", "[ARMY, NAVY, ARMY]", "lattice.compartments.2: `ARMY` stands twice"),
        (DIAMOND, "[S]", "[S, S]", "lattice.classifications.1: `S` stands twice"),
        (DIAMOND, "[S]", "[]", "lattice.classifications: list should have at least 1 item"),
        # Labels
        (BATTLEFIELD, "level: H", "level: X", "sites.H.level: unknown level `X`, at offset 0 of `X`"),
        (DIAMOND, '"S:ARMY,NAVY"}', '"S:ARMY,"}', "expected a compartment, found the end, at offset 7"),
        (
            HOSPITAL,
            "low: doctor or nurse",
            "low: doctor or",
            "sources.patient-1.range.low: expected a role, found the end",
        ),
        # Sites, streams, sources
        (BATTLEFIELD, "  H: {level: H}", "  H: {level: L}", "sites.H: is the same site as `L`: L"),
        (BATTLEFIELD, "  L: {level: L}", "  h: {level: L}", "sites.H: `H` and `h` differ only in capitals"),
        (BATTLEFIELD, "  L: {level: L}", "  Users: {level: L}", "no site can be called quarantine or users"),
        (BATTLEFIELD, "pr: integer", "LEVEL: integer", "every tuple has a LEVEL already"),
        (BATTLEFIELD, "streams: [Vitals]", "streams: [Vital]", "unknown stream `Vital`; declared are Position, Vitals"),
        (BATTLEFIELD, "streams: [Vitals]", "streams: [Vitals, Vitals]", "streams.1: `Vitals` stands twice"),
        (BATTLEFIELD, "{low: L, high: H}", "{low: H, high: L}", "`high` does not dominate `low`"),
        (BATTLEFIELD, "  H: {level: H}\n", "", "sources.recon.range: no site admits `H`, which this source may say"),
        (DIAMOND, '  joint: {level: "S:ARMY,NAVY"}\n', "", "sources.staff.range: no site admits `S:ARMY,NAVY`"),
        (
            DIAMOND,
            "label: {fixed: S}",
            'label: {fixed: "S:NAVY"}',
            "the fixed label of `Weather` is outside this source's",
        ),
        (
            DIAMOND,
            'streams: [Sightings]\n    range: "S:NAVY"',
            'streams: [Orders]\n    range: "S:NAVY"',
            "dominates the floor",
        ),
        (HOSPITAL, "doctors: {roles: [doctor]}", "doctors: {roles: [doc]}", "unknown role `doc`; declared are admin"),
        (HOSPITAL, "  ward: {roles: [doctor, nurse]}\n", "", "no site admits `doctor and nurse`"),
        (STOCKS, "streams: [NewYork, London]}\n  newyork", "streams: [Paris]}\n  newyork", "unknown stream `Paris`"),
        (STOCKS, "CUSTOMER2: {read: [NewYork]}", "CUSTOMER3: {read: []}", "rights.CUSTOMER3: unknown role `CUSTOMER3`"),
        (
            STOCKS,
            "London: 20",
            "London: 1",
            "rights.ANALYST.aggregate.London: input should be greater than or equal to 2",
        ),
        (STOCKS, "semantics: strong", "semantics: weak", "semantics: expected 'strong' or 'unsafe-weak'"),
    ],
)
def test_a_fault_is_named_with_its_place(text: str, old: str, new: str, message: str) -> None:
    assert old in text
    with pytest.raises(DeclarationError) as refusal:
        check(parse_yaml(text.replace(old, new, 1), "t.yaml"))
    assert message in str(refusal.value)
    assert str(refusal.value).startswith("t.yaml:")
    assert "\n" not in str(refusal.value)


def test_scalars_are_not_read_as_anything_but_text() -> None:
    """YAML 1.1 would make a boolean of NO and a number of 0x1F."""
    text = BATTLEFIELD.replace("L: []", "NO: []").replace("H: [L]", "on: [NO]")
    text = text.replace("level: L", "level: NO").replace("level: H", "level: on")
    text = text.replace("range: L", "range: NO").replace("range: H", "range: on").replace("{low: L, high: H}", "on")
    topology = check(parse_yaml(text, "t.yaml"))
    assert [site.subject_text for site in topology.sites.values()] == ["NO", "on"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected keys such as `version`"),
        (b"- a\n", "expected keys such as `version`"),
        (b"\xff\xfe", "is not UTF-8 at byte 0"),
        (b"a: \x00", "is not YAML"),
        (b"#" * (1 << 20) + b"#", "is larger than 1,048,576 bytes"),
        (b'a: "\\U00110000"', "is not YAML"),
        (b'a: "\\UFFFFFFFF"', "is not YAML"),
        (b'"\\uD800": 1', "half a character"),
        (b"%YAML 1." + b"5" * 5000 + b"\n---\na: 1", "is not YAML"),
    ],
)
def test_a_file_that_is_no_topology_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.yaml"
    path.write_bytes(content)
    with pytest.raises(DeclarationError, match=message) as refusal:
        check(read_yaml(path))
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (DIAMOND, "[S]", "[" + ", ".join(f"c{i}" for i in range(20_000)) + "]", "at most 256 items"),
        (DIAMOND, "[ARMY, NAVY]", "[" + ", ".join(f"c{i}" for i in range(20_000)) + "]", "at most 256 items"),
        (
            HOSPITAL,
            "[doctor, nurse, administrator]",
            "[" + ", ".join(f"r{i}" for i in range(20_000)) + "]",
            "at most 1024",
        ),
    ],
)
def test_a_small_file_cannot_cost_much(text: str, old: str, new: str, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        check(parse_yaml(text.replace(old, new, 1), "t.yaml"))


def test_ranges_whose_digests_collide_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise two ranges would share an input topic, and a low lane would read a high source's."""
    monkeypatch.setattr(checking._Checker, "_group_name", lambda *_: "same")
    with pytest.raises(DeclarationError, match="this range and another one have the same digest"):
        check(parse_yaml(BATTLEFIELD, "t.yaml"))


def test_a_missing_file_and_an_unknown_example_say_so(tmp_path: Path) -> None:
    with pytest.raises(DeclarationError, match="cannot be read: No such file"):
        load(str(tmp_path / "none.yaml"))
    with pytest.raises(
        UnknownName, match="neither a file nor one of the examples battlefield, diamond, hospital, stocks"
    ):
        load("nowhere")
