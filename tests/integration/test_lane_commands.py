"""The commands around lanes, as people meet them: keys, sending, running, looking, and what goes wrong."""

import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from console.commands import run
from tests.integration.lanes import Cluster, cluster_in, stop
from tests.live import SECONDS, eventually
from topology.provisioning.connection import connect


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_in(tmp_path_factory.mktemp("commands")).up() as up:
        yield up


class Console:
    """Runs commands on a cluster and reads their answers."""

    def __init__(self, cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        self._cluster, self._capsys = cluster, capsys

    def __call__(self, *words: str, topology: bool = True, code: int = 0) -> list[dict[str, object]]:
        shape = ["--topology", str(self._cluster.file)] if topology else []
        self._capsys.readouterr()
        assert run([*words, "--data", str(self._cluster.data), *shape, "-o", "json"]) == code
        return [json.loads(line) for line in self._capsys.readouterr().out.splitlines()]

    def error(self, *words: str, topology: bool = True) -> str:
        (answer,) = self(*words, topology=topology, code=2)
        return str(answer["error"])


@pytest.fixture
def console(cluster: Cluster, capsys: pytest.CaptureFixture[str]) -> Console:
    return Console(cluster, capsys)


def lines(path: Path, *values: str) -> str:
    path.write_text("\n".join(values) + "\n")
    return str(path)


def run_until_done(cluster: Cluster, *sites: str) -> None:
    lanes = [cluster.lane(site) for site in sites]
    try:
        assert all(eventually(partial(cluster.caught_up, site)) for site in sites)
    finally:
        assert stop(*lanes) == [0 for _ in lanes]


def test_a_tuple_goes_from_a_source_to_the_levels_that_may_have_it(
    cluster: Cluster, console: Console, tmp_path: Path
) -> None:
    (key,) = console("source", "key", "patrol")
    assert key["proof"] == "hmac"
    assert console("source", "key", "field-hospital")[0]["number"] == 2
    console("send", "Vitals", lines(tmp_path / "low", '{"sid": "a"}', "", '{"sid": "b"}'), "--source", "patrol",
            "--label", "L", "--key-field", "sid")  # fmt: skip
    sent = lines(tmp_path / "high", '{"sid": "c"}')
    assert console("send", "Vitals", sent, "--source", "field-hospital", "--label", "H") == [{"acknowledged": 1}]
    assert console("send", "Vitals", sent, "--source", "patrol", "--label", "H") == [{"acknowledged": 1}]
    assert console("lane", "status", "--site", "L", code=3)[0]["started"] is False
    run_until_done(cluster, "L", "H", "quarantine")
    assert [(key, value) for _, key, value, _ in cluster.seen("level.L")] == [
        (b"a", b'{"sid": "a"}'),
        (b"b", b'{"sid": "b"}'),
    ]
    assert [value for _, _, value, _ in cluster.seen("level.H")] == [b'{"sid": "a"}', b'{"sid": "b"}', b'{"sid": "c"}']
    assert console("lane", "status", "--site", "H")[0]["sequence"] == {"0": 3}
    (shown,) = console("quarantine", "show")
    assert (shown["reason"], shown["source"]) == ("out-of-range", "patrol")
    assert "value" not in shown
    assert console("quarantine", "show", "--payload", "--reason", "out-of-range")[0]["value"] == '{"sid": "c"}'
    assert console("quarantine", "show", "--reason", "bad-proof") == []

    console("source", "revoke-key", str(key["key_id"]), topology=False)
    console("send", "Vitals", sent, "--source", "patrol", "--label", "L")
    (new,) = console("source", "key", "patrol", "--proof", "ed25519-batch")
    assert new["proof"] == "ed25519-batch"
    console("send", "Vitals", lines(tmp_path / "new", '{"sid": "new key"}'), "--source", "patrol", "--label", "L")
    run_until_done(cluster, "L", "quarantine")
    assert cluster.seen("level.L")[-1][2] == b'{"sid": "new key"}'
    assert [entry["reason"] for entry in console("quarantine", "show")] == ["out-of-range", "revoked-key"]
    audit = [json.loads(record.value) for record in cluster.committed("audit")]
    assert {"start", "stop", "policy", "quarantined"} <= {record["event"] for record in audit}


def test_what_is_wrong_is_said_with_its_place_and_nothing_is_done(
    cluster: Cluster, console: Console, tmp_path: Path
) -> None:
    good, bad = lines(tmp_path / "good", "{}"), lines(tmp_path / "bad", "{}", "{}", "{nonsense")
    assert "line 3 is no JSON" in console.error("send", "Vitals", bad, "--source", "recon", "--label", "H")
    assert "no field `sid`" in console.error("send", "Vitals", good, "--source", "recon", "--label", "H",
                                              "--key-field", "sid")  # fmt: skip
    assert "needs a label" in console.error("send", "Vitals", good, "--source", "recon")
    assert "has no stream `Nothing`" in console.error("send", "Nothing", good, "--source", "recon", "--label", "H")
    assert "unknown source `nobody`" in console.error("send", "Vitals", good, "--source", "nobody", "--label", "L")
    assert "unknown source `nobody`" in console.error("source", "key", "nobody")
    assert "needs no key" in console.error("source", "key", "recon", "--proof", "none")
    assert "there is no key `12`" in console.error("source", "revoke-key", "12", topology=False)
    assert "unknown source `patrl`" in console.error("source", "revoke", "patrl")
    assert "asks for a stronger proof" in console.error("send", "Vitals", good, "--source", "recon", "--label", "H")
    great = lines(tmp_path / "great", json.dumps({"sid": "x" * 1_200_000}))
    assert "larger than" in console.error("send", "Vitals", great, "--source", "patrol", "--label", "L")
    assert "unknown site `X`" in console.error("lane", "status", "--site", "X")


def test_a_lane_without_its_files_ends_with_one_line(cluster: Cluster, tmp_path: Path) -> None:
    def last_words(*words: str) -> tuple[int, str]:
        log = cluster.data / "lane.H.log"
        log.unlink(missing_ok=True)
        code = cluster.lane("H", *words).wait(SECONDS)
        return code, log.read_text()

    code, text = last_words("--authority", str(tmp_path / "nowhere"))
    assert code == 2
    assert str(tmp_path / "nowhere") in text
    assert "Traceback" not in text
    code, text = last_words("--authority", str(cluster.where.authority_key))
    assert code == 1
    assert "not the login authority that the lane has known" in text
    cluster.give_keys("recon")
    with cluster.speaker("recon") as speaker:
        speaker.say("Vitals", b"waits for the secret", "H")
    code, text = last_words("--hmac", str(tmp_path))
    assert code != 0
    assert ".secret" in text
    assert "Traceback" not in text
    run_until_done(cluster, "H")  # nothing is lost: with the secret it goes on
    assert cluster.seen("level.H")[-1][2] == b"waits for the secret"


def last_words_without(cluster: Cluster, topic: str, site: str) -> str:
    """What a lane says that refuses to start when a topic has been lost and made anew."""
    with connect(cluster.administrator()) as admin:
        admin.delete_topics([topic])
    cluster.provision()
    log = cluster.data / f"lane.{site}.log"
    log.unlink()
    assert cluster.lane(site).wait(SECONDS) == 1
    return log.read_text()


def test_a_lane_whose_state_is_lost_does_not_start(cluster: Cluster) -> None:
    assert len(cluster.seen("level.L")) > 0
    assert "missing beside a log that is not empty" in last_words_without(cluster, "lane.L", "L")


def test_a_lane_whose_log_is_lost_does_not_start(cluster: Cluster) -> None:
    assert "holds less than its state says" in last_words_without(cluster, "level.H", "H")


def test_a_lane_ends_in_order_while_the_broker_is_away(tmp_path: Path) -> None:
    cluster = cluster_in(tmp_path)
    with cluster.up():
        cluster.give_keys("patrol")
        lane = cluster.lane("L")
        assert eventually(lambda: any(line["event"] == "start" for line in _log(cluster)))
    assert eventually(lambda: any(line["event"] == "away" for line in _log(cluster)))
    assert isinstance(lane, subprocess.Popen)
    assert stop(lane)[0] in (0, 1)


def _log(cluster: Cluster) -> list[dict[str, object]]:
    return cluster.log_of("L") if (cluster.data / "lane.L.log").exists() else []
