"""Apache Kafka's own opinion of the files that a broker wrote."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tools.apache_kafka import tool_command

_SUFFIXES = frozenset({".log", ".index", ".timeindex", ".txnindex", ".snapshot"})
_SEGMENT_FILE = re.compile(r"\d{20}\.[a-z]+")
_FILES_A_RUN = 500  # All go into one argument, which Linux limits to 128 KB.

# Everything else that it prints is a complaint.
_GOOD_LINE = re.compile(
    r"Dumping .+"
    r"|Log starting offset: \d+"
    r"|baseOffset: .* isvalid: true"
    r"|\| offset: .*(?<!isValid: false)"
    r"|offset: \d+ position: \d+"
    r"|timestamp: -?\d+ offset: \d+"
    r"|producerId: .*"
    r"|version: \d+ producerId: .*"
    r"|.+ (passed sanity check|is empty)\."
)

_FIRST_OFFSET = re.compile(r"  -1 is followed by (\d+)")

# What it says at the end about all of them.
_NAMES_ITS_FILE = re.compile(r"Mismatches|Non-consecutive|Found (?!\d)|The following|Indexed|  ")


def segment_files(data_dir: Path) -> list[Path]:
    """Every file of a data dir that DumpLogSegments reads."""
    return sorted(
        path
        for path in data_dir.rglob("*")
        if path.suffix in _SUFFIXES
        and _SEGMENT_FILE.fullmatch(path.name)
        and not path.parent.name.endswith("-delete")
        and not _is_index_of_empty_log(path)
    )


def complaints(files: Sequence[Path]) -> list[str]:
    """What DumpLogSegments finds wrong: with the batches and records (`--deep-iteration`), with
    the indexes against the log, and with the indexes as a starting broker checks them."""
    found: list[str] = []
    for start in range(0, len(files), _FILES_A_RUN):
        some = files[start : start + _FILES_A_RUN]
        # First, because DumpLogSegments cuts each index that it reads to whole entries.
        if indexes := [path for path in some if path.suffix in {".index", ".timeindex"}]:
            found += _run(indexes, "--index-sanity-check")
        found += _run(some, "--deep-iteration")
    return found


def assert_accepted(data_dirs: Iterable[Path]) -> int:
    """Returns how many files were read."""
    files = [path for data_dir in data_dirs for path in segment_files(data_dir)]
    found = complaints(files)
    assert not found, "DumpLogSegments complains:\n" + "\n".join(found)
    return len(files)


def _run(files: Sequence[Path], *options: str) -> list[str]:
    names = ",".join(map(str, files))
    assert names.count(",") == len(files) - 1, "a comma in a file name would split it"
    command = tool_command("dump-log", *options, "--files", names)
    found: list[str] = []
    dumping = ""
    # Read as it comes: a line a record may be gigabytes.
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            line = line.rstrip("\n")
            if line.startswith("Dumping "):
                dumping = line
            elif line and not _GOOD_LINE.fullmatch(line):
                found.append(line if _NAMES_ITS_FILE.match(line) else f"{dumping}: {line}")
    if process.returncode != 0:
        found.append(f"{dumping}: ended with {process.returncode}, so the rest was not read")
    return _without_first_offsets(found)


def _without_first_offsets(found: list[str]) -> list[str]:
    """DumpLogSegments 4.3 takes the offset before a file's first for -1. So it complains of every
    segment but the first, also of Apache Kafka's own."""
    kept: list[str] = []
    heading = ""
    for line in found:
        if line.startswith("Non-consecutive offsets in "):
            heading = line
        elif heading and (first := _FIRST_OFFSET.fullmatch(line)):
            assert int(first[1]) >= int(Path(heading).stem), f"{heading}: begins at {first[1]}"
        elif heading and line.startswith("  "):
            kept += [heading, line]
        else:
            heading = ""
            kept.append(line)
    return kept


def _is_index_of_empty_log(path: Path) -> bool:
    """DumpLogSegments 4.3 itself falls over it when the index has room set aside
    (NoSuchElementException in dumpIndex), also over Apache Kafka's own files."""
    if path.suffix not in {".index", ".timeindex"}:
        return False
    log = path.with_suffix(".log")
    return log.exists() and log.stat().st_size == 0
