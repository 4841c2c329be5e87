"""`bellwether demo`: the walls go up, hold, and are gone afterwards."""

import subprocess
import sys
import tempfile
from pathlib import Path

from tests.live import command_lines


def test_the_demo_shows_that_every_wall_holds() -> None:
    before = set(Path(tempfile.gettempdir()).glob("bellwether-demo-*"))
    done = subprocess.run(
        [sys.executable, "-m", "console.main", "demo"], capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "READ UP: processor.L reads level.H" in done.stdout
    assert "WRONG" not in done.stdout
    assert "the hole is closed" in done.stderr
    assert "every wall held and every door opened" in done.stderr
    assert set(Path(tempfile.gettempdir()).glob("bellwether-demo-*")) == before
    assert command_lines("bellwether-demo-") == {}
