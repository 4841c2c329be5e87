"""Two variants measured side by side, so that what the machine does to one it does to the other.

M1  What counts is CPU time, user and system, per unit of work. Waiting is not counted, nor is the broker's part.
M2  Rounds run in the order A B B A, again and again; each B is paired with the A next to it.
M3  The ratio is B's throughput per CPU second over A's: the median of all pairs, with an interval for that median.
M4  The two A's of every four rounds are held against each other too. If they differ, the machine was not quiet
    enough to say anything: the run is void, and says so.
M5  What a round did is checked. A wrong outcome ends the benchmark, however fast it was.
"""

import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import comb
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

LATEST = Path(__file__).parent / "results" / "latest.json"
QUIET = (0.97, 1.03)  # M4: where the ratio of A to A must be
CONFIDENCE = 0.95
QUADS = 12  # on a machine where rounds differ by 5 %, fewer leave A / A to chance


class WrongOutcomeError(Exception):
    """A round did something else than it should have done."""


class ChildError(Exception):
    """A child process failed."""


@dataclass(frozen=True)
class Round:
    """One timed run: the CPU time it took, the work it did, and what came of it."""

    cpu_seconds: float
    units: int
    outcome: object
    broker_cpu_seconds: float | None = None  # reported apart, no part of the ratio

    @property
    def throughput(self) -> float:
        """Units per CPU second."""
        return self.units / self.cpu_seconds


@dataclass(frozen=True)
class Variant:
    """Something that can be run again and again, and the outcome that each run must have."""

    name: str
    run: Callable[[], Round]
    expected: object


@dataclass(frozen=True)
class Comparison:
    """The claim that B does at least `goal` times as much per CPU second as A."""

    name: str
    a: Variant
    b: Variant
    goal: float
    unit: str = "records"


@dataclass(frozen=True)
class Result:
    """What a comparison came to."""

    name: str
    ratio: float
    low: float
    high: float
    aa: float
    void: bool
    goal: float
    met: bool
    unit: str
    details: Mapping[str, Any] = field(default_factory=dict)


def compare(comparison: Comparison, quads: int = QUADS, results: Path = LATEST) -> Result:
    """Run a comparison, keep its result, and print it."""
    rounds = run(comparison, quads)
    result = summarize(comparison, *rounds)
    keep(result, results)
    show(result)
    return result


def run(comparison: Comparison, quads: int) -> tuple[list[Round], list[Round]]:
    """The rounds of A and of B, each in the order in which they ran."""
    done: dict[str, list[Round]] = {"A": [], "B": []}
    variants = {"A": comparison.a, "B": comparison.b}
    for letter in "AB":  # to warm up the broker and the files
        _timed(comparison, variants[letter], f"{letter} to warm up")
    for number in range(quads):
        for letter in "ABBA":  # M2
            text = f"{letter} {number + 1}/{quads}"
            done[letter].append(_timed(comparison, variants[letter], text))
    return done["A"], done["B"]


def _timed(comparison: Comparison, variant: Variant, text: str) -> Round:
    result = variant.run()
    if result.outcome != variant.expected:  # M5
        raise WrongOutcomeError(
            f"{comparison.name}: a round of {variant.name} came to {result.outcome!r}, not {variant.expected!r}"
        )
    speed = f"{result.throughput:,.0f} {comparison.unit} per CPU second"
    print(f"{comparison.name}: {text} {variant.name}: {result.cpu_seconds:.3f} s, {speed}", file=sys.stderr)
    return result


def summarize(comparison: Comparison, a: Sequence[Round], b: Sequence[Round]) -> Result:
    """The arithmetic: ratio, interval, the ratio of A to A, and whether all that means anything."""
    ratios = pair_ratios(a, b)
    ratio, aa = median(ratios), aa_ratio(a)
    low, high, confidence = median_interval(ratios)
    void = not QUIET[0] <= aa <= QUIET[1]
    return Result(
        name=comparison.name,
        ratio=ratio,
        low=low,
        high=high,
        aa=aa,
        void=void,
        goal=comparison.goal,
        met=not void and ratio >= comparison.goal,
        unit=comparison.unit,
        details={
            "pairs": len(ratios),
            "confidence": confidence,
            "a": _described(comparison.a, a),
            "b": _described(comparison.b, b),
        },
    )


