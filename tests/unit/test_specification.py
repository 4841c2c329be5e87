"""SPECIFICATION.md says what the code does: its grammar is the grammar file, its examples are executed."""

import re
from pathlib import Path
from typing import Any

import pytest

import security_lattice
from security_lattice import LabelMode, LabelSyntaxError, Lattice, MlsMode, Order, OxrbacMode, RbacMode
from security_lattice.ownership import MEANINGFUL

HOME = Path(security_lattice.__file__).parent
SPECIFICATION = (HOME / "SPECIFICATION.md").read_text()
MODES: dict[str, LabelMode[Any, Any]] = {
    "mls": MlsMode(Lattice(Order({"L": [], "S": ["L"], "H": ["S"]}), ["ARMY", "NAVY"])),
    "rbac": RbacMode(["doctor", "nurse", "icu"]),
    "oxrbac": OxrbacMode(["NewYork", "London"]),
}
EXAMPLES = re.findall(r"^\| `([^`]*)`(?: \(Cyrillic\))? \| (mls|rbac|oxrbac) \| (.*) \|$", SPECIFICATION, re.MULTILINE)


def test_the_printed_grammar_is_the_grammar_file() -> None:
    printed = re.findall(r"```abnf\n(.*?)```", SPECIFICATION, re.DOTALL)
    assert printed == [(HOME / "label-grammar.abnf").read_text()]


def test_there_are_right_and_wrong_examples_of_every_mode() -> None:
    assert {(mode, why.startswith("wrong")) for _, mode, why in EXAMPLES} == {
        (mode, wrong) for mode in MODES for wrong in (True, False)
    }


@pytest.mark.parametrize(("text", "mode", "why"), EXAMPLES)
def test_an_example_of_the_specification(text: str, mode: str, why: str) -> None:
    labels = MODES[mode]
    if wrong := re.match(r"wrong at (\d+)", why):
        with pytest.raises(LabelSyntaxError) as refusal:
            labels.parse(text)
        assert refusal.value.offset == int(wrong[1])
    else:
        canonical = re.search(r"canonical `([^`]*)`", why)
        assert labels.format(labels.parse(text)) == (canonical[1] if canonical else text)


def test_the_printed_table_of_permissions_is_the_one_in_force() -> None:
    for kind, permissions in MEANINGFUL.items():
        row = re.search(rf"^\| {kind.value} \| (.*?) \|$", SPECIFICATION, re.MULTILINE)
        assert row is not None
        printed = re.sub(r" \(.*?\)", "", row[1]).split(", ")
        assert set(printed) == {permission.value for permission in permissions}


def test_every_rule_of_ownership_is_tagged_at_a_check() -> None:
    source = (HOME / "ownership.py").read_text()
    header, code = source.split('"""', 2)[1:]
    rules = re.findall(r"^(O\d)  ", header, re.MULTILINE)
    assert rules == [f"O{n}" for n in range(1, 10)]
    assert [rule for rule in rules if rule not in code] == []
