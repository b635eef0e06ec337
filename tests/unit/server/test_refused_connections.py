from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from ottla.server.refused_connections import INTERVAL_S, TOLD_APART_MAX, RefusedConnections
from ottla.testing.loop import VirtualClock, VirtualLoop, run_virtual


def run(scenario: Callable[[RefusedConnections], Awaitable[None]]) -> None:
    async def main(loop: VirtualLoop) -> None:
        await scenario(RefusedConnections(VirtualClock(loop)))

    run_virtual(main)


def test_twenty_times_a_second_is_said_at_once_and_then_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(refused: RefusedConnections) -> None:
        for number in range(20 * 150):
            refused.note(f"far:{number}", "far", "it speaks TLS")
            await asyncio.sleep(0.05)
        refused.close()

    run(scenario)
    assert caplog.messages == [
        "closing connection peer=far:0: it speaks TLS",
        "closed 1199 more from far within 60 s, the last peer=far:1199: it speaks TLS",
        "closed 1200 more from far within 60 s, the last peer=far:2399: it speaks TLS",
    ]


def test_one_who_comes_back_after_a_quiet_minute_is_new(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(refused: RefusedConnections) -> None:
        for number in range(2):
            refused.note(f"far:{number}", "far", "it speaks TLS")
            await asyncio.sleep(INTERVAL_S + 1)

    run(scenario)
    assert caplog.messages == [
        "closing connection peer=far:0: it speaks TLS",
        "closing connection peer=far:1: it speaks TLS",
    ]


def test_hosts_and_kinds_are_told_apart_and_reasons_of_a_kind_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(refused: RefusedConnections) -> None:
        refused.note("a:1", "a", "it speaks TLS")
        refused.note("b:1", "b", "it speaks TLS")
        refused.note("a:2", "a", "byte 7 is odd", "bad request")
        refused.note("a:3", "a", "byte 8 is odd", "bad request")
        await asyncio.sleep(INTERVAL_S + 1)
        refused.close()

    run(scenario)
    assert caplog.messages == [
        "closing connection peer=a:1: it speaks TLS",
        "closing connection peer=b:1: it speaks TLS",
        "closing connection peer=a:2: byte 7 is odd",
        "closed 1 more from a within 60 s, the last peer=a:3: byte 8 is odd",
    ]


def test_a_scan_by_many_hosts_fills_neither_log_nor_memory(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(refused: RefusedConnections) -> None:
        for number in range(10_000):
            refused.note(f"h{number}:1", f"h{number}", "odd")
        assert len(caplog.messages) == TOLD_APART_MAX + 1
        await asyncio.sleep(INTERVAL_S + 1)
        refused.close()

    run(scenario)
    told = 10_000 - TOLD_APART_MAX - 1
    assert caplog.messages[TOLD_APART_MAX + 1 :] == [
        f"closed {told} more from other hosts within 60 s, the last peer=h9999:1: odd"
    ]