def pair_ratios(a: Sequence[Round], b: Sequence[Round]) -> list[float]:
    """B over A for each pair of neighbours. Of every A B B A the first two and the last two are neighbours."""
    return [mine.throughput / its.throughput for its, mine in zip(a, b, strict=True)]


def aa_ratio(a: Sequence[Round]) -> float:
    """The first A over the second one, over all fours."""
    return median(first.throughput / second.throughput for first, second in zip(a[::2], a[1::2], strict=True))


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """An interval between two of the values that holds the true median, and how surely it does.

    The k-th lowest and the k-th highest value miss the median only if fewer than k of n values fall on one side of
    it, as often as fewer than k of n coins fall on one side. Too few values for CONFIDENCE: the widest interval.
    """
    ordered, n = sorted(values), len(values)
    k, missed = 1, 2 / 2**n
    while k < (n + 1) // 2:
        wider = missed + 2 * comb(n, k) / 2**n
        if wider > 1 - CONFIDENCE:
            break
        k, missed = k + 1, wider
    return ordered[k - 1], ordered[n - k], max(0.0, 1 - missed)


def _described(variant: Variant, rounds: Sequence[Round]) -> dict[str, Any]:
    broker = [r.broker_cpu_seconds / r.units * 1e6 for r in rounds if r.broker_cpu_seconds is not None]
    described: dict[str, Any] = {
        "name": variant.name,
        "units_per_cpu_second": round(median(r.throughput for r in rounds)),
        "microseconds_per_unit": round(median(1e6 / r.throughput for r in rounds), 3),
        "units_per_round": rounds[0].units,
    }
    if broker:
        described["broker_microseconds_per_unit"] = round(median(broker), 3)
    return described


def keep(result: Result, path: Path = LATEST) -> None:
    """Put a result among those kept; it replaces an earlier one of its name."""
    kept = json.loads(path.read_text()) if path.exists() else []
    merged = {entry["name"]: entry for entry in kept} | {result.name: asdict(result)}
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    fresh.write_text(json.dumps(list(merged.values()), indent=1) + "\n")
    fresh.replace(path)


def show(*results: Result) -> None:
    """A table of results."""
    table = Table("comparison", "B / A", "interval", "A / A", "goal", "verdict", "A per CPU s", "B per CPU s")
    for result in results:
        verdict = "VOID: A differs from A" if result.void else "met" if result.met else "NOT MET"
        speeds = (f"{result.details[letter]['units_per_cpu_second']:,}" for letter in "ab")
        interval = f"{result.low:.3f} to {result.high:.3f} ({result.details['confidence']:.0%})"
        figures = (f"{result.ratio:.3f}", interval, f"{result.aa:.3f}", f"{result.goal:g}")
        table.add_row(result.name, *figures, verdict, *speeds)
    Console(stderr=True).print(table)


def in_process(work: Callable[[], object], units: int) -> Callable[[], Round]:
    """Rounds of a function in this process; its result is the outcome."""

    def run_once() -> Round:
        gc.collect()
        begin = time.process_time()
        outcome = work()
        return Round(time.process_time() - begin, units, outcome)

    return run_once


@dataclass(frozen=True)
class Finished:
    """A child process that did its work: the CPU time of its whole life, and the JSON line it printed last."""

    cpu_seconds: float
    report: Mapping[str, Any]


def run_child(command: Sequence[str]) -> Finished:
    """Run a fresh child process to its end; what it says on stderr is seen, what it prints last is read."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        printed = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)  # with what its own children used, if it waited for them
        child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise ChildError(f"`{' '.join(command)}` ended with {child.returncode}")
    try:
        return Finished(usage.ru_utime + usage.ru_stime, json.loads(printed.splitlines()[-1]))
    except (IndexError, ValueError):
        raise ChildError(f"`{' '.join(command)}` printed no report") from None
