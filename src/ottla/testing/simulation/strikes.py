"""Faults that wait for an event: whoever has just done something is struck before it can go on, or
a moment later, when others have heard of one half of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ottla.testing.machine import APPEND, STORE_WRITE
from ottla.testing.simulation.cluster import STATE_CHANGE, host_of
from ottla.testing.simulation.faults import TRANSACTION_STEP, Fault, Faults

Strike = Callable[[Faults, int], Coroutine[Any, Any, None]]

_MOMENT_S = 0.02


async def strike_after_append(faults: Faults) -> None:
    await _strike_after(faults, strike_after_append, APPEND, 0.005)


async def strike_after_store_write(faults: Faults) -> None:
    await _strike_after(faults, strike_after_store_write, STORE_WRITE, 0.03)


async def strike_after_state_change(faults: Faults) -> None:
    await _strike_after(faults, strike_after_state_change, STATE_CHANGE, 0.01)


async def strike_coordinator_in_transaction(faults: Faults) -> None:
    await _strike_after(faults, strike_coordinator_in_transaction, TRANSACTION_STEP, 0.03)


async def _strike_after(faults: Faults, kind: Fault, event: str, chance: float) -> None:
    """One at a time: what happens while one is struck strikes nobody."""
    struck: asyncio.Queue[int] = asyncio.Queue()
    is_striking = False

    def happened(broker_id: int) -> None:
        nonlocal is_striking
        if not is_striking and faults.rng.random() < chance and faults.strikes(kind):
            is_striking = True
            struck.put_nowait(broker_id)

    faults.listeners[event].append(happened)
    while True:
        broker_id = await struck.get()
        if faults.rng.random() < 0.5:
            await faults.wait(_MOMENT_S)
        if broker_id in faults.cluster.running():
            strike = faults.rng.choice(_STRIKES)
            faults.cluster.trace.note(f"{strike.__name__} {broker_id} after {event}")
            await strike(faults, broker_id)
        is_striking = False


async def _kill(faults: Faults, broker_id: int) -> None:
    faults.cluster.kill(broker_id)


async def _pause(faults: Faults, broker_id: int) -> None:
    faults.cluster.pause(broker_id)
    await faults.wait(2)
    faults.cluster.resume(broker_id)


async def _stop(faults: Faults, broker_id: int) -> None:
    await faults.cluster.stop(broker_id)


async def _expire_session(faults: Faults, broker_id: int) -> None:
    faults.cluster.machines[broker_id].expire_session()


async def _lose_store(faults: Faults, broker_id: int) -> None:
    """Its answers first."""
    store = faults.cluster.machines[broker_id].remote_store
    store.cut()
    await faults.wait(1)
    store.heal()


async def _reset(faults: Faults, broker_id: int) -> None:
    for host in (*faults.client_hosts, *map(host_of, faults.cluster.machines)):
        faults.cluster.network.reset(host_of(broker_id), host)


async def _isolate(faults: Faults, broker_id: int) -> None:
    """From the other brokers. Clients and the store reach it."""
    host = host_of(broker_id)
    others = [host_of(each) for each in faults.cluster.machines if each != broker_id]
    for other in others:
        faults.cut(other, host)
        faults.cut(host, other)
    await faults.wait(2)
    for other in others:
        faults.heal_cut(other, host)
        faults.heal_cut(host, other)


_STRIKES: tuple[Strike, ...] = (
    _kill,
    _pause,
    _stop,
    _expire_session,
    _lose_store,
    _reset,
    _isolate,
)
