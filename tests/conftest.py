"""Figures that tests work out are printed at the end of the run, where everybody sees them."""

from collections.abc import Callable

import pytest

_figures = pytest.StashKey[list[str]]()
Figure = Callable[[str], None]


@pytest.fixture(scope="session")
def figure(pytestconfig: pytest.Config) -> Figure:
    """Keep a line for the end of the run."""
    return pytestconfig.stash.setdefault(_figures, []).append


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print what was kept."""
    figures = config.stash.get(_figures, [])
    if figures:
        terminalreporter.section("figures")
        for line in figures:
            terminalreporter.write_line(line)
