"""`bellwether demo`: a cluster's walls go up before your eyes, and hold."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from cyclopts import App
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError, TopicAuthorizationFailedError

from console.jars import fetch_with_progress
from console.output import print_table, say
from topology import ClusterError, LoginRefused, Operation, closure, load_example, plan
from topology.embedded.broker import running
from topology.embedded.home import Home
from topology.kafka_plan import KafkaPlan, input_topic, site_principal, source_principal
from topology.provisioning import kafka
from topology.provisioning.acls import plant
from topology.provisioning.connection import Connection, connect
from topology.provisioning.drift import Binding, binding
from topology.provisioning.secrets import Secrets

app = App(name="demo", help="Bring a two-level cluster's walls up on this machine, try to climb them, and exit.")
WAIT_SECONDS = 30


@dataclass(frozen=True)
class Attempt:
    """Something that somebody tries on the live broker, and whether it must work."""

    what: str
    must_work: bool
    act: Callable[[], None]


@app.default
def demo() -> int:
    """Bring a two-level cluster's walls up on this machine, try to climb them, and exit.

    Everything is real: a Kafka broker with TLS, SCRAM and ACLs. It lives in a temporary directory and is
    gone afterwards. The exit code is 0 if every wall held and every door opened.
    """
    fetch_with_progress()
    topology = load_example("battlefield")
    planned = plan(topology)
    with (
        tempfile.TemporaryDirectory(prefix="bellwether-demo-") as directory,
        running(Path(directory), say=say) as broker,
    ):
        door, secrets = broker.home.connection(), Secrets(broker.home.secrets / "principals")
        say(f"a broker answers at {door.bootstrap}; now the walls of topology {topology.name}:")
        with connect(door) as admin:
            kafka.provision(admin, planned, secrets, door, say)
        _show_walls(planned)
        failures = _try_all(_attempts(broker.home, secrets))
        failures += _loosen_and_mend(door, planned, secrets)
    verdict = "every wall held and every door opened" if not failures else f"{failures} attempts went wrong"
    say(f"\n{verdict}; the broker is stopped and its files are gone")
    return 1 if failures else 0


def _show_walls(planned: KafkaPlan) -> None:
    allowed = {(acl.principal, acl.operation, acl.resource.name) for acl in closure(planned.acls)}
    topics = ["level.L", "level.H", "result.L", "result.H"]
    rows = []
    for who in sorted({acl.principal for acl in planned.acls if acl.resource.name in topics}):
        cells = [
            "".join(o.name[0] for o in (Operation.READ, Operation.WRITE) if (who, o, t) in allowed) for t in topics
        ]
        rows.append((who, *(cell or "·" for cell in cells)))
    print_table(("principal", *topics), rows, "who may R(ead) and W(rite): all else is denied, by absence")


def _attempts(home: Home, secrets: Secrets) -> list[Attempt]:
    def door(principal: str) -> Connection:
        return replace(home.connection(), username=principal, password=secrets.password(principal))

    low, high = site_principal("processor", "L"), site_principal("processor", "H")
    patrol = source_principal("patrol")
    inputs = {
        group.name[0]: input_topic(group) for group in load_example("battlefield").groups if group.stream == "Position"
    }
    wrong = replace(home.connection(), password="a guess")  # noqa: S106
    return [
        Attempt("lane.L writes a tuple to level.L", True, lambda: _write(door("lane.L"), "level.L")),
        Attempt("lane.H writes a tuple to level.H", True, lambda: _write(door("lane.H"), "level.H")),
        Attempt(f"{low} reads level.L", True, lambda: _read(door(low), "level.L")),
        Attempt(f"{high} reads level.H", True, lambda: _read(door(high), "level.H")),
        Attempt(f"READ UP: {low} reads level.H", False, lambda: _read(door(low), "level.H")),
        Attempt(f"WRITE DOWN: {high} writes result.L", False, lambda: _write(door(high), "result.L")),
        Attempt(f"{low} forges its own level log", False, lambda: _write(door(low), "level.L")),
        Attempt(f"{patrol} reports on its own topic", True, lambda: _write(door(patrol), inputs["L"])),
        Attempt(f"{patrol} reports as a source of level H", False, lambda: _write(door(patrol), inputs["H"])),
        Attempt(f"{patrol} reads what it wrote", False, lambda: _read(door(patrol), inputs["L"])),
        Attempt("somebody guesses the administrator's password", False, lambda: _enter(wrong)),
    ]


def _try_all(attempts: list[Attempt]) -> int:
    rows, failures = [], 0
    for attempt in attempts:
        try:
            attempt.act()
            outcome = "done"
        except (TopicAuthorizationFailedError, LoginRefused) as error:
            outcome = "login refused" if isinstance(error, LoginRefused) else "refused by the broker"
        except (KafkaError, ClusterError) as error:
            outcome = f"FAILED: {type(error).__name__}: {error}"
        right = outcome == "done" if attempt.must_work else "refused" in outcome
        failures += not right
        rows.append((attempt.what, outcome, "✓" if right else "✗ WRONG"))
    print_table(("attempt on the live broker", "outcome", ""), rows, "doors and walls")
    return failures


def _loosen_and_mend(door: Connection, planned: KafkaPlan, secrets: Secrets) -> int:
    """Open a hole by hand, and see that provisioning finds and closes it."""
    granted = next(acl for acl in planned.acls if acl.principal == "processor.H" and acl.resource.name == "level.H")
    hole = binding(replace(granted, principal="processor.L"))
    with connect(door) as admin:
        plant(admin, [hole])
        found = _wait_for_drift(lambda: [d.what for d in kafka.check(admin, planned, secrets, door).differences])
        say(f"somebody loosened an ACL by hand; `provision --check` says: {'; '.join(found) or 'NOTHING'}")
        kafka.provision(admin, planned, secrets, door, say)
        left = kafka.check(admin, planned, secrets, door).differences
    say("the hole is closed" if not left else f"STILL OPEN: {left}")
    return int(not _names(hole, found)) + int(bool(left))


def _names(hole: Binding, found: list[str]) -> bool:
    return any(str(hole) in what for what in found)


def _wait_for_drift(look: Callable[[], list[str]]) -> list[str]:
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def _enter(door: Connection) -> None:
    with connect(door):
        pass


def _write(door: Connection, topic: str) -> None:
    producer = KafkaProducer(**door.client_settings(), enable_idempotence=False, max_block_ms=WAIT_SECONDS * 1000)
    try:
        producer.send(topic, b"a tuple").get(timeout=WAIT_SECONDS)
    finally:
        producer.close()


def _read(door: Connection, topic: str) -> None:
    # Kafka's consumer reads nothing and says nothing if it may not even see the topic, so ask for that first.
    with connect(door) as admin:
        if admin.describe_topics([topic])[0]["error_code"] == TopicAuthorizationFailedError.errno:
            raise TopicAuthorizationFailedError
    consumer = KafkaConsumer(**door.client_settings(), group_id=None, auto_offset_reset="earliest")
    try:
        consumer.subscribe([topic])
        deadline = time.monotonic() + WAIT_SECONDS
        while not consumer.poll(timeout_ms=500):
            if time.monotonic() > deadline:
                raise ClusterError(f"nothing arrived from `{topic}` in {WAIT_SECONDS} seconds")
    finally:
        consumer.close()
