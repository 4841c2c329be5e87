"""`bellwether label`: a calculator over the labels of a topology."""

from typing import Annotated, Any

from cyclopts import App, Parameter

from console.output import Format, print_json, print_table, wants_json
from security_lattice import LabelMode
from topology import load

app = App(name="label", help="Calculate with the labels of a topology.")

TopologyOption = Annotated[
    str, Parameter(name=["--topology", "-t"], help="A topology file, or the name of an example such as `battlefield`.")
]
DEFAULT_TOPOLOGY = "bellwether.yaml"


@app.command
def parse(text: str, /, *, topology: TopologyOption = DEFAULT_TOPOLOGY, output: Format = None) -> None:
    """Check a label and print its canonical text.

    Parameters
    ----------
    text
        The label, for example `S:NAVY,ARMY` or `doctor or nurse`.
    """
    loaded = load(topology)
    _answer({"label": loaded.mode.format(loaded.mode.parse(text)), "mode": loaded.mode_name}, output)


@app.command
def combine(text: str, /, *texts: str, topology: TopologyOption = DEFAULT_TOPOLOGY, output: Format = None) -> None:
    """Print the label of something derived from all the given ones.

    Parameters
    ----------
    text
        A label.
    texts
        More labels.
    """
    mode = load(topology).mode
    _answer({"label": mode.format(mode.combine([mode.parse(each) for each in (text, *texts)]))}, output)


@app.command
def compare(a: str, b: str, /, *, topology: TopologyOption = DEFAULT_TOPOLOGY, output: Format = None) -> None:
    """Say how two labels stand: equal, dominates, dominated or incomparable (the first to the second).

    Parameters
    ----------
    a
        A label.
    b
        Another label.
    """
    mode = load(topology).mode
    first, second = mode.parse(a), mode.parse(b)
    _answer({"a": mode.format(first), "b": mode.format(second), "relation": _relation(mode, first, second)}, output)


@app.command
def admits(
    text: str,
    /,
    *,
    subject: Annotated[str, Parameter(help="Who asks: a level, or roles separated by commas.")],
    topology: TopologyOption = DEFAULT_TOPOLOGY,
    output: Format = None,
) -> None:
    """Say whether a subject may be shown a label.

    Parameters
    ----------
    text
        The label.
    """
    loaded = load(topology)
    _answer({"admits": loaded.mode.admits(loaded.subject(subject), loaded.mode.parse(text))}, output)


def _relation(mode: LabelMode[Any, Any], a: Any, b: Any) -> str:
    match mode.dominates(a, b), mode.dominates(b, a):
        case True, True:
            return "equal"
        case True, False:
            return "dominates"
        case False, True:
            return "dominated"
        case _:
            return "incomparable"


def _answer(answer: dict[str, Any], output: Format) -> None:
    if wants_json(output):
        print_json(answer)
    else:
        words = {True: "yes", False: "no"}
        print_table(("", ""), [(key, words.get(value, str(value))) for key, value in answer.items()])
