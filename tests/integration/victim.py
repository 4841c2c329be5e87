"""A lane that kills itself at a chosen step, so that every step sees its share of deaths.

python -m tests.integration.victim lane run ...      with VICTIM=step:count in the environment
"""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from kafka import KafkaProducer
from kafka.producer.transaction_manager import TransactionManager

import shepherd.lane.judge as judge
import shepherd.lane.kafka_client as kafka_client
import shepherd.lane.strand as strand
from console.main import main

STEPS = ("read", "verify", "merge", "begin", "produce", "flush", "commit", "committing", "committed")


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def after(count: int) -> Callable[[], None]:
    left = [count]

    def maybe() -> None:
        left[0] -= 1
        if left[0] <= 0:
            die()

    return maybe


def before(owner: Any, name: str, act: Callable[[], None], afterwards: bool = False) -> None:
    """Act whenever a method is called, or when it has returned."""
    original = getattr(owner, name)

    def wrapped(*arguments: Any, **named: Any) -> Any:
        if not afterwards:
            act()
        result = original(*arguments, **named)
        if afterwards:
            act()
        return result

    setattr(owner, name, wrapped)


def arm(step: str, count: int) -> None:
    producer = KafkaProducer
    manager = TransactionManager
    match step:
        case "read":
            before(kafka_client.KafkaPythonClient, "read", after(count * 10), afterwards=True)
        case "verify":
            before(judge.Judge, "judge", after(count * 20))
        case "merge":
            before(strand.Strand, "_cut", after(count), afterwards=True)
        case "begin":
            before(producer, "begin_transaction", after(count), afterwards=True)
        case "produce":
            before(producer, "send", after(count * 7), afterwards=True)
        case "flush":
            before(producer, "flush", after(count), afterwards=True)
        case "commit":
            before(manager, "begin_commit", after(count))
        case "committing":  # while the request is under way

            def soon() -> None:
                threading.Timer(count * 0.0003, die).start()

            left = [count]

            def maybe() -> None:
                left[0] -= 1
                if left[0] == 0:
                    soon()

            before(manager, "begin_commit", maybe)
        case "committed":
            before(kafka_client.KafkaPythonClient, "publish", after(count), afterwards=True)


if __name__ == "__main__":
    if os.environ.get("VICTIM"):
        wanted, number = os.environ["VICTIM"].split(":")
        arm(wanted, int(number))
    main()
