"""The process of a lane: opens it, runs it, opens it anew when the cluster was away, ends it in order (R8)."""

import gc
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from prometheus_client import start_http_server

from shepherd.lane.client import Away, Client, LaneError
from shepherd.lane.lane import TICK_SECONDS, Lane
from shepherd.lane.metrics import Figure, lane_figures, level_figures, registry

BACK_OFF_SECONDS = 1.0  # fixed: how often a lane tries tells nothing of what it skips
DRAIN_SECONDS = 20  # after a signal to stop; then the process ends as it is, and the next start goes on from there
LOOPBACK = "127.0.0.1"


def log(event: str, **fields: object) -> None:
    """A line of the structured log, at system high; never a payload."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    print(json.dumps({"time": stamp, "event": event, **fields}), file=sys.stderr, flush=True)


def tune_collector() -> None:
    """Tuples by the thousand live for a moment and hold no cycles: let the collector look less often."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


class Process:
    """Runs a lane until a signal."""

    def __init__(self, open_lane: Callable[[Client], Lane], connect: Callable[[], Client]) -> None:
        self._open_lane, self._connect = open_lane, connect
        self._lane: Lane | None = None
        self._stopping = False

    def serve(self, port: int | None, level_port: int | None, host: str) -> None:
        """Serve metrics: the lane's own on one port, the level's allow-list on another."""
        for number, figures in ((port, lane_figures), (level_port, level_figures)):
            if number is not None:
                start_http_server(number, host, registry(partial(self._now, figures)))

    def run(self) -> None:
        """Until SIGTERM or SIGINT; a LaneError that ends it goes to the caller."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGALRM, self._give_up)
        tune_collector()
        while not self._stopping:
            client = self._connect()
            try:
                self._run(client)
            except Away as error:
                log("away", why=str(error))
                client.wait(BACK_OFF_SECONDS)
            finally:
                client.close()

    def _run(self, client: Client) -> None:
        lane = self._lane = self._open_lane(client)
        log("start", lane=lane.name, at={str(strand.partition): strand.sequence for strand in lane.strands})
        while not self._stopping:
            if not lane.step():
                client.wait(TICK_SECONDS)
        lane.drain()
        log("stop", lane=lane.name, at={str(strand.partition): strand.sequence for strand in lane.strands})

    def _now(self, figures: Callable[[Lane], Iterator[Figure]]) -> list[Figure]:
        return list(figures(self._lane)) if self._lane else []

    def _stop(self, *_: object) -> None:
        self._stopping = True
        signal.alarm(DRAIN_SECONDS)

    def _give_up(self, *_: object) -> None:
        raise LaneError(f"the cluster did not let the lane end in {DRAIN_SECONDS} seconds; nothing is lost")
