"""Real brokers for tests."""

from collections.abc import Iterator

import pytest

from topology.embedded.broker import Broker, running


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A fresh broker for all tests of a module, stopped when they are over."""
    with running(tmp_path_factory.mktemp("broker")) as started:
        yield started
