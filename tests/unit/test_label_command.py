"""`bellwether label` and `bellwether topology`: answers, errors and exit codes as scripts see them."""

import json
from pathlib import Path
from typing import Any

import pytest

from console.commands import run


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    """The exit code, the JSON on stdout, and stderr."""
    code = run(list(arguments))
    captured = capsys.readouterr()
    return code, json.loads(captured.out) if captured.out else None, captured.err


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["parse", "-t", "diamond", "S:NAVY,ARMY"], {"label": "S:ARMY,NAVY", "mode": "mls"}),
        (["parse", "-t", "hospital", "nurse or (nurse and doctor)"], {"label": "nurse", "mode": "rbac"}),
        (["combine", "-t", "battlefield", "L", "H"], {"label": "H"}),
        (["combine", "-t", "diamond", "S:ARMY", "S:NAVY", "S"], {"label": "S:ARMY,NAVY"}),
        (["combine", "-t", "hospital", "doctor", "nurse or doctor"], {"label": "doctor"}),
        (["combine", "-t", "stocks", "NewYork/20", "NewYork", "London"], {"label": "London,NewYork"}),
        (["compare", "-t", "battlefield", "L", "H"], {"a": "L", "b": "H", "relation": "dominated"}),
        (["compare", "-t", "battlefield", "H", "L"], {"a": "H", "b": "L", "relation": "dominates"}),
        (["compare", "-t", "diamond", "S:ARMY", "S:NAVY"], {"a": "S:ARMY", "b": "S:NAVY", "relation": "incomparable"}),
        (["compare", "-t", "hospital", "nurse", "(nurse)"], {"a": "nurse", "b": "nurse", "relation": "equal"}),
        (["admits", "-t", "battlefield", "--subject", "H", "L"], {"admits": True}),
        (["admits", "-t", "battlefield", "--subject", "L", "H"], {"admits": False}),
        (["admits", "-t", "hospital", "--subject", "doctor,nurse", "doctor and nurse"], {"admits": True}),
        (["admits", "-t", "hospital", "--subject", "doctor", "doctor and nurse"], {"admits": False}),
        (["admits", "-t", "stocks", "--subject", "CUSTOMER2", "NewYork"], {"admits": True}),
        (["admits", "-t", "stocks", "--subject", "CUSTOMER2", "NewYork,London"], {"admits": False}),
        (["admits", "-t", "stocks", "--subject", "ANALYST", "NewYork,London/20"], {"admits": True}),
        (["admits", "-t", "stocks", "--subject", "ANALYST", "NewYork,London/19"], {"admits": False}),
    ],
)
def test_the_calculator_answers(
    capsys: pytest.CaptureFixture[str], arguments: list[str], answer: dict[str, Any]
) -> None:
    assert ask(capsys, "label", *arguments, "-o", "json") == (0, answer, "")


@pytest.mark.parametrize(
    ("arguments", "offset"),
    [
        (["parse", "-t", "diamond", "S:NAVY,"], 7),
        (["parse", "-t", "hospital", "doctor and nurse or doctor"], 17),
        (["parse", "-t", "battlefield", ""], 0),
        (["parse", "-t", "battlefield", "\u202eH"], 0),
        (["combine", "-t", "stocks", "NewYork", "NewYork/1"], 8),
        (["admits", "-t", "hospital", "--subject", "doctor,boss", "doctor"], 7),
    ],
)
def test_a_malformed_label_has_an_offset(capsys: pytest.CaptureFixture[str], arguments: list[str], offset: int) -> None:
    code, answer, errors = ask(capsys, "label", *arguments, "-o", "json")
    assert code == 2
    assert set(answer) == {"error", "offset"}
    assert errors == f"error: {answer['error']} (at offset {offset})\n"
    assert answer["offset"] == offset


def test_on_a_terminal_the_error_is_one_line_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer, errors = ask(capsys, "label", "parse", "-t", "battlefield", "X", "-o", "table")
    assert (code, answer, errors) == (2, None, "error: unknown level `X` (at offset 0)\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["label", "parse", "H"], "bellwether.yaml: cannot be read"),
        (["label", "parse", "-t", "nowhere", "H"], "neither a file nor one of the examples"),
        (["label", "parse"], "TEXT"),
        (["label", "frobnicate"], "frobnicate"),
        (["label", "admits", "-t", "battlefield", "H"], "--subject"),
        (["topology", "show", "battlefield", "--site", "X"], "unknown site `X`"),
        (["topology", "check", "-o", "xml"], "xml"),
        (["provision", "--topology", "battlefield", "--ca", "x.pem"], "`--ca` goes with `--bootstrap`"),
        (["provision", "--topology", "battlefield", "--bootstrap", "localhost:1"], "needs `--ca` too"),
        (["broker", "start", "--port", "many"], "many"),
        (["label", "parse", "-t", "a" * 5000, "H"], "cannot be read: File name too long"),
        (["label", "parse", "-t", "a\0b.yaml", "H"], "cannot be read: it is no path"),
    ],
)
def test_bad_input_is_one_clear_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.count("\n") == 1
    assert message in json.loads(captured.out)["error"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_cannot_write_to_the_terminal_what_it_likes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "t.yaml"
    path.write_text('mode: mls\n"\\e]0;pwned\\a\\nt.yaml is sound": 1\n')
    assert run(["topology", "check", str(path), "-o", "table"]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert "\x1b" not in errors
    assert "\x07" not in errors


def test_a_directory_named_like_an_example_is_not_taken_for_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "battlefield").mkdir()
    assert ask(capsys, "label", "parse", "-t", "battlefield", "H", "-o", "json")[0] == 0


def test_a_topology_is_checked_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, answer, _ = ask(capsys, "topology", "check", "battlefield", "-o", "json")
    assert code == 0
    assert answer["ok"] is True
    assert (answer["topics"], answer["principals"], answer["acls"]) == (26, 12, 71)
    code, answer, _ = ask(capsys, "topology", "show", "battlefield", "-o", "json")
    assert len(answer["acls"]) == 71
    assert answer["sites"] == {"L": "L", "H": "H"}
    code, answer, _ = ask(capsys, "topology", "show", "battlefield", "--site", "L", "-o", "json")
    assert answer["levels"] == {"L": []}


def test_tables_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (
        ["topology", "show", "stocks"],
        ["topology", "check", "diamond"],
        ["topology", "examples"],
        ["label", "admits", "-t", "battlefield", "--subject", "H", "L"],
    ):
        assert run([*arguments, "-o", "table"]) == 0
        assert "│" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", [[], ["label"], ["label", "parse"], ["provision"], ["broker", "start"], ["demo"], ["jars"]]
)
def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    assert run([*command, "--help"]) == 0
    assert "Usage: bellwether" in capsys.readouterr().out
