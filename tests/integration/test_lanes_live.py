"""Lanes as processes on a real broker: killed at every step, fenced, without a broker, built again."""

import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import Figure
from tests.integration.lanes import Cluster, Load, cluster_in, stop
from tests.integration.victim import STEPS
from tests.live import SECONDS, eventually
from tests.raw_batches import Batch
from topology.provisioning.connection import connect

KILLS = int(os.environ.get("BELLWETHER_KILLS", "50"))
BROKER_KILLS = 5
SITES = ("L", "H")
SAID = [
    ("patrol", "Vitals", "L"),
    ("recon", "Vitals", "H"),
    ("field-hospital", "Vitals", "L"),
    ("field-hospital", "Vitals", "H"),
    ("patrol", "Position", "L"),
    ("patrol", "Vitals", "H"),  # out of its range
]
FENCED = 1  # exit code of a lane that ends by an error


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker with the battlefield's walls, and keys for its sources."""
    with cluster_in(tmp_path_factory.mktemp("lanes")).up() as up:
        up.give_keys("patrol", "recon", "field-hospital")
        yield up


def finish(cluster: Cluster, *sites: str) -> None:
    """Run lanes until they are done with all that there is, and end them in order."""
    processes = [cluster.lane(site) for site in sites]
    assert all(eventually(partial(cluster.caught_up, site)) for site in sites)
    assert stop(*processes) == [0 for _ in sites]


def assert_as_specified(cluster: Cluster, *sites: str) -> None:
    oracle = cluster.oracle()
    for site in sites:
        if site == "quarantine":
            found = [(dict(headers)["bw-reason"].decode(), *dict(headers)["bw-from"].decode().split())
                     for _, _, _, headers in cluster.seen("quarantine")]  # fmt: skip
            expected = [
                (reason, topic, str(partition), str(offset))
                for refusals in oracle.quarantine().values()
                for reason, topic, partition, offset in refusals
            ]
            assert sorted(found) == sorted(expected)
        else:
            expected_log = oracle.level(cluster.topology.sites[site]).log[0]
            found_log = cluster.seen(f"level.{site}")
            assert len(found_log) == len(expected_log)
            assert found_log == expected_log


def test_a_lane_killed_at_every_step_loses_doubles_and_misplaces_nothing(cluster: Cluster, figure: Figure) -> None:
    kills: Counter[str] = Counter()
    chance = random.Random(4)
    plan = [f"{STEPS[number % len(STEPS)]}:{chance.randint(1, 6)}" for number in range(KILLS)]
    queue = iter(plan)
    lock = threading.Lock()

    def die_and_die_again(site: str) -> None:
        while True:
            with lock:
                death = next(queue, None)
            if death is None:
                return
            process = cluster.lane(site, dies_at=death)
            assert process.wait(SECONDS * 2) == -signal.SIGKILL, cluster.log_of(site)[-3:]
            with lock:
                kills[death.split(":")[0]] += 1

    with Load(cluster, SAID) as load:
        threads = [threading.Thread(target=die_and_die_again, args=(site,)) for site in SITES]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert load.errors == []
    assert kills.total() == KILLS
    finish(cluster, *SITES, "quarantine")
    assert_as_specified(cluster, *SITES, "quarantine")
    aborted = {site: len(cluster.aborted(f"level.{site}")) for site in SITES}
    assert sum(aborted.values()) > 0, "no death left an aborted transaction behind: the steps are not where they seem"
    for site in SITES:  # nothing of an aborted transaction is readable
        committed = [
            (record.timestamp, record.key, record.value, record.headers)
            for record in cluster.committed(f"level.{site}")
        ]
        assert committed == cluster.seen(f"level.{site}")
    steps = ", ".join(f"{step} {count}" for step, count in kills.items())
    figure(
        f"lanes killed {KILLS} times ({steps}) under {load.acknowledged:,} tuples: 0 lost, doubled, reordered or at a "
        f"wrong level; aborted transactions left: {aborted}"
    )


def test_a_broker_killed_under_the_lanes_costs_nothing(tmp_path: Path, figure: Figure) -> None:
    cluster = cluster_in(tmp_path)
    lanes: dict[str, subprocess.Popen[bytes]] = {}

    def goes_on(site: str, at: int) -> bool:
        return eventually(lambda: _alive(cluster, lanes, site) and cluster.end(f"level.{site}") > at)

    load = Load(cluster, SAID)
    try:
        for number in range(BROKER_KILLS + 1):
            with cluster.up():
                if number == 0:
                    cluster.give_keys("patrol", "recon", "field-hospital")
                    load.__enter__()
                    lanes |= {site: cluster.lane(site) for site in SITES}
                assert all(goes_on(site, cluster.end(f"level.{site}")) for site in SITES), (load.errors, number)
                if number < BROKER_KILLS:
                    os.kill(cluster.broker.process.pid, signal.SIGKILL)
                    cluster.broker.wait()
                    continue
                load.__exit__()
                assert all(eventually(partial(cluster.caught_up, site)) for site in SITES)
                stop(*lanes.values())
                assert_as_specified(cluster, *SITES)
    finally:
        load.__exit__()
        stop(*lanes.values(), number=signal.SIGKILL)
    opened = {site: sum(line["event"] == "start" for line in cluster.log_of(site)) for site in SITES}
    figure(f"broker killed {BROKER_KILLS} times under {load.acknowledged:,} tuples: logs as specified; opened {opened}")


def _alive(cluster: Cluster, lanes: "dict[str, subprocess.Popen[bytes]]", site: str) -> bool:
    """What a supervisor does: a lane that ended is started again."""
    if lanes[site].poll() is not None:
        lanes[site] = cluster.lane(site)
    return True


def test_a_lane_that_was_replaced_ends_and_writes_nothing(cluster: Cluster) -> None:
    with Load(cluster, SAID, per_second=100):
        zombie = cluster.lane("L")
        assert eventually(lambda: cluster.end("level.L") > 0)
        os.kill(zombie.pid, signal.SIGSTOP)
        heir = cluster.lane("L")
        at = cluster.end("level.L")
        assert eventually(lambda: cluster.end("level.L") > at + 20)
        os.kill(zombie.pid, signal.SIGCONT)
        assert zombie.wait(SECONDS) == FENCED
    assert eventually(lambda: cluster.caught_up("L"))
    assert heir.poll() is None
    assert stop(heir) == [0]
    assert_as_specified(cluster, "L")


def test_a_log_built_again_has_the_same_bytes(cluster: Cluster) -> None:
    with Load(cluster, SAID):
        time.sleep(3)
    finish(cluster, "H")
    before = cluster.raw("level.H")
    with connect(cluster.administrator()) as admin:
        admin.delete_topics(["level.H", "lane.H"])
    assert eventually(lambda: "level.H" not in _topics(cluster))
    cluster.provision()
    finish(cluster, "H")
    after = cluster.raw("level.H")
    assert len(after) > 2
    assert [_shape(batch) for batch in after] == [_shape(batch) for batch in before]


def _shape(batch: Batch) -> object:
    """A batch without what a commit's moment and a producer's number make of it."""
    return (
        (batch.base_offset, batch.marker) if batch.control else (batch.base_offset, batch.base_sequence, batch.records)
    )


def _topics(cluster: Cluster) -> list[str]:
    with connect(cluster.administrator()) as admin:
        return list(admin.list_topics())
