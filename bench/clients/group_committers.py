"""Many groups, each of which commits an offset at its own fixed interval.

Arguments: ADDRESS BROKER_PID TOPIC GROUPS INTERVAL_S WARM_UP_S SECONDS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from bench import group_protocol as protocol
from bench.clients.sync_producer import percentile_us
from bench.clients.window import Window


class Committer:
    """One group on one connection."""

    def __init__(self, address: str, group: str, topic: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._group = group
        self._topic = topic
        self._offset = 0

    async def run(self, first_s: float, interval_s: float, latencies_ns: list[int]) -> None:
        reader, writer = await asyncio.open_connection(self._host, int(self._port))
        due_s = time.monotonic() + first_s
        try:
            while True:
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
                due_s += interval_s
                self._offset += 1
                frame = protocol.commit(self._group, self._topic, range(1), self._offset)
                begin_ns = time.perf_counter_ns()
                writer.write(frame)
                size = int.from_bytes(await reader.readexactly(4), "big")
                answer = await reader.readexactly(size)
                latencies_ns.append(time.perf_counter_ns() - begin_ns)
                if code := protocol.commit_error_code(answer):
                    raise SystemExit(f"OffsetCommit: error {code}")
        finally:
            writer.close()


async def measure(
    address: str, pid: int, topic: str, count: int, interval_s: float, warm_up_s: float, s: float
) -> dict[str, float]:
    latencies_ns: list[int] = []
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(
                Committer(address, f"committer-{number}", topic).run(
                    interval_s * number / count, interval_s, latencies_ns
                )
            )
            for number in range(count)
        ]
        await asyncio.sleep(warm_up_s)
        latencies_ns.clear()
        window = Window(pid)
        await asyncio.sleep(s)
        report = window.close(len(latencies_ns))
        for task in running:
            task.cancel()
    latencies_ns.sort()
    report["p50_us"] = percentile_us(latencies_ns, 0.50)
    report["p99_us"] = percentile_us(latencies_ns, 0.99)
    return report


def main() -> None:
    address, pid, topic, groups, interval_s, warm_up_s, seconds = sys.argv[1:]
    report = asyncio.run(
        measure(
            address,
            int(pid),
            topic,
            int(groups),
            float(interval_s),
            float(warm_up_s),
            float(seconds),
        )
    )
    print(json.dumps(report))


if __name__ == "__main__":
    main()
