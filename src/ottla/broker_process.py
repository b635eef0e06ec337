"""A broker in a process of its own, on the machine's own clock, disk, network and threads: from its
settings to the signal that stops it."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import resource
import signal
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from ottla.broker import STORE_FILE, Broker
from ottla.config.broker import BrokerConfig
from ottla.coordination.boot import boot_id
from ottla.coordination.sqlite import SqliteStore
from ottla.coordination.store import Store
from ottla.coordination.znodes import Endpoint
from ottla.kernel.clock import Clock, SystemClock
from ottla.kernel.disk import SystemDisk
from ottla.kernel.garbage import freeze_survivors
from ottla.kernel.network import SystemNetwork
from ottla.kernel.workers import ThreadWorkers, Workers

log = logging.getLogger(__name__)

OPEN_FILES_WANTED = 1 << 20

EXIT_FAILED = 1


class ReadyInfo(NamedTuple):
    """What a person who started the broker wants to know."""

    broker_id: int
    addresses: list[str]
    data_dirs: list[str]


def _make_store(config: BrokerConfig, *, clock: Clock, disk: SystemDisk, workers: Workers) -> Store:
    session_timeout_ms = config.zookeeper_session_timeout_ms
    if config.zookeeper_connect is None:
        return SqliteStore(
            _store_path(config, disk),
            clock=clock,
            disk=disk,
            workers=workers,
            session_timeout_ms=session_timeout_ms,
        )
    # kazoo, which a broker without ZooKeeper does without.
    from ottla.coordination.zookeeper import ZooKeeperStore

    return ZooKeeperStore(
        config.zookeeper_connect,
        session_timeout_ms=session_timeout_ms,
        connection_timeout_ms=config.zookeeper_connection_timeout_ms or session_timeout_ms,
        in_flight_max=config.zookeeper_max_in_flight_requests,
    )


def _store_path(config: BrokerConfig, disk: SystemDisk) -> str:
    if config.ottla_coordination_file is None:
        return os.path.join(config.log_dirs[0], STORE_FILE)
    disk.make_folders(os.path.dirname(os.path.abspath(config.ottla_coordination_file)))
    return config.ottla_coordination_file


async def _run(
    config: BrokerConfig, on_ready: Callable[[ReadyInfo], None], passed: Callable[[str], None]
) -> int:
    clock = SystemClock()
    disk = SystemDisk()
    workers = ThreadWorkers()
    broker = Broker(
        config,
        clock=clock,
        disk=disk,
        network=SystemNetwork(
            workers,
            send_buffer_bytes=config.socket_send_buffer_bytes,
            receive_buffer_bytes=config.socket_receive_buffer_bytes,
        ),
        workers=workers,
        store=_make_store(config, clock=clock, disk=disk, workers=workers),
        rng=random.SystemRandom(),
        boot_id=boot_id(),
    )
    stopping = asyncio.Event()
    _stop_by_signals(stopping)
    passed("event loop")
    try:
        if not await _finishes(broker.start(passed), unless=stopping):
            return 0
        freeze_survivors(asyncio.get_running_loop())
        gc.enable()
        on_ready(
            ReadyInfo(
                broker_id=broker.broker_id,
                addresses=[address_text(endpoint) for endpoint in broker.endpoints],
                data_dirs=list(config.log_dirs),
            )
        )
        broker.failed.add_done_callback(lambda _: stopping.set())
        await stopping.wait()
        if broker.failed.done():
            log.error("stopping: %s", broker.failed.result())
            return EXIT_FAILED
    finally:
        await broker.stop()
        workers.close()
    return 0


def _stop_by_signals(stopping: asyncio.Event) -> None:
    """SIGTERM or SIGINT for the second time does not wait: the next start recovers what a clean
    stop would have saved it. A terminal that is closed says so, and its shell again."""
    loop, is_told = asyncio.get_running_loop(), False

    def stop() -> None:
        nonlocal is_told
        if is_told:
            os._exit(0)
        is_told = True
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as nohup has it
        loop.add_signal_handler(signal.SIGHUP, stopping.set)


async def _finishes(start: Coroutine[Any, Any, None], *, unless: asyncio.Event) -> bool:
    """Recovery after a crash may take minutes: whoever wants the broker to stop need not wait."""
    starting = asyncio.ensure_future(start)
    stopping = asyncio.ensure_future(unless.wait())
    await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if starting.done():
        starting.result()
        return True
    starting.cancel()
    await asyncio.wait([starting])
    return False


def address_text(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


def run(
    config: BrokerConfig,
    *,
    on_ready: Callable[[ReadyInfo], None],
    passed: Callable[[str], None] = lambda part: None,
) -> int:
    """Runs a broker in this process until SIGTERM, SIGINT or SIGHUP."""
    _raise_open_files_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_run(config, on_ready, passed))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None  # Stock asyncio serves as well, only slower.
    return uvloop.new_event_loop


def _raise_open_files_limit() -> None:
    """A broker has a file for each segment in use and a socket for each client."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES_WANTED if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES_WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
