"""One timed run of a lane in a process of its own, over input that is all there: from opened until published."""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

from shepherd.lane.kafka_client import KafkaPythonClient
from shepherd.lane.lane import Lane
from shepherd.lane.process import tune_collector
from topology import load
from topology.kafka_plan import STAMP_SLACK_BYTES
from topology.provisioning.connection import Connection

SECONDS = 300


def main() -> None:
    """Run a lane of one stream until it has published as many tuples as told, and report its CPU time."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lane_run", description=__doc__)
    for name in ("--bootstrap", "--topology", "--stream", "--lane", "--log", "--authority", "--secret"):
        parser.add_argument(name, required=True)
    for name in ("--ca", "--password-file"):
        parser.add_argument(name, required=True, type=Path)
    parser.add_argument("--user", required=True)
    parser.add_argument("--count", required=True, type=int)
    parser.add_argument("--client", choices=["kafka-python", "librdkafka"], default="kafka-python")
    given = parser.parse_args()
    kind: type[KafkaPythonClient] = KafkaPythonClient
    if given.client == "librdkafka":
        from shepherd.lane.librdkafka_client import LibrdkafkaClient

        kind = LibrdkafkaClient
    door = Connection(given.bootstrap, given.ca, given.user, given.password_file.read_text().strip())
    whole = load(given.topology)
    shape = replace(whole, groups=tuple(group for group in whole.groups if group.stream == given.stream))
    most = shape.kafka.max_tuple_bytes + STAMP_SLACK_BYTES
    client = kind(door.client_settings(), given.lane, given.log, most)
    secret = bytes.fromhex(given.secret)
    lane = Lane(shape, shape.sites["L"], client, bytes.fromhex(given.authority), lambda _: secret)
    tune_collector()
    deadline, begin = time.monotonic() + SECONDS, time.process_time()
    while lane.admitted < given.count and time.monotonic() < deadline:
        if not lane.step():
            client.wait(0.005)
    used = time.process_time() - begin
    client.close()
    print(json.dumps({"client": given.client, "cpu_seconds": used, "count": lane.admitted}))


if __name__ == "__main__":
    main()
