"""A level sees of its lane's metrics what the allow-list says, and nothing that tells of skipped work."""

from functools import partial
from types import SimpleNamespace
from typing import Any

from prometheus_client import generate_latest

from shepherd.lane.metrics import lane_figures, level_figures, registry

ALLOWED = {
    "bellwether_level_admitted_total",
    "bellwether_level_admitted_bytes_total",
    "bellwether_level_newest_timestamp_seconds",
}


def a_lane(**changed: Any) -> Any:
    feed = SimpleNamespace(skipped=7, refused=3, held_bytes=11)
    strand = SimpleNamespace(feeds=[feed], newest=12_000, late=1)
    lane = {
        "strands": [strand], "admitted": 5, "admitted_bytes": 500, "transactions": 2, "behind": 4, "ignored": 6,
        "history": SimpleNamespace(number=9),
    }  # fmt: skip
    return SimpleNamespace(**(lane | changed))


def names(text: str) -> set[str]:
    return {line.split()[0] for line in text.splitlines() if not line.startswith("#")}


def test_a_level_gets_the_allow_list_and_no_process_collectors() -> None:
    text = generate_latest(registry(lambda: level_figures(a_lane()))).decode()
    assert names(text) == ALLOWED
    assert "bellwether_level_admitted_total 5.0" in text
    assert "bellwether_level_newest_timestamp_seconds 12.0" in text


def test_what_was_skipped_changes_nothing_that_a_level_sees() -> None:
    quiet = SimpleNamespace(feeds=[SimpleNamespace(skipped=0, refused=0, held_bytes=0)], newest=12_000, late=0)
    worlds = [a_lane(), a_lane(strands=[quiet], transactions=0, behind=0, ignored=0)]
    assert len({generate_latest(registry(partial(level_figures, lane))) for lane in worlds}) == 1


def test_system_high_sees_everything() -> None:
    shown = names(generate_latest(registry(lambda: lane_figures(a_lane()))).decode())
    assert shown > ALLOWED
    assert {"bellwether_lane_skipped_total", "bellwether_lane_refused_total", "bellwether_lane_late_total"} <= shown
