"""`bellwether jars`: fetch and check the jars of the broker and of Spark's connector."""

from cyclopts import App
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from console.output import Format, messages, print_json, say, wants_json
from topology.embedded import jars

app = App(name="jars", help="Fetch the pinned jars if any is missing, and check every one against its locked sum.")


@app.default
def fetch(*, output: Format = None) -> None:
    """Fetch the pinned jars if any is missing, and check every one against its locked sum."""
    directory = fetch_with_progress()
    if wants_json(output):
        print_json({"directory": str(directory), "jars": len(jars.locked())})
    else:
        say(f"{len(jars.locked())} jars, all as locked, in {directory}")


def fetch_with_progress() -> object:
    """Fetch what is missing with a progress bar; quick and silent if nothing is."""
    if not jars.missing():
        return jars.ensure()
    columns = (TextColumn("fetching jars"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=messages, transient=True) as progress:
        task = progress.add_task("jars", total=len(jars.locked()))
        return jars.ensure(lambda done, total: progress.update(task, completed=done, total=total))
