"""The real network: sockets on the loop, by reader and writer callbacks.

asyncio's own transports copy what they send and know no file slices; raw callbacks measured as
fast as a hand-made epoll loop, and records leave by `sendfile`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from ottla.kernel.disk import Buffer, FileSlice
from ottla.kernel.transport import Listener, Part, Receiver, Transport
from ottla.kernel.wakefulness import Wakefulness
from ottla.kernel.workers import Workers

log = logging.getLogger(__name__)

# One callback accepts or sends at most this much, so that one connection cannot keep the loop. A
# `sendfile` of a megabyte takes 0.2 ms, at times 0.5, and a produce of another client waits for it;
# of a quarter of that, a tenth is what a turn of the loop costs by itself.
_ACCEPT_COUNT_MAX = 64
_SEND_BYTES_MAX = 256 * 1024
# A fetch of ten thousand partitions is as many slices of files, a few bytes each.
_SEND_CALLS_MAX = 128

# A cold file is read in chunks of this size by a worker before `sendfile` may touch it.
_WARM_BYTES = 1024 * 1024

# Below this, joining buffers and one `send` is quicker than `sendmsg` over many.
_JOIN_BYTES_MAX = 64 * 1024
_IOV_MAX = 512

_ACCEPT_PAUSE_S = 1.0
# Of all descriptors the last ones are kept for files. A log that cannot be rolled for want of one
# takes its log dir offline: clients that connect and do nothing must not bring that about.
_FILE_DESCRIPTORS_MIN = 256
_BACKLOG = 1024
_PORT_TRIES = 16

# Tells the kernel that more follows: the head of a response waits for its records.
_MSG_MORE = getattr(socket, "MSG_MORE", 0)


class SystemTransport:
    """Owns one socket. Lives until the peer leaves, `close`, or an error; nothing survives it."""

    def __init__(
        self,
        sock: socket.socket,
        address: tuple[Any, ...],
        workers: Workers,
        wakefulness: Wakefulness,
    ) -> None:
        host = str(address[0])
        self.peer = f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"
        self.peer_host = host
        self.unsent_byte_count = 0
        self._socket = sock
        self._fd = sock.fileno()
        self._workers = workers
        self._wakefulness = wakefulness
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[Part] = deque()
        self._is_writing = False  # a writer callback is registered
        self._is_warming = False  # a worker is reading the next slice into the page cache
        self._warm_bytes = 0  # of the slice at the head, that it has just read
        self._is_reading = False
        self._is_closed = False
        self._receiver: Receiver

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.resume_reading()

    def pause_reading(self) -> None:
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(self._fd)

    def resume_reading(self) -> None:
        if not self._is_reading and not self._is_closed:
            self._is_reading = True
            self._loop.add_reader(self._fd, self._on_readable)

    def close(self) -> None:
        self._close(None)

    def send(self, parts: Sequence[Part]) -> None:
        if self._is_closed:
            return
        if len(parts) == 1 and not self._unsent and isinstance(parts[0], bytes):
            # Nearly all sends; without the queue they cost 1 µs less.
            rest = self._send_at_once(parts[0])
            if rest is None:
                return
            parts = (rest,)
        self._unsent.extend(parts)
        for part in parts:
            self.unsent_byte_count += len(part)
        if not self._is_writing and not self._is_warming:
            self._send_unsent()

    def _send_at_once(self, content: bytes) -> memoryview | None:
        """What the socket did not take."""
        try:
            sent = self._socket.send(content)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            self._close(error)
            return None
        return None if sent == len(content) else memoryview(content)[sent:]

    def _on_readable(self) -> None:
        try:
            count = self._socket.recv_into(self._receiver.get_buffer())
        except BlockingIOError:
            return
        except OSError as error:
            self._close(error)
            return
        if count == 0:
            self._close(None)
            return
        received_ns = self._wakefulness.now_ns()
        self._receiver.bytes_received(count)
        self._wakefulness.note_request(received_ns, self._loop)

    def _on_writable(self) -> None:
        self._send_unsent()
        if not self._is_closed:
            self._receiver.bytes_sent()

    def _send_unsent(self) -> None:
        """Sends until all is out, the socket is full, a slice is cold, or the turn is over."""
        turn_bytes = _SEND_BYTES_MAX
        turn_calls = _SEND_CALLS_MAX
        try:
            while self._unsent and turn_bytes > 0 and turn_calls > 0:
                turn_calls -= 1
                first = self._unsent[0]
                if isinstance(first, FileSlice):
                    length = min(first.length, turn_bytes, self._warm_bytes or turn_bytes)
                    if not self._warm_bytes and not first.file.is_cached(first.offset, length):
                        self._warm(first)
                        return
                    sent = self._send_slice(first, length)
                    self._warm_bytes = max(0, self._warm_bytes - sent)
                else:
                    sent = self._send_buffers()
                turn_bytes -= sent
                self.unsent_byte_count -= sent
        except BlockingIOError:
            pass
        except OSError as error:
            self._close(error)
            return
        self._set_writing(bool(self._unsent))

    def _send_slice(self, part: FileSlice, length: int) -> int:
        sent = os.sendfile(self._fd, part.file.fileno(), part.offset, length)
        if sent == 0:
            # Truncation took bytes that were promised: the frame cannot be finished.
            raise OSError(errno.EIO, "the file became shorter while it was sent", part.file.path)
        if sent == part.length:
            self._unsent.popleft()
        else:
            self._unsent[0] = FileSlice(part.file, part.offset + sent, part.length - sent)
        return sent

    def _send_buffers(self) -> int:
        """One system call over the run of buffers at the head of the queue."""
        unsent = self._unsent
        buffers: list[Buffer] = []
        total = 0
        more = 0
        for part in unsent:
            if isinstance(part, FileSlice):
                more = _MSG_MORE
                break
            if len(buffers) == _IOV_MAX:
                break
            buffers.append(part)
            total += len(part)
        if len(buffers) == 1:
            sent = self._socket.send(buffers[0], more)
        elif total <= _JOIN_BYTES_MAX:
            sent = self._socket.send(b"".join(buffers), more)
        else:
            sent = self._socket.sendmsg(buffers, (), more)
        rest = sent
        for buffer in buffers:
            if rest < len(buffer):
                break
            rest -= len(buffer)
            unsent.popleft()
        if rest:
            unsent[0] = memoryview(unsent[0])[rest:]  # type: ignore[arg-type]
        return sent

    def _set_writing(self, is_writing: bool) -> None:
        if is_writing != self._is_writing:
            self._is_writing = is_writing
            if is_writing:
                self._loop.add_writer(self._fd, self._on_writable)
            else:
                self._loop.remove_writer(self._fd)

    def _warm(self, part: FileSlice) -> None:
        self._set_writing(False)
        self._is_warming = True
        length = min(part.length, _WARM_BYTES)
        future = self._workers.submit(part.file.read_at, part.offset, length)
        future.add_done_callback(self._on_warm)

    def _on_warm(self, future: asyncio.Future[bytes]) -> None:
        self._is_warming = False
        if self._is_closed or future.cancelled():
            return
        if error := future.exception():
            self._close(error)
            return
        # What a worker just read may be gone again under memory pressure; asking anew could
        # go on for ever, so this chunk is sent as it is.
        self._warm_bytes = min(len(self._unsent[0]), _WARM_BYTES)
        self._on_writable()

    def _close(self, error: BaseException | None) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        self.pause_reading()
        self._set_writing(False)
        self._unsent.clear()
        self.unsent_byte_count = 0
        self._socket.close()
        # Later, when there is a receiver: whoever accepts a connection may refuse it.
        self._loop.call_soon(self._lost, error)

    def _lost(self, error: BaseException | None) -> None:
        receiver = self._receiver
        del self._receiver  # The two refer to each other: see `kernel.garbage`.
        receiver.connection_lost(error)


class SystemListener:
    """Sockets that listen for one named listener. Owned by the broker."""

    def __init__(
        self,
        sockets: list[socket.socket],
        accept: Callable[[Transport], Receiver],
        workers: Workers,
        wakefulness: Wakefulness,
    ) -> None:
        self.port: int = sockets[0].getsockname()[1]
        self._sockets = sockets
        self._accept = accept
        self._workers = workers
        self._wakefulness = wakefulness
        self._loop = asyncio.get_running_loop()
        self._is_closed = False
        self._descriptor_max = _descriptor_max()

    def start(self) -> None:
        self._add_readers()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._remove_readers()
            for sock in self._sockets:
                sock.close()

    def _add_readers(self) -> None:
        if not self._is_closed:
            for sock in self._sockets:
                self._loop.add_reader(sock.fileno(), self._on_readable, sock)

    def _remove_readers(self) -> None:
        for sock in self._sockets:
            self._loop.remove_reader(sock.fileno())

    def _on_readable(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPT_COUNT_MAX):
            try:
                sock, address = listening.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                self._pause(str(error))
                return
            if sock.fileno() > self._descriptor_max:
                sock.close()
                self._pause("too many open files")
                return
            transport = _transport(sock, address, self._workers, self._wakefulness)
            transport.start(self._accept(transport))

    def _pause(self, reason: str) -> None:
        """Level-triggered: without a pause the loop would spin on what it cannot take."""
        log.error("cannot accept a connection: %s; trying again in 1 s", reason)
        self._remove_readers()
        self._loop.call_later(_ACCEPT_PAUSE_S, self._add_readers)


def _descriptor_max() -> int:
    """The largest that a connection may have; the system gives out the smallest that is free."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        limit = sys.maxsize
    return limit - 1 - min(_FILE_DESCRIPTORS_MIN, limit // 4)


class SystemNetwork:
    def __init__(
        self, workers: Workers, *, send_buffer_bytes: int = -1, receive_buffer_bytes: int = -1
    ) -> None:
        """Buffers are those of connections that come in; -1 leaves them to the system, which then
        makes them as large as a connection needs."""
        self._workers = workers
        self._wakefulness = Wakefulness()
        self._buffers = (
            (socket.SO_SNDBUF, send_buffer_bytes),
            (socket.SO_RCVBUF, receive_buffer_bytes),
        )

    def listen(self, host: str, port: int, accept: Callable[[Transport], Receiver]) -> Listener:
        sockets = _bind(host, port)
        for sock in sockets:
            for option, size_bytes in self._buffers:
                if size_bytes > 0:
                    # Connections have what their listening socket had when they came.
                    sock.setsockopt(socket.SOL_SOCKET, option, size_bytes)
        return SystemListener(sockets, accept, self._workers, self._wakefulness)

    async def connect(
        self, host: str, port: int, accept: Callable[[Transport], Receiver]
    ) -> Transport:
        loop = asyncio.get_running_loop()
        failure: OSError | None = None
        for family, kind, proto, _, address in await loop.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        ):
            sock = socket.socket(family, kind, proto)
            sock.setblocking(False)
            try:
                await loop.sock_connect(sock, address)
            except OSError as error:
                sock.close()
                failure = error
                continue
            except asyncio.CancelledError:
                sock.close()
                raise
            transport = _transport(sock, address, self._workers, self._wakefulness)
            transport.start(accept(transport))
            return transport
        raise failure or OSError(f"{host} stands for no address")


