"""A hostile source with valid credentials sends lanes whatever bytes a broker takes; tuples of others get through."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import Figure
from tests.hostile_producer import ODDITIES, Answer, offer, value_of_batch_size
from tests.integration.lanes import Cluster, cluster_in, stop
from tests.live import eventually
from topology.kafka_plan import input_topic, source_principal
from topology.provisioning.connection import connect

MOST_LANE_MB = 512
HONEST = 200
LIMIT = 1_000_000


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_in(tmp_path_factory.mktemp("hostile")).up() as up:
        up.give_keys("patrol", "field-hospital")
        yield up


def test_lanes_bear_every_odd_batch_and_quarantine_it(cluster: Cluster, figure: Figure) -> None:
    topic = next(input_topic(g) for g in cluster.topology.groups if g.stream == "Vitals" and "patrol" in g.sources)
    lanes = [cluster.lane(site) for site in ("L", "quarantine")]
    try:
        with (
            connect(cluster.door(source_principal("patrol"))) as hostile,
            cluster.speaker("patrol") as neighbour,
            cluster.speaker("field-hospital") as other,
        ):
            odd = [build() for build in ODDITIES.values()] + [value_of_batch_size(LIMIT)]
            for number, batch in enumerate(odd * 2):
                assert offer(hostile, topic, batch) is Answer.NONE
                if number % 5 == 0:
                    neighbour.say("Vitals", b"honest %d" % number, "L")  # in the same topic
                    neighbour.flush()
            for number in range(HONEST):
                other.say("Vitals", b"honest %d" % number, "L")
            said = neighbour.flush() + other.flush()
        assert all(eventually(partial(cluster.caught_up, site)) for site in ("L", "quarantine"))
        assert len(cluster.seen("level.L")) == said
        refused = Counter(dict(headers)["bw-reason"].decode() for _, _, _, headers in cluster.seen("quarantine"))
        assert set(refused) == {"no-says", "unreadable"}
        assert all(lane.poll() is None for lane in lanes)
        peaks = [_peak_mb(lane.pid) for lane in lanes]
        assert max(peaks) < MOST_LANE_MB
    finally:
        stop(*lanes)
    figure(
        f"{len(odd) * 2} hostile batches: all {said} tuples of others admitted, quarantined {dict(refused)}; "
        f"lanes held {max(peaks)} MB at most"
    )


def _peak_mb(pid: int) -> int:
    with Path(f"/proc/{pid}/status").open() as status:
        return next(int(line.split()[1]) >> 10 for line in status if line.startswith("VmHWM"))
