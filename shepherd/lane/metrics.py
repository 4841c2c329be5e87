"""A lane's metrics. Its own are system high; its level gets the allow-list of R7, from a registry of its own."""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from shepherd.lane.lane import Lane

Figure = tuple[str, str, float]  # name, help, value; a name that ends in `_total` counts


class _Collected(Collector):
    def __init__(self, figures: Callable[[], Iterable[Figure]]) -> None:
        self._figures = figures

    def collect(self) -> Iterator[Metric]:
        for name, text, value in self._figures():
            counts = name.endswith("_total")
            yield CounterMetricFamily(name, text, value=value) if counts else GaugeMetricFamily(name, text, value=value)

    def describe(self) -> list[Metric]:
        return []


def registry(figures: Callable[[], Iterable[Figure]]) -> CollectorRegistry:
    """A registry with these figures and nothing else: no process collectors, which would tell of skipped work."""
    found = CollectorRegistry(auto_describe=False)
    found.register(_Collected(figures))
    return found


def level_figures(lane: Lane) -> Iterator[Figure]:
    """R7: all that a level may know of its lane."""
    yield "bellwether_level_admitted_total", "Tuples in the level log since the lane started", lane.admitted
    yield "bellwether_level_admitted_bytes_total", "Their bytes, keys and values", lane.admitted_bytes
    newest = max((strand.newest for strand in lane.strands), default=0)
    yield "bellwether_level_newest_timestamp_seconds", "Append time of the newest tuple", newest / 1000


def lane_figures(lane: Lane) -> Iterator[Figure]:
    """Everything, for system high."""
    yield from level_figures(lane)
    feeds = [feed for strand in lane.strands for feed in strand.feeds]
    yield "bellwether_lane_skipped_total", "Tuples that the site may not have", sum(feed.skipped for feed in feeds)
    yield "bellwether_lane_refused_total", "Tuples that proved nothing", sum(feed.refused for feed in feeds)
    yield "bellwether_lane_late_total", "Tuples placed after their time", sum(strand.late for strand in lane.strands)
    yield "bellwether_lane_transactions_total", "Transactions committed", lane.transactions
    yield "bellwether_lane_behind_records", "Input records not yet read", lane.behind
    yield "bellwether_lane_held_bytes", "Bytes read and not yet published", sum(feed.held_bytes for feed in feeds)
    yield "bellwether_lane_policy_number", "Number of the last policy change", lane.history.number
    yield "bellwether_lane_policy_ignored_total", "Policy records that count for nothing", lane.ignored
