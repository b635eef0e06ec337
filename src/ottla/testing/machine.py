"""A simulated machine: a disk that outlives its processes, and a broker that can be killed.

A killed process leaves no trace but its files: its timers do not ring, its workers do not finish,
its connections break, its tasks end, and its session in the coordination store is over, now or when
it has timed out. A paused one stands still and gives nothing up: neither connections nor locks, nor
its session.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import Any, cast

from ottla.broker import Broker
from ottla.config.broker import BrokerConfig
from ottla.kernel.transport import Listener, Network, Receiver, Transport
from ottla.storage.file_names import LOG_SUFFIX
from ottla.testing.disk import SimulatedDisk
from ottla.testing.disk_pace import DiskPace
from ottla.testing.loop import Pause, VirtualClock, VirtualLoop
from ottla.testing.network import SimulatedListener
from ottla.testing.remote_store import RemoteStore
from ottla.testing.store import MemoryEnsemble, MemoryStore
from ottla.testing.workers import SimulatedWorkers

APPEND = "append"
"""To a segment, by a leader or a follower."""
STORE_WRITE = "store write"
"""To the coordination store, whose answer is still to come."""

_process: ContextVar[SimulatedProcess | None] = ContextVar("process", default=None)


def current_broker_id() -> int | None:
    """Whose process is running this."""
    process = _process.get()
    return None if process is None else process.broker_id


class ProcessDied(Exception):
    pass


class SimulatedProcess:
    """One run of a broker: everything that ends when it is killed."""

    def __init__(
        self,
        config: BrokerConfig,
        loop: VirtualLoop,
        rng: random.Random,
        disk: SimulatedDisk,
        network: Network,
        ensemble: MemoryEnsemble,
        make_broker: Callable[..., Broker],
        boot_id: str,
        skew_ms: int,
        session_timeout_s: float | None,
    ) -> None:
        self.broker_id = config.broker_id
        self._loop = loop
        self._network = network
        self._ensemble = ensemble
        self._listeners: list[SimulatedListener] = []
        self._connected: list[Transport] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self.is_dead = False
        self._pause: Pause | None = None
        self._clock = VirtualClock(loop, skew_ms=skew_ms)
        self.workers = SimulatedWorkers(loop, rng)
        self.store = (
            MemoryStore(ensemble)
            if session_timeout_s is None
            else RemoteStore(ensemble, loop, rng, session_timeout_s=session_timeout_s)
        )
        self.broker = make_broker(
            config,
            clock=self._clock,
            disk=disk,
            network=self,
            workers=self.workers,
            store=self.store,
            rng=rng,
            boot_id=boot_id,
        )

    async def run(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """In this process, with everything that the call starts. Raises ProcessDied when it was
        killed meanwhile."""
        with self.entered():
            task = self._loop.create_task(call())
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            raise
        if self.is_dead:
            raise ProcessDied
        task.result()

    @contextmanager
    def entered(self) -> Iterator[None]:
        token = _process.set(self)
        try:
            yield
        finally:
            _process.reset(token)

    def belongs(self, context: Context) -> bool:
        return context.get(_process) is self

    def pause(self) -> None:
        """No timer rings, no worker goes on, nothing is read, no session is renewed. Whatever it
        holds it holds on to."""
        assert self._pause is None, "it is paused"
        self._pause = self._loop.pause(self.belongs)

    def resume(self) -> None:
        if self._pause is not None:
            self._pause.end()
            self._pause = None

    def die(self) -> None:
        self.is_dead = True
        self._loop.drop_callbacks(self.belongs)
        self.resume()
        for listener in self._listeners:
            listener.die()
        for transport in self._connected:
            transport.close()
        self._clock.stop()
        self.workers.die()
        for task in self._tasks:
            task.cancel()
        if isinstance(self.store, RemoteStore):
            self.store.die()
        else:
            self._ensemble.end_session(self.store.session_id)

    def expire_session(self) -> None:
        """What the broker does about it belongs to its process."""
        if isinstance(self.store, RemoteStore):
            self._ensemble.end_session(self.store.session_id)
        else:
            with self.entered():
                self._ensemble.expire(self.store)

    def owns(self, task: asyncio.Task[Any]) -> None:
        self._tasks = [each for each in self._tasks if not each.done()]
        self._tasks.append(task)

    # -- Network: what a broker opens is closed when it dies ----------------------------------

    def listen(self, host: str, port: int, accept: Callable[[Transport], Receiver]) -> Listener:
        listener = self._network.listen(
            host, port, lambda transport: _ProcessReceiver(self, accept(transport))
        )
        assert isinstance(listener, SimulatedListener)
        self._listeners.append(listener)
        return listener

    async def connect(
        self, host: str, port: int, accept: Callable[[Transport], Receiver]
    ) -> Transport:
        def accept_in_process(transport: Transport) -> Receiver:
            self._connected.append(transport)
            return _ProcessReceiver(self, accept(transport), lambda: self._lost(transport))

        return await self._network.connect(host, port, accept_in_process)

    def _lost(self, transport: Transport) -> None:
        self._connected.remove(transport)


class _ProcessReceiver:
    """One end of a connection of a process. It hears nothing when that is dead."""

    def __init__(
        self,
        process: SimulatedProcess,
        receiver: Receiver,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._process = process
        self._receiver = receiver
        self._on_lost = on_lost

    def get_buffer(self) -> memoryview:
        return self._receiver.get_buffer()

    def bytes_received(self, count: int) -> None:
        if not self._process.is_dead:
            self._receiver.bytes_received(count)

    def bytes_sent(self) -> None:
        if not self._process.is_dead:
            self._receiver.bytes_sent()

    def connection_lost(self, error: BaseException | None) -> None:
        if not self._process.is_dead:
            self._on_lost()
            self._receiver.connection_lost(error)


class SimulatedMachine:
    """Owned by a test, over all the crashes of its broker. Several have a host each on one network,
    and one ensemble."""

    def __init__(
        self,
        settings: dict[str, str],
        loop: VirtualLoop,
        rng: random.Random,
        network: Network,
        ensemble: MemoryEnsemble,
        *,
        takes_time_to_write: bool = False,
        skew_ms: int = 0,
        session_timeout_s: float | None = None,
        make_broker: Callable[..., Broker] = Broker,
    ) -> None:
        """`skew_ms` is how far its clock is ahead of the others. With a session time-out its store
        is a remote one: the session of a killed broker lives on until then. Without, it ends at
        once, as with SQLite."""
        self._settings = {"log.dirs": "/data", **settings}
        self._loop = loop
        self._rng = rng
        self._network = network
        self._skew_ms = skew_ms
        self._session_timeout_s = session_timeout_s
        self._make_broker = make_broker
        self.ensemble = ensemble
        self.disk = SimulatedDisk(
            rng,
            now_ms=VirtualClock(loop, skew_ms=skew_ms).now_ms,
            pace=DiskPace(rng, loop) if takes_time_to_write else None,
        )
        self.disk.on_write = self._wrote
        self.on_event: Callable[[str], None] = lambda event: None
        """Told of what its broker has just done: `APPEND` and `STORE_WRITE`."""
        self._boot_count = 1
        self._running: SimulatedProcess | None = None
        loop.set_task_factory(cast("Any", _make_task))

    @property
    def is_running(self) -> bool:
        """Or is about to start or to stop."""
        return self._running is not None

    @property
    def broker(self) -> Broker:
        assert self._running is not None, "the broker does not run"
        return self._running.broker

    @property
    def store(self) -> MemoryStore:
        """The broker's session, for faults to order."""
        assert self._running is not None, "the broker does not run"
        assert isinstance(self._running.store, MemoryStore), "the store is a remote one"
        return self._running.store

    @property
    def remote_store(self) -> RemoteStore:
        assert self._running is not None, "the broker does not run"
        assert isinstance(self._running.store, RemoteStore), "the store has no session time-out"
        return self._running.store

    @property
    def workers(self) -> SimulatedWorkers:
        assert self._running is not None, "the broker does not run"
        return self._running.workers

    async def start(self) -> None:
        assert self._running is None, "the broker runs"
        self._running = self._new_process()
        await self._running.run(self._running.broker.start)

    async def start_another(self) -> None:
        """A second broker on the same folder, beside the one that runs."""
        another = self._new_process()
        await another.run(another.broker.start)

    def expire_session(self) -> None:
        assert self._running is not None, "the broker does not run"
        self._running.expire_session()

    def change_settings(self, settings: dict[str, str]) -> None:
        """From the next start on."""
        self._settings |= settings

    def _wrote(self, path: str) -> None:
        if path.endswith(LOG_SUFFIX):
            self.on_event(APPEND)

    def _new_process(self) -> SimulatedProcess:
        process = SimulatedProcess(
            BrokerConfig(self._settings),
            self._loop,
            self._rng,
            self.disk,
            self._network,
            self.ensemble,
            self._make_broker,
            boot_id=f"boot-{self._boot_count}",
            skew_ms=self._skew_ms,
            session_timeout_s=self._session_timeout_s,
        )
        if isinstance(process.store, RemoteStore):
            process.store.on_write = lambda: self.on_event(STORE_WRITE)
        return process

    async def stop(self) -> None:
        assert self._running is not None, "the broker does not run"
        await self._running.run(self._running.broker.stop)
        self._running = None

    async def stop_and_exit(self) -> None:
        """As the process of a broker does: nothing goes on that the broker has left."""
        process = self._running
        await self.stop()
        assert process is not None, "the broker ran"
        process.die()

    def pause(self) -> None:
        """kill -STOP: the process stands still, and the system goes on taking what it is sent."""
        assert self._running is not None, "the broker does not run"
        self._running.pause()

    def resume(self) -> None:
        assert self._running is not None, "the broker does not run"
        self._running.resume()

    def kill(self) -> None:
        """kill -9: what was written is in the page cache, and so not lost."""
        self._end()
        self.disk.kill()

    def lose_power(self) -> None:
        """What was not synced is lost, or was written by chance."""
        self._end()
        self._boot_count += 1
        self.disk.crash()

    def lose_disk(self) -> None:
        """It breaks for good. When the broker starts again it has another one, an empty one."""
        self._end()
        self._boot_count += 1
        self.disk.replace()

    def _end(self) -> None:
        assert self._running is not None, "the broker does not run"
        self._running.die()
        self._running = None


def _make_task(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **kwargs: Any
) -> asyncio.Task[Any]:
    task = asyncio.Task(coro, loop=loop, **kwargs)
    process = _process.get()
    if process is not None:
        process.owns(task)
    return task
