"""The arithmetic of the measuring harness: what is paired with what, the median, its interval, what is void."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.harness import (
    ChildError,
    Comparison,
    Result,
    Round,
    Variant,
    WrongOutcomeError,
    aa_ratio,
    compare,
    in_process,
    keep,
    median_interval,
    pair_ratios,
    run,
    run_child,
    summarize,
)


def rounds(*cpu_seconds: float) -> list[Round]:
    return [Round(seconds, 100, "done") for seconds in cpu_seconds]


def variant(name: str, journal: list[str], seconds: Iterator[float] | None = None) -> Variant:
    def run_once() -> Round:
        journal.append(name)
        return Round(next(seconds) if seconds else 1.0, 100, "done")

    return Variant(name, run_once, "done")


def comparison(goal: float = 0.85) -> Comparison:
    journal: list[str] = []
    return Comparison("a lane", variant("a", journal), variant("b", journal), goal)


def test_rounds_run_in_the_order_a_b_b_a_after_one_of_each_to_warm_up(capsys: pytest.CaptureFixture[str]) -> None:
    journal: list[str] = []
    a, b = run(Comparison("order", variant("a", journal), variant("b", journal), 1.0), quads=2)
    assert "".join(journal) == "ab" + "abba" * 2
    assert (len(a), len(b)) == (4, 4)
    assert len(capsys.readouterr().err.splitlines()) == 10


def test_each_b_is_paired_with_the_a_next_to_it() -> None:
    # A1 B1 B2 A2: B1 goes with A1, B2 with A2. Twice the time is half the throughput.
    assert pair_ratios(rounds(1, 2), rounds(2, 8)) == [0.5, 0.25]


def test_a_machine_that_slows_down_steadily_does_not_move_the_ratio() -> None:
    # A B B A at 1.0, 1.1, 1.2, 1.3 seconds: one pair is too low, the other too high.
    result = summarize(comparison(), rounds(1.0, 1.3), rounds(1.1, 1.2))
    assert result.ratio == pytest.approx(1.0, abs=0.01)


def test_the_ratio_is_the_median_of_the_pairs() -> None:
    result = summarize(comparison(), rounds(1, 1, 1, 1), rounds(1 / 0.7, 1 / 0.9, 1 / 0.8, 1 / 5.0))
    assert result.ratio == pytest.approx(0.85)
    assert (result.low, result.high) == pytest.approx((0.7, 5.0))
    assert result.details["b"]["units_per_round"] == 100


def test_the_two_as_of_every_four_rounds_are_held_against_each_other() -> None:
    assert aa_ratio(rounds(1.0, 1.1, 1.0, 1.2, 1.0, 1.3)) == pytest.approx(1.2)


@pytest.mark.parametrize(
    ("count", "kth", "confidence"),
    [(4, 1, 0.875), (6, 1, 0.96875), (8, 1, 0.9921875), (9, 2, 0.9609375), (12, 3, 0.96142578125)],
)
def test_the_interval_is_between_order_statistics(count: int, kth: int, confidence: float) -> None:
    # Values from the tables of the sign test.
    low, high, sure = median_interval([float(value) for value in range(count, 0, -1)])
    assert (low, high) == (kth, count + 1 - kth)
    assert sure == pytest.approx(confidence)


@pytest.mark.parametrize(
    ("second_a", "ratio", "void", "met"),
    [(1.0, 0.9, False, True), (1.0, 0.8, False, False), (1.02, 0.9, False, True), (1.05, 2.0, True, False)],
)
def test_a_run_is_void_if_a_differs_from_a(second_a: float, ratio: float, void: bool, met: bool) -> None:
    result = summarize(comparison(goal=0.85), rounds(1.0, second_a), rounds(1 / ratio, second_a / ratio))
    assert (result.void, result.met) == (void, met)
    assert result.ratio == pytest.approx(ratio)  # shown all the same


def test_a_wrong_outcome_ends_the_benchmark() -> None:
    wrong = Variant("b", lambda: Round(0.1, 100, "something else"), "done")
    with pytest.raises(WrongOutcomeError, match="a round of b came to 'something else', not 'done'"):
        run(Comparison("wrong", variant("a", []), wrong, 1.0), quads=1)


def test_the_broker_is_reported_apart() -> None:
    a = [Round(1.0, 100, "done", broker_cpu_seconds=0.5)] * 2
    result = summarize(comparison(), a, rounds(1, 1))
    assert result.details["a"]["broker_microseconds_per_unit"] == 5000
    assert "broker_microseconds_per_unit" not in result.details["b"]


def test_a_result_replaces_its_own_entry_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "results" / "latest.json"
    for name, ratio in (("x", 0.5), ("y", 0.6), ("x", 0.7)):
        keep(Result(name, ratio, ratio, ratio, 1.0, False, 0.5, True, "records"), path)
    kept = json.loads(path.read_text())
    assert [(entry["name"], entry["ratio"]) for entry in kept] == [("x", 0.7), ("y", 0.6)]
    assert {"name", "ratio", "low", "high", "aa", "void", "goal", "met"} <= kept[0].keys()
    assert [entry.name for entry in path.parent.iterdir()] == ["latest.json"]


def test_a_void_run_is_kept_and_shown_as_void(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal: list[str] = []
    a = variant("a", journal, iter([1.0, 1.0, 1.5]))
    result = compare(Comparison("noisy", a, variant("b", journal), 0.5), 1, tmp_path / "latest.json")
    assert result.void
    assert json.loads((tmp_path / "latest.json").read_text())[0]["void"] is True
    assert "VOID" in capsys.readouterr().err


def test_a_round_in_this_process_counts_its_cpu_time() -> None:
    result = in_process(lambda: sum(range(200_000)), units=200_000)()
    assert result.outcome == 19_999_900_000
    assert 0 < result.cpu_seconds < 1


def test_a_child_is_measured_and_its_last_line_is_read() -> None:
    finished = run_child([sys.executable, "-c", "sum(range(10**6)); print('words'); print('{\"count\": 3}')"])
    assert finished.report == {"count": 3}
    assert finished.cpu_seconds > 0


@pytest.mark.parametrize(("code", "error"), [("raise SystemExit(3)", "ended with 3"), ("print('no')", "no report")])
def test_a_child_that_fails_ends_the_benchmark(code: str, error: str) -> None:
    with pytest.raises(ChildError, match=error):
        run_child([sys.executable, "-c", code])
