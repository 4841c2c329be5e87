"""The labels agree with a model written from SPECIFICATION.md alone, on a million pairs of texts.

Half of the texts are malformed on purpose. Verdict, canonical text, offset of the error, combination,
comparison and admission must all be the same.
"""

import os
import random
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any

from security_lattice import (
    LabelMode,
    LabelSyntaxError,
    Lattice,
    LatticeError,
    MlsMode,
    Order,
    OxrbacMode,
    RbacMode,
    Rights,
    Semantics,
)
from tests.conftest import Figure
from tests.properties.label_model import Fault, MlsModel, OxrbacModel, RbacModel

PAIRS = 1_000_000
SHARES = 20  # pieces of work, each with its own seed
ROLES = ["doctor", "nurse", "icu", "r-1", "a", "b", "c_d", "admin"]
STREAMS = ["NewYork", "London", "in1", "in-2", "x"]
ORDERS: list[tuple[dict[str, list[str]], list[str]]] = [
    ({"L": [], "H": ["L"]}, []),
    ({"S": []}, ["ARMY", "NAVY"]),
    ({"U": [], "C": ["U"], "S": ["C"], "TS": ["S"]}, ["A", "B", "CRYPTO", "N-1"]),
    ({"U": [], "a": ["U"], "b": ["U"], "c": ["U"], "T": ["a", "b", "c"]}, ["K"]),
    ({"bot": [], "l": ["bot"], "r": ["bot"], "m": ["l", "r"], "n": ["l"], "top": ["m", "n"]}, []),
]


def test_labels_agree_with_the_model_on_a_million_pairs(figure: Figure) -> None:
    with ProcessPoolExecutor(max_workers=os.cpu_count()) as pool:
        counts = sum(pool.map(_compare_share, range(SHARES)), Counter())
    figure(
        f"label model: {counts['pairs']:,} pairs, {counts['malformed']:,} of {2 * counts['pairs']:,} texts malformed"
        f" on purpose, {counts['admitted']:,} admitted, 0 disagreements"
    )
    assert counts["pairs"] == PAIRS
    assert 0.49 < counts["malformed"] / (2 * PAIRS) < 0.51
    assert counts["admitted"] > PAIRS / 100, "the subjects are too weak for the comparison to mean anything"