def _transport(
    sock: socket.socket, address: tuple[Any, ...], workers: Workers, wakefulness: Wakefulness
) -> SystemTransport:
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return SystemTransport(sock, address, workers, wakefulness)


def _bind(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of the host."""
    for _ in range(_PORT_TRIES):
        try:
            return _bind_all(_addresses(host, port), port)
        except OSError as error:
            # The port that IPv4 was given may be taken in IPv6: then another is picked.
            if port != 0 or error.errno != errno.EADDRINUSE:
                raise
    raise OSError(errno.EADDRINUSE, f"no port is free on every address of {host!r}")


_Address = tuple[socket.AddressFamily, tuple[Any, ...]]


def _addresses(host: str, port: int) -> list[_Address]:
    if host == "localhost":
        # Clients try either; not every hosts file names both.
        return [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET6, ("::1", port))]
    # As text it would be encoded by IDNA, whose tables take a millisecond to import.
    name = host.encode() if host.isascii() else host
    infos = socket.getaddrinfo(name or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # IPv4 first: it is there on nearly every machine, so a port of 0 is picked by it.
    infos.sort(key=lambda info: info[0] != socket.AF_INET)
    return [(info[0], info[4]) for info in infos]


def _bind_all(addresses: list[_Address], port: int) -> list[socket.socket]:
    sockets: list[socket.socket] = []
    failure: OSError | None = None
    for family, address in addresses:
        chosen = sockets[0].getsockname()[1] if sockets and port == 0 else port
        try:
            sockets.append(_listening(family, (address[0], chosen, *address[2:])))
        except OSError as error:
            failure = error
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                break
            # A machine without IPv6 (or without IPv4) serves on what it has.
            continue
    else:
        if sockets:
            return sockets
    for sock in sockets:
        sock.close()
    raise failure or OSError(errno.EADDRNOTAVAIL, "the host stands for no address")


def _listening(family: socket.AddressFamily, address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock
