"""The jars: fetched by the Apache Ivy that PySpark brings along, held to a lock file of SHA-256 sums."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from topology.embedded.java import java
from topology.errors import JarError

_HERE = Path(__file__).parent
LOCK = _HERE / "jars.lock"
DIRECTORY_VARIABLE = "BELLWETHER_JARS"
SETTINGS_VARIABLE = "BELLWETHER_IVY_SETTINGS"  # an Ivy settings file, for sites with a mirror of their own
_SECONDS = 900  # for a cold fetch of 50 MB over a slow line

Progress = Callable[[int, int], None]


def directory() -> Path:
    """Where the jars are kept: beside the installed packages, or where the variable says."""
    return Path(os.environ.get(DIRECTORY_VARIABLE) or Path(sys.prefix) / "share" / "bellwether" / "jars")


def locked() -> dict[str, str]:
    """The sum of each jar by its path, such as `broker/kafka_2.13-4.3.1.jar`."""
    pairs = (line.split() for line in LOCK.read_text().splitlines())
    return {path: digest for digest, path in pairs}


def class_path(configuration: str) -> list[Path]:
    """The checked jars of a configuration, `broker` or `connector`."""
    verify()
    return [directory() / path for path in locked() if path.startswith(f"{configuration}/")]


def missing() -> list[str]:
    """The jars that are not there."""
    return [path for path in locked() if not (directory() / path).exists()]


def verify() -> None:
    """Hold every jar to its sum. A wrong one is set aside, so that the next fetch replaces it."""
    for path, digest in locked().items():
        jar = directory() / path
        if not jar.exists():
            raise JarError(f"jar `{path}` is missing: run `bellwether jars`")
        if _sum(jar) != digest:
            aside = jar.with_suffix(".jar.corrupt")
            jar.replace(aside)
            raise JarError(
                f"jar `{path}` does not match its locked sum: set aside as `{aside.name}`, the next start fetches it"
            )
    wanted = {directory() / path for path in locked()}
    for configuration in ("broker", "connector"):
        for jar in (directory() / configuration).glob("*.jar"):
            if jar not in wanted:
                raise JarError(f"jar `{jar}` is not in the lock file: remove it")


def ensure(progress: Progress | None = None) -> Path:
    """Fetch what is missing, check everything, and say where it is."""
    if missing():
        _fetch(progress or (lambda done, total: None))
    verify()
    return directory()


def _fetch(progress: Progress) -> None:
    """Fetch into a folder of its own, check what was missing, then move that into place."""
    target, wanted = directory(), missing()
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target, prefix=".fetch-") as temporary:
        _run_ivy(Path(temporary), progress)
        for path in wanted:
            jar = Path(temporary) / "jars" / path
            if not jar.exists():
                raise JarError(f"jar `{path}` could not be fetched: it is in the lock file but was not resolved")
            if _sum(jar) != locked()[path]:
                raise JarError(f"the fetched jar `{path}` does not match its locked sum: nothing was installed")
        for path in wanted:
            (target / path).parent.mkdir(exist_ok=True)
            shutil.move(Path(temporary) / "jars" / path, target / path)


def _run_ivy(temporary: Path, progress: Progress) -> None:
    total, done, last_lines = len(locked()), 0, []
    settings = os.environ.get(SETTINGS_VARIABLE)
    command = [
        java(), "-Divy.cache.ttl.default=1s", "-jar", str(_ivy_jar()),
        *(["-settings", settings] if settings else []),
        "-ivy", str(_HERE / "ivy.xml"), "-cache", str(temporary / "cache"),
        "-confs", "broker", "connector", "-types", "jar", "bundle",
        "-retrieve", str(temporary / "jars" / "[conf]" / "[artifact]-[revision].[ext]"),
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    deadline = threading.Timer(_SECONDS, process.kill)
    deadline.start()
    try:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                if "[SUCCESSFUL ]" in line:
                    done += 1
                    progress(done, total)
                elif re.search(r"ERROR|FAILED|WARN|not found|unresolved", line):
                    last_lines.append(line.strip())
        if process.wait():
            reason = next((line for line in last_lines if "unresolved" in line or "ERROR" in line), "see above")
            raise JarError(f"the jars cannot be fetched: {reason}")
    finally:
        deadline.cancel()
        process.kill()
        process.wait()


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarError("fetching jars needs PySpark, which brings Apache Ivy: install `bellwether[processor]`")
    found = sorted((Path(spec.submodule_search_locations[0]) / "jars").glob("ivy-*.jar"))
    if not found:
        raise JarError("this PySpark brings no Apache Ivy: install the pinned version")
    return found[-1]


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