def _compare_share(seed: int) -> "Counter[str]":
    rng = random.Random(seed)
    counts: Counter[str] = Counter()
    for number in range(PAIRS // SHARES):
        make = (_mls_case, _rbac_case, _oxrbac_case)[number % 3]
        mode, model, subject, model_subject, well_formed = make(rng)
        texts = [well_formed(rng), well_formed(rng)]
        for i in (0, 1):
            if rng.random() < 0.5:
                texts[i] = _malformed(rng, texts[i], model)
                counts["malformed"] += 1
        where = f"seed {seed}, pair {number}, {type(mode).__name__}, {texts!r}, subject {model_subject!r}"
        _compare_pair(mode, model, subject, model_subject, texts, counts, where)
        counts["pairs"] += 1
    return counts


def _compare_pair(
    mode: LabelMode[Any, Any], model: Any, subject: Any, model_subject: Any,
    texts: list[str], counts: "Counter[str]", where: str,
) -> None:  # fmt: skip
    labels = []
    for text in texts:
        expected = _outcome(partial(model.canonical, text))
        assert _outcome(partial(_canonical, mode, text)) == expected, where
        if isinstance(expected, str):
            label = mode.parse(text)
            assert mode.parse(expected) == label, where
            labels.append(label)
            admitted = mode.admits(subject, label)
            assert admitted == mode.releases(subject, label) == model.admits(model_subject, text), where
            counts["admitted"] += admitted
    if len(labels) < 2:
        return
    combined = _outcome(lambda: mode.format(mode.combine(labels)))
    assert combined == _outcome(lambda: model.combine(texts)), where
    counts["refused"] += combined is None
    up, down = mode.dominates(labels[0], labels[1]), mode.dominates(labels[1], labels[0])
    relation = {(True, True): "equal", (True, False): "dominates", (False, True): "dominated"}
    assert relation.get((up, down), "incomparable") == model.compare(*texts), where
    if isinstance(mode, RbacMode):
        for text, label in zip(texts, labels, strict=True):
            seen = mode.seen_by(subject, label)
            assert (mode.format(seen) if seen else None) == model.seen_by(model_subject, text), where
    if isinstance(mode, OxrbacMode):
        distinct = {stream: len(where) % 30 for stream in STREAMS[: len(where) % 4]}
        assert mode.format(mode.aggregate(labels, distinct)) == model.aggregate(texts, distinct), where
        assert mode.bits(labels[0]) == model.bits(texts[0]), where


def _outcome(attempt: Callable[[], str]) -> str | int | None:
    """The text, or the offset of the error, or None for a refusal without one."""
    try:
        return attempt()
    except LabelSyntaxError as error:
        return error.offset
    except LatticeError:
        return None
    except Fault as fault:
        return fault.offset


def _canonical(mode: LabelMode[Any, Any], text: str) -> str:
    return mode.format(mode.parse(text))


# Cases: both implementations over the same names, a subject for each, and a maker of well-formed texts.

_MLS = [(MlsMode(Lattice(Order(below), parts)), MlsModel(below, parts)) for below, parts in ORDERS]
_RBAC = [(RbacMode(ROLES[:n]), RbacModel(ROLES[:n])) for n in (2, 4, 8)]
_OXRBAC = [
    (OxrbacMode(STREAMS, semantics), OxrbacModel(STREAMS, weak))
    for semantics, weak in ((Semantics.STRONG, False), (Semantics.UNSAFE_WEAK, True))
]


def _mls_case(rng: random.Random) -> Any:
    mode, model = rng.choice(_MLS)

    def well_formed(rng: random.Random) -> str:
        some = rng.sample(sorted(mode.lattice.compartments), rng.randint(0, len(mode.lattice.compartments)))
        return _spaced(rng, [rng.choice(mode.lattice.order.names), *([":"] if some else []), *_listed(some)])

    subject = well_formed(rng)
    return mode, model, mode.parse(subject), subject, well_formed


def _rbac_case(rng: random.Random) -> Any:
    mode, model = rng.choice(_RBAC)
    roles = sorted(mode.roles)

    def expression(depth: int) -> list[str]:
        word = rng.choice(["and", "or"])
        tokens: list[str] = []
        for i in range(rng.randint(1, 3)):
            tokens += [word] if i else []
            tokens += ["(", *expression(depth - 1), ")"] if depth and rng.random() < 0.4 else [rng.choice(roles)]
        return tokens

    subject = frozenset(role for role in roles if rng.random() < 0.5)
    return mode, model, subject, set(subject), lambda rng: _spaced(rng, expression(3))


def _oxrbac_case(rng: random.Random) -> Any:
    mode, model = rng.choice(_OXRBAC)

    def well_formed(rng: random.Random) -> str:
        tokens: list[str] = []
        for stream in rng.sample(STREAMS, rng.randint(1, len(STREAMS))):
            tokens += [","] if tokens else []
            tokens += [stream] if rng.random() < 0.6 else [stream, "/", str(rng.choice([2, 3, 20, 10**9]))]
        return _spaced(rng, tokens)

    tuples = {stream for stream in STREAMS if rng.random() < 0.5}
    aggregates = {stream: rng.choice([2, 3, 20, 21]) for stream in STREAMS if rng.random() < 0.5}
    return mode, model, Rights(frozenset(tuples), aggregates), (tuples, aggregates), well_formed


def _listed(names: list[str]) -> list[str]:
    return [token for name in names for token in (",", name)][1:]


def _spaced(rng: random.Random, tokens: list[str]) -> str:
    """The tokens as a text: spaces between words are needed, between others they are free."""
    text = ""
    for token in tokens:
        needed = text[-1:].isalnum() and token[0].isalnum()
        text += " " * (needed + (rng.random() < 0.1)) + token
    return text + " " * (rng.random() < 0.05)


_JUNK = ["and", "or", "(", ")", ",", ":", "/", "//", "0", "1", "02", "99999999999", "nobody", "ZZ", "é", "Ѕ", "\t",
         "\n", "\0", "\u202e", "&", "|", '"', "-", "_", "a" * 65, "(" * 17, "🙂"]  # fmt: skip


def _malformed(rng: random.Random, text: str, model: Any) -> str:
    """A text close to a right one that the model refuses."""
    while True:
        at = rng.randint(0, len(text))
        match rng.randrange(5):
            case 0:
                mutated = text[:at] + rng.choice(_JUNK) + text[at:]
            case 1:
                mutated = text[:at]
            case 2:
                mutated = text[:at] + text[at + rng.randint(1, 3) :]
            case 3:
                mutated = text[:at] + " " + rng.choice(_JUNK) + " " + text[at:]
            case _:
                mutated = text + rng.choice([",", ":", "/", " and ", " or "]) + text
        try:
            model.canonical(mutated)
        except Fault:
            return mutated
