"""The verbs of the `bellwether` command, its errors, its exit codes.

Exit codes: 0 done; 1 something failed; 2 the input is wrong, nothing was changed; 3 drift was found.
"""

import os
import re
from importlib.metadata import version
from typing import Any

from cyclopts import App, CycloptsError

from console import broker, demo, jars, label, lane, provision, quarantine, send, source, topology
from console.output import messages, print_json, printable, wants_json
from security_lattice import LabelSyntaxError, LatticeError
from shepherd.lane.client import LaneError
from topology import DeclarationError, InputError, TopologyError, UnknownName

app = App(
    name="bellwether",
    help="A replicated multilevel-secure stream processing cluster on Kafka and Spark.",
    version=version("bellwether"),
    help_format="plaintext",
)
for part in (topology, label, provision, broker, jars, source, send, lane, quarantine, demo):
    app.command(part.app)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code."""
    try:
        result = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        return result if isinstance(result, int) else 0
    except CycloptsError as error:
        return _fail(arguments, " ".join(str(error).split()), 2)
    except LabelSyntaxError as error:
        return _fail(arguments, str(error), 2, offset=error.offset)
    except (DeclarationError, InputError, UnknownName, LatticeError) as error:
        return _fail(arguments, str(error), 2)
    except (TopologyError, LaneError) as error:
        return _fail(arguments, str(error), 1)
    except KeyboardInterrupt:
        return _fail(arguments, "interrupted", 130)
    except BrokenPipeError:
        raise
    except OSError as error:
        return _fail(arguments, f"`{error.filename}`: {error.strerror}", 1)
    except Exception as error:
        if os.environ.get("BELLWETHER_DEBUG"):
            raise
        where = f"{type(error).__name__}: {error}"
        return _fail(arguments, f"unforeseen, a bug ({where}): run again with BELLWETHER_DEBUG=1 and report it", 1)


def _fail(arguments: list[str], message: str, code: int, **details: Any) -> int:
    """Say what went wrong: to people on stderr; to programs that get JSON also on stdout."""
    if wants_json(_asked_format(arguments)):
        print_json({"error": message, **details})
    where = f" (at offset {details['offset']})" if "offset" in details else ""
    line = " ".join(printable(f"error: {message}{where}").split("\n"))
    messages.print(line, markup=False, soft_wrap=True)
    return code


def _asked_format(arguments: list[str]) -> str | None:
    """What `-o` asks for, read off the words themselves: the error may be in any other of them."""
    asked = re.search(r"(?:^|\0)(?:-o|--output)[\0=](json|table)(?:\0|$)", "\0".join(arguments))
    return asked[1] if asked else None
