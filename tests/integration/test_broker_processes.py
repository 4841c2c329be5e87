"""The embedded broker as a process: its data lasts, its secrets stay secret, and it leaves nobody behind."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.live import command_lines, enter, eventually, read, write
from topology import BrokerError
from topology.embedded import broker as embedded
from topology.embedded.broker import running
from topology.embedded.home import Home
from topology.provisioning.connection import connect

BELLWETHER = [sys.executable, "-m", "console.main"]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A cluster's directory; whatever a test leaves running there is a failure, and is ended."""
    yield tmp_path
    left = command_lines(str(tmp_path))
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == {}


def bellwether(*arguments: str, code: int = 0) -> dict[str, object]:
    done = subprocess.run(
        [*BELLWETHER, *arguments, "-o", "json"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == code, done.stderr
    return dict(json.loads(done.stdout))


def test_data_ports_and_secrets_last_over_restarts(directory: Path) -> None:
    with running(directory) as first:
        door = first.home.connection()
        with connect(door) as admin:
            admin.create_topics({"kept": {"num_partitions": 1, "replication_factor": 1}})
        write(door, "kept", b"a tuple")
        secrets = {path.name: path.read_bytes() for path in first.home.secrets.iterdir()}
    with running(directory) as second:
        assert second.home.connection() == door
        assert read(door, "kept", 1) == [b"a tuple"]
        assert {path.name: path.read_bytes() for path in second.home.secrets.iterdir()} == secrets


def test_secrets_are_private_and_never_in_a_command_line_or_the_log(directory: Path) -> None:
    home, seen, done = Home(directory), dict[int, str](), threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            seen.update(command_lines(str(directory)))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with running(directory) as started:
            enter(started.home.connection())
    finally:
        done.set()
        watcher.join()
    passwords = [(home.secrets / name).read_text().strip() for name in ("admin.password", "controller.password")]
    assert len(seen) >= 2, "the format tool and the broker should have been seen"
    assert [line for line in seen.values() for password in passwords if password in line] == []
    assert not any(password in home.log.read_text() for password in passwords)
    for path in [home.properties, home.log, home.output, home.state, home.data, *home.secrets.iterdir()]:
        assert path.stat().st_mode & 0o077 == 0, path
    assert home.directory.stat().st_mode & 0o077 == 0
    assert not list(directory.glob("format.*"))


def test_a_second_broker_in_the_same_directory_is_refused(directory: Path) -> None:
    with (
        running(directory),
        pytest.raises(BrokerError, match=rf"already \(process {os.getpid()}\)"),
        running(directory),
    ):
        pass


def test_a_killed_parent_leaves_no_broker_and_the_next_start_works(directory: Path) -> None:
    parent = _foreground(directory)
    assert len(command_lines(str(directory / "broker"))) >= 1
    parent.kill()
    parent.wait()
    with running(directory / "broker") as started:  # waits for the orphan to end
        enter(started.home.connection())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_a_broker_in_the_foreground(directory: Path, number: signal.Signals) -> None:
    parent = _foreground(directory)
    parent.send_signal(number)
    assert parent.wait(timeout=120) == 0
    assert command_lines(str(directory)) == {}


def test_a_broker_in_the_background_is_started_seen_and_stopped(directory: Path) -> None:
    data = ("--data", str(directory))
    assert bellwether("broker", "status", *data, code=1)["status"] == "stopped"
    started = bellwether("broker", "start", *data)
    assert started["status"] == "running"
    enter(Home(directory / "broker").connection())
    assert bellwether("broker", "status", *data) == started
    again = bellwether("broker", "start", *data, code=1)
    assert "a broker runs in" in str(again["error"])
    subprocess.run([*BELLWETHER, "broker", "stop", *data], check=True, timeout=120)
    assert bellwether("broker", "status", *data, code=1)["status"] == "stopped"
    assert embedded.stop(directory / "broker") is False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_starter_stopped_half_way_leaves_nothing(directory: Path, number: signal.Signals) -> None:
    starter = subprocess.Popen(
        [*BELLWETHER, "broker", "start", "--data", str(directory)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert eventually(lambda: any("kafka.Kafka" in line for line in command_lines(str(directory)).values()))
    starter.send_signal(number)
    starter.communicate(timeout=120)
    assert starter.returncode == (130 if number == signal.SIGINT else -9)
    assert eventually(lambda: command_lines(str(directory)) == {})
    with running(directory / "broker"):
        pass


def test_a_background_broker_that_dies_is_seen_as_stopped(directory: Path) -> None:
    data = ("--data", str(directory))
    bellwether("broker", "start", *data)
    (broker,) = [pid for pid, line in command_lines(str(directory)).items() if "kafka.Kafka" in line]
    os.kill(broker, signal.SIGKILL)
    assert eventually(lambda: not Home(directory / "broker").is_held())
    assert bellwether("broker", "status", *data, code=1)["status"] == "stopped"
    bellwether("broker", "start", *data)
    subprocess.run([*BELLWETHER, "broker", "stop", *data], check=True, timeout=120)


def test_provisioning_from_the_command_line(directory: Path) -> None:
    data = ("--data", str(directory), "--topology", "battlefield")
    missing = bellwether("provision", *data, code=1)
    assert "no broker has run" in str(missing["error"])
    bellwether("broker", "start", "--data", str(directory))
    try:
        drift = bellwether("provision", *data, "--check", code=3)
        assert len(list(drift["drift"])) == 109  # type: ignore[call-overload]
        assert len(list(bellwether("provision", *data)["repaired"])) == 109  # type: ignore[call-overload]
        assert bellwether("provision", *data, "--check") == {"drift": []}
        assert bellwether("provision", *data)["repaired"] == []
        wrong = bellwether("provision", "--data", str(directory), "--topology", "diamond", code=1)
        assert "was provisioned for topology `battlefield`" in str(wrong["error"])
    finally:
        subprocess.run([*BELLWETHER, "broker", "stop", "--data", str(directory)], check=True, timeout=120)


def _foreground(directory: Path) -> "subprocess.Popen[str]":
    command = [*BELLWETHER, "broker", "start", "--foreground", "--data", str(directory), "-o", "json"]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert parent.stdout is not None
    status = json.loads(parent.stdout.readline())
    assert status["status"] == "running"
    parent.stdout.close()
    time.sleep(0.1)
    return parent


def test_a_killed_parent_leaves_no_format_tool_and_no_password_file(directory: Path) -> None:
    command = [*BELLWETHER, "broker", "start", "--foreground", "--data", str(directory)]
    parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert eventually(lambda: any("format.arguments" in line for line in command_lines(str(directory)).values()))
    parent.kill()
    parent.wait()
    with running(directory / "broker"):
        assert not list((directory / "broker").glob("format.*"))


def test_code_in_the_current_directory_is_not_run(directory: Path) -> None:
    trap = directory / "trap"
    trap.mkdir()
    for name in ("json", "topology", "kafka"):
        (trap / f"{name}.py").write_text(f"open({str(directory / 'sprung')!r}, 'w')\n")
    script = Path(sys.executable).with_name("bellwether")
    data = str(directory / "data")
    subprocess.run([script, "broker", "start", "--data", data], cwd=trap, check=True, timeout=300, capture_output=True)
    subprocess.run([script, "broker", "stop", "--data", data], cwd=trap, check=True, timeout=120, capture_output=True)
    assert not (directory / "sprung").exists()


@pytest.mark.parametrize("port", ["99999", "-1", "many"])
def test_an_impossible_port_is_refused_before_anything_is_made(directory: Path, port: str) -> None:
    for more in ([], ["--foreground"]):
        refused = bellwether("broker", "start", "--data", str(directory / "d"), f"--port={port}", *more, code=2)
        assert "port" in str(refused["error"]).lower()
    assert not (directory / "d").exists()


def test_a_demo_that_is_terminated_leaves_no_secrets(directory: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(directory)}
    demo = subprocess.Popen(
        [*BELLWETHER, "demo"], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert eventually(lambda: bool(list(directory.glob("bellwether-demo-*/broker.json"))))
    demo.terminate()
    assert demo.wait(timeout=120) == 143
    assert list(directory.iterdir()) == []
