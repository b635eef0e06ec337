"""A simulated machine: a disk that outlives its processes, and a broker that can be killed.

A killed process leaves no trace but its files: its timers do not ring, its workers do not finish,
its connections break, its tasks end, and its session in the coordination store is over.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, cast

from ottla.broker import Broker
from ottla.config.broker import BrokerConfig
from ottla.kernel.transport import Listener, Receiver, Transport
from ottla.testing.disk import SimulatedDisk
from ottla.testing.disk_pace import DiskPace
from ottla.testing.loop import VirtualClock, VirtualLoop
from ottla.testing.network import SimulatedListener, SimulatedNetwork
from ottla.testing.store import MemoryEnsemble, MemoryStore
from ottla.testing.workers import SimulatedWorkers

_process: ContextVar[SimulatedProcess | None] = ContextVar("process", default=None)


class SimulatedProcess:
    """One run of a broker: everything that ends when it is killed."""

    def __init__(
        self,
        config: BrokerConfig,
        loop: VirtualLoop,
        rng: random.Random,
        disk: SimulatedDisk,
        network: SimulatedNetwork,
        ensemble: MemoryEnsemble,
    ) -> None:
        self._loop = loop
        self._network = network
        self._ensemble = ensemble
        self._listeners: list[SimulatedListener] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self.is_dead = False
        self._clock = VirtualClock(loop)
        self._workers = SimulatedWorkers(loop, rng)
        self.store = MemoryStore(ensemble)
        self.broker = Broker(
            config,
            clock=self._clock,
            disk=disk,
            network=self,
            workers=self._workers,
            store=self.store,
            rng=rng,
        )

    async def run(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Everything that the call starts belongs to this process."""
        with self.entered():
            await call()

    @contextmanager
    def entered(self) -> Iterator[None]:
        token = _process.set(self)
        try:
            yield
        finally:
            _process.reset(token)

    def die(self) -> None:
        self.is_dead = True
        self._loop.drop_callbacks(lambda context: context.get(_process) is self)
        for listener in self._listeners:
            listener.die()
        self._clock.stop()
        self._workers.die()
        for task in self._tasks:
            task.cancel()
        self.expire_session()

    def expire_session(self) -> None:
        if self.store.session_id:  # Else it died before it had one.
            self._ensemble.expire(self.store)

    def owns(self, task: asyncio.Task[Any]) -> None:
        self._tasks = [each for each in self._tasks if not each.done()]
        self._tasks.append(task)

    # -- Network: what a broker opens is closed when it dies ----------------------------------

    def listen(self, host: str, port: int, accept: Callable[[Transport], Receiver]) -> Listener:
        def accept_in_process(transport: Transport) -> Receiver:
            with self.entered():
                return _ProcessReceiver(self, accept(transport))

        listener = self._network.listen(host, port, accept_in_process)
        assert isinstance(listener, SimulatedListener)
        self._listeners.append(listener)
        return listener

    async def connect(
        self, host: str, port: int, accept: Callable[[Transport], Receiver]
    ) -> Transport:
        return await self._network.connect(host, port, accept)


class _ProcessReceiver:
    """One end of a connection that a process accepted. What it hears it hears in its process, and
    nothing when that is dead."""

    def __init__(self, process: SimulatedProcess, receiver: Receiver) -> None:
        self._process = process
        self._receiver = receiver

    def get_buffer(self) -> memoryview:
        return self._receiver.get_buffer()

    def bytes_received(self, count: int) -> None:
        if not self._process.is_dead:
            with self._process.entered():
                self._receiver.bytes_received(count)

    def bytes_sent(self) -> None:
        if not self._process.is_dead:
            with self._process.entered():
                self._receiver.bytes_sent()

    def connection_lost(self, error: BaseException | None) -> None:
        if not self._process.is_dead:
            with self._process.entered():
                self._receiver.connection_lost(error)


class SimulatedMachine:
    """Owned by a test, over all the crashes of its broker."""

    def __init__(
        self,
        settings: dict[str, str],
        loop: VirtualLoop,
        rng: random.Random,
        network: SimulatedNetwork,
        ensemble: MemoryEnsemble,
        *,
        takes_time_to_write: bool = False,
    ) -> None:
        self._config = BrokerConfig({"log.dirs": "/data", **settings})
        self._loop = loop
        self._rng = rng
        self._network = network
        self.ensemble = ensemble
        self.disk = SimulatedDisk(
            rng,
            now_ms=VirtualClock(loop).now_ms,
            pace=DiskPace(rng, loop) if takes_time_to_write else None,
        )
        self._running: SimulatedProcess | None = None
        loop.set_task_factory(cast("Any", _make_task))

    @property
    def broker(self) -> Broker:
        assert self._running is not None, "the broker does not run"
        return self._running.broker

    @property
    def store(self) -> MemoryStore:
        """The broker's session, for faults to order."""
        assert self._running is not None, "the broker does not run"
        return self._running.store

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

    def _new_process(self) -> SimulatedProcess:
        return SimulatedProcess(
            self._config, self._loop, self._rng, self.disk, self._network, self.ensemble
        )

    async def stop(self) -> None:
        assert self._running is not None, "the broker does not run"
        await self._running.run(self._running.broker.stop)
        self._running = None

    def kill(self) -> None:
        """kill -9: what was written is in the page cache, and so not lost."""
        self._end()
        self.disk.kill()

    def lose_power(self) -> None:
        """What was not synced is lost, or was written by chance."""
        self._end()
        self.disk.crash()

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
