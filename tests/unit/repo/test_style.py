"""Style as a test. What falls short today is in debt.txt, which only shrinks: a new debt fails,
and so does one that was paid and is still listed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SRC = ROOT / "src" / "ottla"
UNIT = ROOT / "tests" / "unit"

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70

# Tables of names: what they say is checked as a whole, against another implementation, in
# tests/property/wire.
TESTED_TOGETHER = ("wire/messages",)


def test_files_and_functions_are_short() -> None:
    _assert_only_known("long ", {*_long_files(), *_long_functions()})


def test_every_module_has_its_unit_test() -> None:
    _assert_only_known("no unit test", set(_untested_modules()))


def _assert_only_known(kind: str, found: set[str]) -> None:
    listed = {line for line in _listed() if line.startswith(kind)}
    new, paid = sorted(found - listed), sorted(listed - found)
    assert not new, "mend these, do not list them:\n" + "\n".join(new)
    assert not paid, "paid, so strike them from debt.txt:\n" + "\n".join(paid)


def test_every_unit_test_mirrors_a_module() -> None:
    strays = [
        str(test.relative_to(ROOT))
        for test in UNIT.rglob("test_*.py")
        if test.parent != UNIT / "repo" and not _module_of(test).exists()
    ]
    assert strays == []


def test_test_folders_are_the_known_ones() -> None:
    known = {"unit", "contract", "property", "compat", "simulation", "faults", "pipeline"}
    known |= {"browser", "support"}
    assert {path.parent.relative_to(UNIT.parent).parts[0] for path in _tests()} <= known


def _tests() -> Iterator[Path]:
    return UNIT.parent.rglob("test_*.py")


def _listed() -> Iterator[str]:
    for line in (Path(__file__).parent / "debt.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            yield line


def _sources() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def _long_files() -> Iterator[str]:
    for path in _sources():
        if len(path.read_text().splitlines()) > FILE_LINES_MAX:
            yield f"long file: {path.relative_to(ROOT)}"


def _long_functions() -> Iterator[str]:
    for path in [*_sources(), *sorted(UNIT.parent.rglob("*.py"))]:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX:
                yield f"long function: {path.relative_to(ROOT)} {node.name}"


def _untested_modules() -> Iterator[str]:
    for path in _sources():
        module = path.relative_to(SRC)
        if module.as_posix().startswith(TESTED_TOGETHER) or not _has_code(path):
            continue
        test = UNIT / module.parent / f"test_{module.name}"
        if module.name not in {"__init__.py", "__main__.py"} and not test.exists():
            yield f"no unit test: {path.relative_to(ROOT)}"


def _has_code(path: Path) -> bool:
    """Interfaces (Protocol), names and numbers have nothing to run."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body
            is_stub = isinstance(body[-1], ast.Expr) and isinstance(body[-1].value, ast.Constant)
            if not is_stub:
                return True
    return False


def _module_of(test: Path) -> Path:
    relative = test.relative_to(UNIT)
    return SRC / relative.parent / relative.name.removeprefix("test_")
