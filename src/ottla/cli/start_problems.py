"""Why a broker cannot start, in the words of its command line. Imported on the way to an error."""

from __future__ import annotations

import errno
import os
import socket
from typing import TYPE_CHECKING

from ottla.cli.command_line import command_line
from ottla.cli.port_owner import port_owner
from ottla.coordination.store import ConnectionLost

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

_LISTEN_ERRORS = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)


def data_dir_problem(path: str, flag: str) -> str | None:
    """None where the folder is there and can be used, or can be made."""
    there = path
    while not os.path.lexists(there):
        there = os.path.dirname(there.rstrip("/")) or ("/" if there.startswith("/") else ".")
    if not os.path.isdir(there):
        return f"{flag} {path}: {there} is a file; give a folder, or one that can be made"
    if not os.access(there, os.W_OK | os.X_OK):
        return f"{flag} {path}: {there} is not writable; give another folder"
    return None


def in_words(error: Exception, config: BrokerConfig) -> str:
    if config.zookeeper_connect is not None and isinstance(error, ConnectionLost):
        return _zookeeper_problem(error, config.zookeeper_connect)
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error)
    if isinstance(error, socket.gaierror) or (error.errno in _LISTEN_ERRORS and not error.filename):
        return _listen_problem(error, config)
    return f"{error.strerror}: {error.filename}" if error.filename else error.strerror


def _listen_problem(error: OSError, config: BrokerConfig) -> str:
    where = ", ".join(str(listener).partition("://")[2] for listener in config.listeners)
    if error.errno != errno.EADDRINUSE:
        return f"cannot listen on {where}: {error.strerror}; --listen HOST:PORT picks another place"
    owners = [port_owner(listener.port) for listener in config.listeners]
    owner = next(filter(None, owners), "another process")
    return (
        f"cannot listen on {where}: Address already in use by {owner}; stop that, or take another "
        "port with --listen HOST:PORT (port 0: one that is free)"
    )


def _zookeeper_problem(error: Exception, connect: str) -> str:
    from urllib.parse import urlsplit

    for address in connect.partition("/")[0].split(","):
        host = urlsplit(f"//{address.strip()}").hostname
        try:
            socket.getaddrinfo(host, None)
        except OSError as unknown:
            return f"--zookeeper {connect}: {host}: {unknown.strerror}"
    return (
        f"{error}; see that it runs, and that --zookeeper names it (`{command_line('zookeeper')}` "
        "starts one for tests)"
    )
