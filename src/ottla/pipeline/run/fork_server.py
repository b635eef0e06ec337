"""Starts the Python processes of a Spark on this machine, each as a fork of one that has imported
what they need.

Spark has a Python process for each kind of question that it asks a data source, one for each
query, and some for each core that runs tasks: a dozen until the first result of a job. Each imports
Spark's modules (out of a zip file, so it compiles them), Arrow, pandas and ours. Measured: 0.6 to
1.6 s of processor time each, 11 of the 26 s until the first result of the activity pipeline. This
process imports them once, while Java starts.

Spark is given a launcher in place of Python, which runs `fork_client`: that hands its arguments,
environment and standard files over to this server, passes on signals, and ends with the fork.

Linux only: the socket is an abstract one, so that no file is left whoever is killed, and on macOS
system libraries do not bear a fork.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import marshal
import os
import runpy
import secrets
import selectors
import shlex
import signal
import socket
import struct
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ottla.pipeline.run.fork_client import ADDRESS, ANSWER, LENGTH
from ottla.pipeline.run.helper_process import HelperProcess, end_helper, leave_signals, start_helper
from ottla.pipeline.run.user_cache import cached_command

IMPORTED = (
    "pyspark.worker",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "ottla.pipeline.source.source",
    "ottla.pipeline.sink.sink",
    "ottla.pipeline.lake.files",
    "pandas",  # by Arrow, with the first value of Python that it is given
)
"""With these comes all that tasks import."""

_CLIENT = Path(__file__).with_name("fork_client.py")
_PEER = struct.Struct("3i")
"""Process, user and group, as SO_PEERCRED has them."""
_REQUEST_TIMEOUT = struct.pack("ll", 5, 0)
"""For what a client wants, as SO_RCVTIMEO has it: seconds and microseconds. With a time-out of
Python's own MSG_WAITALL would not wait."""
_IS_LINUX = sys.platform.startswith("linux")


class Request(NamedTuple):
    """For one process, as its client would have run it."""

    arguments: list[str]
    environment: dict[str, str]
    folder: str


def forking_python(environment: Mapping[str, str]) -> dict[str, str] | None:
    """Of the environment of Spark, so that its Python processes are forks. None where they cannot
    be. There is one server in a process, and it ends with it."""
    # A Spark that lies elsewhere may have modules of another version.
    if not _IS_LINUX or "SPARK_HOME" in environment:
        return None
    try:
        launcher = cached_command("python", "python", launcher_text())
    except OSError:
        return None
    command = str(launcher)
    address = _address_of_server(environment)
    return {"PYSPARK_DRIVER_PYTHON": command, "PYSPARK_PYTHON": command, ADDRESS: address}


def launcher_text() -> str:
    client = shlex.join([sys.executable, "-IS", str(_CLIENT)])
    return f'#!/bin/sh\nexec {client} "$@"\n'


def start(environment: Mapping[str, str], imported: Sequence[str]) -> tuple[str, HelperProcess]:
    """Its address, and its process. Returns at once: whoever asks waits until all is imported."""
    address = f"ottla-{secrets.token_hex(16)}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + address)
        listener.listen(64)
        process = start_helper(
            __name__,
            [str(listener.fileno()), *imported],
            # Spark gives both to what it starts, and they count at the start of a Python only.
            environment={"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", **environment},
            pass_fds=[listener.fileno()],
        )
    return address, process


_address: str | None = None
"""Of the server of this process."""


def _address_of_server(environment: Mapping[str, str]) -> str:
    global _address
    if _address is None:
        _address, process = start(environment, IMPORTED)
        atexit.register(end_helper, process)
    return _address


class _Server:
    """Serves until its stdin ends; a fork leaves it with its request."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._clients: dict[int, socket.socket] = {}
        """By the process that each waits for."""
        self._woken, wake = socket.socketpair()
        self._wake = wake
        wake.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(sys.stdin, selectors.EVENT_READ, self._end)
        self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, self._reap)
        self._is_ended = False

    def serve(self) -> Request | None:
        """None in the server, at its end; in a fork what it shall be."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        while not self._is_ended:
            for key, _ in self._selector.select():
                if (request := key.data()) is not None:
                    assert isinstance(request, Request), "nothing else is handed up"
                    return request
        return None

    def _end(self) -> None:
        self._is_ended = True

    def _accept(self) -> Request | None:
        """The request in a fork, None in the server."""
        client, _ = self._listener.accept()
        peer = client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        if _PEER.unpack(peer)[1] != os.getuid():
            client.close()  # the name of a socket is no secret
            return None
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _REQUEST_TIMEOUT)
        files: list[int] = []
        try:
            head, files, _, _ = socket.recv_fds(client, LENGTH.size, 3)
            body = client.recv(LENGTH.unpack(head)[0], socket.MSG_WAITALL)
            request = Request(*marshal.loads(body))
            pid = os.fork()
            if pid == 0:
                self._leave(client, files)
                return request
            client.sendall(ANSWER.pack(pid))
            self._clients[pid] = client
            self._selector.register(client, selectors.EVENT_READ, lambda: self._lost(pid))
        except (OSError, EOFError, ValueError, TypeError, struct.error):
            client.close()
        finally:
            for file in files:
                os.close(file)
        return None

    def _lost(self, pid: int) -> None:
        """The client was killed, so that it could not pass the signal on."""
        if self._forget(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        self._woken.recv(4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if (client := self._clients.get(pid)) is not None:
                with contextlib.suppress(OSError):
                    client.sendall(ANSWER.pack(os.waitstatus_to_exitcode(status)))
                self._forget(pid)

    def _forget(self, pid: int) -> bool:
        """False where it was forgotten before: a process and its client may end at once."""
        client = self._clients.pop(pid, None)
        if client is None:
            return False
        self._selector.unregister(client)
        client.close()
        return True

    def _leave(self, client: socket.socket, files: list[int]) -> None:
        """In a fork: nothing of the server stays but what it has imported."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for one in (client, self._listener, self._woken, self._wake, *self._clients.values()):
            one.close()
        for standard, file in enumerate(files):
            os.dup2(file, standard)


def _run(request: Request) -> None:
    """As `python -m MODULE ...` does, with the environment of whoever asked."""
    os.environ.clear()
    os.environ.update(request.environment)
    os.chdir(request.folder)
    for path in filter(None, request.environment.get("PYTHONPATH", "").split(os.pathsep)):
        if path not in sys.path:
            sys.path.append(path)
    _, module, *arguments = request.arguments
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def main(arguments: Sequence[str]) -> None:
    leave_signals()
    # Allocators of Arrow and deltalake have threads of their own, which bear a fork.
    warnings.filterwarnings("ignore", ".* is multi-threaded, use of fork", DeprecationWarning)
    descriptor, *imported = arguments
    for name in imported:
        importlib.import_module(name)
    # A fork that collects garbage would copy what it only looks at.
    gc.collect()
    gc.freeze()
    request = _Server(socket.socket(fileno=int(descriptor))).serve()
    if request is not None:
        _run(request)


if __name__ == "__main__":
    main(sys.argv[1:])
