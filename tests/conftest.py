"""Figures that tests work out are printed at the end of the run, where everybody sees them."""

import signal
from collections.abc import Callable

import pytest

_figures = pytest.StashKey[list[str]]()
Figure = Callable[[str], None]


@pytest.fixture(scope="session")
def figure(pytestconfig: pytest.Config) -> Figure:
    """Keep a line for the end of the run."""
    return pytestconfig.stash.setdefault(_figures, []).append


def pytest_configure() -> None:
    """Let Ctrl-C reach what the tests start: a shell makes its background jobs, and their children, deaf to it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was kept."""
    figures = config.stash.get(_figures, [])
    if figures:
        terminalreporter.section("figures")
        for line in figures:
            terminalreporter.write_line(line)
