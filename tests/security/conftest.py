"""A broker of its own for each topology, provisioned as in production, and hands to loosen its walls."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import pytest
from kafka.admin import KafkaAdminClient

from tests.live import eventually
from tests.security.policy_matrix import Names, names_of
from topology import load
from topology.embedded.broker import running
from topology.embedded.home import Home
from topology.kafka_plan import KafkaPlan, plan
from topology.provisioning.acls import plant, stored_bindings, uproot
from topology.provisioning.connection import Connection, connect
from topology.provisioning.drift import Binding
from topology.provisioning.kafka import provision
from topology.provisioning.secrets import Secrets


@dataclass(frozen=True)
class Live:
    """A provisioned broker."""

    plan: KafkaPlan
    home: Home
    secrets: Secrets

    @property
    def names(self) -> Names:
        """All that is knocked at."""
        return names_of(self.plan)

    def connection(self, principal: str) -> Connection:
        """How a principal of the plan reaches the broker."""
        return replace(self.home.connection(), username=principal, password=self.secrets.password(principal))

    def connections(self) -> list[Connection]:
        """All principals of the plan."""
        return [self.connection(principal) for principal in self.plan.principals]


@pytest.fixture(scope="module")
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """The example topology that the parameter names, on a fresh broker."""
    wanted = plan(load(request.param))
    with running(tmp_path_factory.mktemp(request.param)) as broker:
        secrets = Secrets(broker.home.secrets / "principals")
        with connect(broker.home.connection()) as admin:
            provision(admin, wanted, secrets, broker.home.connection(), say=lambda text: None)
        yield Live(wanted, broker.home, secrets)


@pytest.fixture
def admin(live: Live) -> Iterator[KafkaAdminClient]:
    """The administrator's client."""
    with connect(live.home.connection()) as client:
        yield client


Change = Callable[[Binding], AbstractContextManager[None]]


@pytest.fixture
def planted(admin: KafkaAdminClient) -> Change:
    """One ACL more, for a block."""

    @contextmanager
    def change(binding: Binding) -> Iterator[None]:
        assert binding not in stored_bindings(admin), "it is there already"
        _create(admin, binding)
        try:
            yield
        finally:
            _delete(admin, binding)

    return change


@pytest.fixture
def removed(admin: KafkaAdminClient) -> Change:
    """One ACL less, for a block."""

    @contextmanager
    def change(binding: Binding) -> Iterator[None]:
        assert binding in stored_bindings(admin), "it is not there"
        _delete(admin, binding)
        try:
            yield
        finally:
            _create(admin, binding)

    return change


def _create(admin: KafkaAdminClient, binding: Binding) -> None:
    plant(admin, [binding])
    assert eventually(lambda: binding in stored_bindings(admin))


def _delete(admin: KafkaAdminClient, binding: Binding) -> None:
    uproot(admin, [binding])
    assert eventually(lambda: binding not in stored_bindings(admin))
