"""Finding a Java that is new enough."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from topology.errors import BrokerError

LEAST_JAVA = 17  # what Kafka 4 and Spark 4 ask for
_SECONDS = 30


def java() -> str:
    """The path of a Java of at least the wanted version: `$JAVA_HOME`'s, or the first on the path."""
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not found or not Path(found).exists():
        raise BrokerError(f"no Java found: install Java {LEAST_JAVA} or newer, or set JAVA_HOME")
    try:
        report = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokerError(f"`{found} -version` does not run: {error}") from None
    match = re.search(r'version "(?:1\.)?(\d+)', report.stderr)
    if not match or int(match[1]) < LEAST_JAVA:
        version = match[1] if match else "of unknown version"
        raise BrokerError(f"Java {version} at `{found}` is too old: install Java {LEAST_JAVA} or newer")
    return found
