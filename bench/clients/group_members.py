"""A group of many members in one process: from its start until all are assigned, and again after
one of them vanished.

Arguments: ADDRESS GROUP TOPIC MEMBERS PARTITIONS
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from bench import group_protocol as protocol

SESSION_MS = 6000
"""The shortest that brokers allow by default."""
HEARTBEAT_S = 0.03
"""Far more often than consumers do: what is measured should be the broker, not this."""
_PATIENCE_S = 120.0


class Group:
    """What all members know together."""

    def __init__(self, name: str, topic: str, partition_count: int) -> None:
        self.name = name
        self.topic = topic
        self.partition_count = partition_count
        self.members: list[Member] = []
        self.expected_count = 0
        """Of members in the generation: whoever vanished still counts until it is given up."""
        self._stable = asyncio.Event()

    def assign(self, members: list[str]) -> dict[str, bytes]:
        return {
            member: protocol.assignment(
                self.topic, list(range(number, self.partition_count, len(members)))
            )
            for number, member in enumerate(members)
        }

    def synced(self) -> None:
        generations = {member.generation for member in self.members}
        sizes = [member.generation_size for member in self.members if member.generation_size]
        if len(generations) == 1 and generations != {-1} and self.expected_count in sizes:
            self._stable.set()

    async def wait_until_stable(self, expected_count: int) -> float:
        self.expected_count = expected_count
        self._stable.clear()
        await asyncio.wait_for(self._stable.wait(), _PATIENCE_S)
        return time.perf_counter()


class Member:
    """Owns a connection. Joins, and joins again when the group rebalances, until it is killed."""

    def __init__(self, group: Group, address: str) -> None:
        self._group = group
        self._host, _, self._port = address.rpartition(":")
        self._id = ""
        self.generation = -1
        self.generation_size = 0
        """Known to the leader only."""
        self.seen_s = 0.0
        """When the broker last heard of it, at the earliest."""

    async def run(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, int(self._port))
        try:
            while True:
                await self._join()
                await self._beat()
        finally:
            self._writer.close()

    async def _ask(self, frame: bytes) -> bytes:
        self.seen_s = time.perf_counter()
        self._writer.write(frame)
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        return await self._reader.readexactly(size)

    async def _join(self) -> None:
        group = self._group
        while True:
            frame = protocol.join(group.name, self._id, SESSION_MS, group.topic)
            joined = protocol.joined(await self._ask(frame))
            if joined.error_code == protocol.MEMBER_ID_REQUIRED:
                self._id = joined.member
                continue
            if joined.error_code == protocol.UNKNOWN_MEMBER:
                self._id = ""
                continue
            if joined.error_code != protocol.NONE:
                raise SystemExit(f"JoinGroup: error {joined.error_code}")
            self._id = joined.member
            is_leader = joined.leader == joined.member
            assigned = group.assign(joined.members) if is_leader else {}
            frame = protocol.sync(group.name, joined.generation, self._id, assigned)
            if protocol.error_code(await self._ask(frame)) == protocol.NONE:
                self.generation = joined.generation
                self.generation_size = len(joined.members)
                group.synced()
                return

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            frame = protocol.heartbeat(self._group.name, self.generation, self._id)
            if protocol.error_code(await self._ask(frame)) != protocol.NONE:
                return


async def measure(address: str, group: Group, member_count: int) -> dict[str, float]:
    group.members = [Member(group, address) for _ in range(member_count)]
    async with asyncio.TaskGroup() as tasks:
        begin_s = time.perf_counter()
        running = [tasks.create_task(member.run()) for member in group.members]
        stable_s = await group.wait_until_stable(member_count)
        killed = group.members.pop()
        running[-1].cancel()
        stable_again_s = await group.wait_until_stable(member_count - 1)
        for task in running:
            task.cancel()
    session_end_s = killed.seen_s + SESSION_MS / 1000
    return {"start_s": stable_s - begin_s, "kill_s": stable_again_s - session_end_s}


def main() -> None:
    address, name, topic, members, partitions = sys.argv[1:]
    group = Group(name, topic, int(partitions))
    print(json.dumps(asyncio.run(measure(address, group, int(members)))))


if __name__ == "__main__":
    main()
