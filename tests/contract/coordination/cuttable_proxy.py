"""A way to ZooKeeper that can be cut, and that can lose an answer."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from contextlib import suppress

_MULTI = 14


class CuttableProxy:
    """Between one store and the server, on the loop of the test."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._is_cut = False
        self._keeps_silent = False
        self._loses_next_answer = False
        self._lost_xid: int | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.address = ""
        self.answer_count = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut(self) -> None:
        """Every connection ends, and so does each new one, until `heal`."""
        self._is_cut = True
        self._end_connections()

    def heal(self) -> None:
        self._is_cut = False

    def keep_silent_once(self) -> None:
        """The next connection is accepted, and hears nothing."""
        self._keeps_silent = True

    def lose_next_answer(self) -> None:
        """The next write reaches the server; its answer is lost, with the connection."""
        self._loses_next_answer = True

    def _end_connections(self) -> None:
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        if self._keeps_silent:
            self._keeps_silent = False
            self._writers.add(writer)
            return
        try:
            server_reader, server_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.close()
            return
        self._writers |= {writer, server_writer}
        for pumping in (
            self._pump(reader, server_writer, self._look_at_request),
            self._pump(server_reader, writer, self._is_to_be_lost),
        ):
            task = asyncio.ensure_future(pumping)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        look: Callable[[bytes], bool],
    ) -> None:
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                header = await reader.readexactly(4)
                frame = await reader.readexactly(struct.unpack(">i", header)[0])
                if look(frame):
                    self._end_connections()
                    return
                writer.write(header + frame)
                await writer.drain()
        writer.close()

    def _look_at_request(self, frame: bytes) -> bool:
        xid, kind = struct.unpack_from(">ii", frame)
        if self._loses_next_answer and kind == _MULTI:
            self._loses_next_answer, self._lost_xid = False, xid
        return False

    def _is_to_be_lost(self, frame: bytes) -> bool:
        self.answer_count += 1
        if self._lost_xid is None or struct.unpack_from(">i", frame)[0] != self._lost_xid:
            return False
        self._lost_xid = None
        return True
