"""Stands for the Python that Spark starts: has the fork server start it, and lives as long.

Run by a launcher of `fork_server`, as `python -IS fork_client.py ARGUMENTS`: without what is
installed, so that it is there in 20 ms. Where nobody answers, it becomes a Python like any other.
"""

import contextlib
import marshal
import os
import signal
import socket
import struct
import sys

ADDRESS = "OTTLA_FORK_SERVER"
"""In the environment: the name of an abstract socket."""
LENGTH = struct.Struct("!I")
ANSWER = struct.Struct("!i")
"""First the process id, and at its end the exit code."""


_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


def run(arguments: list[str]) -> int | None:
    """The exit code; None where it was not started."""
    # Until there is somebody to pass them on to.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.connect("\0" + os.environ[ADDRESS])
            request = marshal.dumps((arguments, dict(os.environ), os.getcwd()))
            socket.send_fds(server, [LENGTH.pack(len(request))], [0, 1, 2])
            server.sendall(request)
            if (pid := _answer(server)) is None:
                return None

            def pass_on(number: int, _: object) -> None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)

            for number in _PASSED_ON:
                signal.signal(number, pass_on)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            exit_code = _answer(server)
            return 1 if exit_code is None else exit_code if exit_code >= 0 else 128 - exit_code
    except (OSError, KeyError):
        return None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _answer(server: socket.socket) -> int | None:
    data = server.recv(ANSWER.size, socket.MSG_WAITALL)
    return int(ANSWER.unpack(data)[0]) if len(data) == ANSWER.size else None


if __name__ == "__main__":
    # Modules are what Spark runs all the time; it also asks for the version, once.
    code = run(sys.argv[1:]) if sys.argv[1:2] == ["-m"] else None
    if code is None:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
    sys.exit(code)
