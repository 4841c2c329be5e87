"""The README's commands and answers are what the program gives; its setup speaks plainly when it cannot."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from console.commands import run

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SESSIONS = re.findall(r"```console\n(.*?)```", README, re.DOTALL)
EXCHANGES = [
    exchange for session in SESSIONS for exchange in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", session, re.MULTILINE)
]


@pytest.mark.parametrize(("command", "answer"), EXCHANGES)
def test_a_command_of_the_readme_gives_the_printed_answer(
    command: str, answer: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *arguments = shlex.split(command)
    assert program == "bellwether"
    run(arguments)
    assert capsys.readouterr().out == answer


def test_the_readme_names_only_files_that_are_there() -> None:
    assert len(EXCHANGES) >= 6
    names = re.findall(r"`(tests/[\w/]+\.py)`", README) + re.findall(r"\]\(([\w/.]+)\)", README)
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_yaml_of_the_readme_is_a_sound_topology(tmp_path: Path) -> None:
    text = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)[0]
    (tmp_path / "bellwether.yaml").write_text(text)
    assert run(["topology", "check", str(tmp_path / "bellwether.yaml")]) == 0


def test_make_help_lists_every_target() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"demo", "test", "setup", "lint", "types", "unit", "integration"} <= set(targets)
    assert [target for target in targets if f"make {target}" not in listed] == []


def fake(directory: Path, name: str, output: str) -> str:
    path = directory / name
    path.write_text(f"#!/bin/sh\necho '{output}' >&2\nexit 1\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("old python", "setup: Python 3.11 or newer is needed; found Python 3.9.2. Set PYTHON to another one."),
        ("no java", "setup: Java 17 or newer is needed; none was found. Install one or set JAVA_HOME."),
        ("old java", "setup: Java 17 or newer is needed; found Java 11. Set JAVA_HOME to another one."),
        ("very old java", "setup: Java 17 or newer is needed; found Java 8. Set JAVA_HOME to another one."),
    ],
)
def test_a_missing_or_old_prerequisite_gets_one_clear_line(tmp_path: Path, what: str, message: str) -> None:
    environment = {"PATH": os.environ["PATH"]}
    (tmp_path / "bin").mkdir()
    match what:
        case "old python":
            environment["PYTHON"] = fake(tmp_path, "python", "Python 3.9.2")
        case "no java":
            environment["JAVA_HOME"] = str(tmp_path / "nowhere")
        case "old java":
            fake(tmp_path / "bin", "java", 'openjdk version "11.0.2" 2019-01-15')
            environment["JAVA_HOME"] = str(tmp_path)
        case "very old java":
            fake(tmp_path / "bin", "java", 'java version "1.8.0_292"')
            environment["JAVA_HOME"] = str(tmp_path)
    done = subprocess.run([ROOT / "tools" / "setup"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == message + "\n"
    assert done.stdout == ""
