"""`ottla dump-log`: the files of a log, shown and checked."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.json_records import bytes_field
from ottla.cli.log_files import Dump, Entry, Problem, dump_file
from ottla.cli.options import iso_of


@click.command("dump-log")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|DIR...", type=click.Path())
@click.option("-r", "--records", "with_records", is_flag=True, help="Also show each record.")
@click.option("--check", is_flag=True, help="Show only problems.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line, for programs.")
def command(paths: tuple[str, ...], with_records: bool, check: bool, as_json: bool) -> int:
    """Show the contents of log files, and check them: CRCs, order of offsets, and whether indexes
    point at batches. Exit code 1 if there is a problem.

    \b
    ottla dump-log ottla-data/clicks-0
    ottla dump-log --records ottla-data/clicks-0/00000000000000000000.log
    ottla dump-log --check ottla-data

    Reads segments (.log), their indexes (.index, .timeindex, .txnindex), producer snapshots
    (.snapshot), checkpoints, partition.metadata and meta.properties, written by Ottla or by
    Apache Kafka. For a folder, all such files in it.

    With --json: {"file", "type", ...}; a problem is {"file", "type": "problem", "problem"}.
    """
    files = _files_of(paths)
    show = _show_json if as_json else _show_text
    problem_count = sum(
        show(path, dump, check)
        for path in files
        if (dump := _dump_of(path, with_records, is_named=path in paths)) is not None
    )
    if problem_count:
        plural = "" if problem_count == 1 else "s"
        warn(f"{problem_count} problem{plural} found in {len(files)} files")
        return ExitCode.FAILED
    if check and not as_json:
        print(f"{len(files)} files are sound")
    return ExitCode.OK


def _files_of(paths: Sequence[str]) -> list[str]:
    """Files as named, and of folders what `dump_file` may know, also one folder below: so a
    data dir stands for its partitions."""
    files: list[str] = []
    for path in paths:
        if not os.path.exists(path):
            raise Failure(f"there is no file {path}")
        if not os.path.isdir(path):
            files.append(path)
            continue
        found = list(_files_in(path))
        if not found:
            raise Failure(f"{path} has no files of a log in it")
        files.extend(found)
    return files


def _files_in(folder: str, *, depth: int = 1) -> Iterator[str]:
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            if depth:
                yield from _files_in(path, depth=depth - 1)
        elif dump_file(path) is not None:
            yield path


def _dump_of(path: str, with_records: bool, *, is_named: bool) -> Dump | None:
    dump = dump_file(path, with_records=with_records)
    if dump is None and is_named:
        raise Failure(f"{path} does not have the name of a log file")
    return dump


def _show_json(path: str, dump: Dump, check: bool) -> int:
    problem_count = 0
    for item in _readable(path, dump):
        if isinstance(item, Problem):
            problem_count += 1
            line: dict[str, Any] = {"file": path, "type": "problem", "problem": item.text}
        elif check:
            continue
        else:
            line = {"file": path, "type": item.kind, **_json_fields(item)}
        print(json.dumps(line, ensure_ascii=False))
    return problem_count


def _json_fields(entry: Entry) -> dict[str, Any]:
    if entry.kind != "record":
        return entry.fields
    fields: dict[str, Any] = {}
    for name, value in entry.fields.items():
        if name in ("key", "value"):
            fields.update(bytes_field(name, value))
        elif name == "headers":
            fields[name] = [{"key": k, **bytes_field("value", v)} for k, v in value]
        else:
            fields[name] = value
    return fields


def _show_text(path: str, dump: Dump, check: bool) -> int:
    problem_count = entry_count = 0
    if not check:
        print(f"{path} ({os.path.getsize(path):,} bytes)")
    for item in _readable(path, dump):
        if isinstance(item, Problem):
            problem_count += 1
            print(f"{path}: {item.text}" if check else f"  PROBLEM: {item.text}")
        elif not check:
            entry_count += 1
            print(f"  {_TEXTS.get(item.kind, _pairs_text)(item.fields)}")
    if not check and entry_count + problem_count == 0:
        print("  empty")
    return problem_count


def _readable(path: str, dump: Dump) -> Dump:
    try:
        yield from dump
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error


def _batch_text(fields: dict[str, Any]) -> str:
    producer = ""
    if fields["producer_id"] >= 0:
        producer = (
            f"  producer {fields['producer_id']} epoch {fields['producer_epoch']}"
            f" sequence {fields['base_sequence']}-{fields['last_sequence']}"
        )
    horizon = fields["delete_horizon_ms"]
    notes = [
        "transactional" if fields["is_transactional"] else "",
        "control" if fields["is_control"] else "",
        "" if horizon is None else f"delete horizon {_time_text(horizon)}",
        "" if fields["is_valid"] else "INVALID",
    ]
    return (
        f"position {fields['position']:<10} offsets {fields['base_offset']}-"
        f"{fields['last_offset']}  count {fields['count']}  size {fields['size']}  "
        f"{fields['compression']}  {_time_text(fields['max_timestamp'])} "
        f"({fields['timestamp_type']})  leader epoch {fields['partition_leader_epoch']}{producer}"
        f"  crc {fields['crc']}" + "".join(f"  {note}" for note in notes if note)
    )


def _record_text(fields: dict[str, Any]) -> str:
    parts = [f"  | offset {fields['offset']}", _time_text(fields["timestamp"])]
    if "control" in fields:
        parts.append(f"{fields['control']} marker")
    else:
        parts += [f"key {_bytes_text(fields['key'])}", f"value {_bytes_text(fields['value'])}"]
    if fields["headers"]:
        headers = " ".join(f"{key}={_bytes_text(value)}" for key, value in fields["headers"])
        parts.append(f"headers {headers}")
    return "  ".join(parts)


def _offset_index_text(fields: dict[str, Any]) -> str:
    return f"offset {fields['offset']:<12} position {fields['position']}"


def _time_index_text(fields: dict[str, Any]) -> str:
    return (
        f"time {_time_text(fields['timestamp'])} ({fields['timestamp']})  offset {fields['offset']}"
    )


def _property_text(fields: dict[str, Any]) -> str:
    return f"{fields['name']}={fields['value']}"


def _pairs_text(fields: dict[str, Any]) -> str:
    return "  ".join(f"{name.replace('_', ' ')} {value}" for name, value in fields.items())


_TEXTS: dict[str, Callable[[dict[str, Any]], str]] = {
    "batch": _batch_text,
    "record": _record_text,
    "offset_index_entry": _offset_index_text,
    "time_index_entry": _time_index_text,
    "property": _property_text,
}


def _time_text(timestamp: int) -> str:
    return "no time" if timestamp < 0 else iso_of(timestamp)


def _bytes_text(value: bytes | None) -> str:
    """Quoted as JSON, which also takes the sting out of control characters; bytes that are no
    text in hexadecimal."""
    if value is None:
        return "null"
    try:
        return json.dumps(value.decode(), ensure_ascii=False)
    except UnicodeDecodeError:
        return f"0x{value.hex()}"
