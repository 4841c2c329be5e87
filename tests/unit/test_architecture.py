"""The tree is what it says it is: imports go one way, the trusted core is small and leans on nothing."""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import security_lattice
import topology
from tests.conftest import Figure

ROOT = Path(__file__).parents[2]
# What each package may import of the others.
MAY_IMPORT = {
    "security_lattice": set(),
    "topology": {"security_lattice"},
    "shepherd": {"security_lattice", "topology"},
    "level_processor": {"security_lattice", "topology"},
    "console": {"security_lattice", "topology", "shepherd", "level_processor"},
}
# Files that decide import no library that talks.
PURE = ["topology/cluster.py", "topology/checking.py", "topology/kafka_plan.py", "topology/view.py",
        "topology/document.py", "topology/provisioning/drift.py", "shepherd/lane/judge.py", "shepherd/lane/strand.py",
        "shepherd/lane/sieve.py", "shepherd/lane/batches.py", "shepherd/lane/lane.py"]  # fmt: skip
TALKING = {"kafka", "socket", "ssl", "subprocess", "cryptography", "rich", "cyclopts", "pyspark"}
TRUSTED_LINES = 2000


def sources(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a name comes from"
            yield str(node.module)


@pytest.mark.parametrize("package", sorted(MAY_IMPORT))
def test_imports_go_one_way(package: str) -> None:
    for path in sources(package):
        for module in imports(path):
            other = module.split(".")[0]
            if other in MAY_IMPORT and other != package:
                assert other in MAY_IMPORT[package], f"{path.relative_to(ROOT)} imports {module}"


def test_the_mathematics_depends_on_the_standard_library_alone() -> None:
    for path in sources("security_lattice"):
        for module in imports(path):
            name = module.split(".")[0]
            assert name == "security_lattice" or name in sys.stdlib_module_names, f"{path.name} imports {module}"


@pytest.mark.parametrize("path", PURE)
def test_what_decides_does_not_talk(path: str) -> None:
    assert {module.split(".")[0] for module in imports(ROOT / path)} & TALKING == set()


def lines_of_code(path: Path) -> int:
    """Lines that hold code: what is blank, a comment or a docstring does nothing that anybody must trust."""
    text = path.read_text()
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in layout:
            code.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            docstring = node.body[0]
            code -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(code)


def test_the_trusted_core_can_be_read_in_one_sitting(figure: Figure) -> None:
    files = [path for name in ("shepherd", "security_lattice") for path in sources(name)]
    code, all_lines = sum(map(lines_of_code, files)), sum(len(path.read_text().splitlines()) for path in files)
    figure(
        f"trusted core: shepherd + security_lattice have {code:,} lines of code ({all_lines:,} with blank lines, "
        f"comments and docstrings); the limit is {TRUSTED_LINES:,} lines of code"
    )
    assert 0 < code < TRUSTED_LINES


@pytest.mark.parametrize("package", [security_lattice, topology])
def test_a_package_exports_what_it_says(package: object) -> None:
    exported = getattr(package, "__all__", [])
    assert exported == sorted(set(exported))
    assert all(hasattr(package, name) for name in exported)


def test_look_alike_letters_stay_out_of_the_trusted_code() -> None:
    for name in ("shepherd", "security_lattice"):
        for path in sources(name):
            assert re.sub(r"[├└│─]", "", path.read_text()).isascii(), path


def test_the_label_model_is_independent() -> None:
    model = ROOT / "tests" / "properties" / "label_model.py"
    assert not any(module.startswith("security_lattice") for module in imports(model))


def test_nothing_names_a_registry_or_a_path_of_one_machine() -> None:
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    pattern = re.compile(r"https?://[\w.-]*(mave[n]|pyp[i]|npmj[s])|(^|[^\w.])/(wor[k]|roo[t]|hom[e])/")
    found = [name for name in files if name and (ROOT / name).is_file() and pattern.search(_text(ROOT / name))]
    assert found == []


def _text(path: Path) -> str:
    return path.read_text(errors="replace")
