"""What is done to a cluster: each kind goes on by itself, until it is told to end.

Some wait for a time, drawn at random; others for an event: "kill whoever has just acknowledged".
Whatever they have begun ends with `SimulatedCluster` being healed.

Each fault has a name, `kill:3` for the third of its kind, by which a plan can keep it and leave out
others (`shrinking.py`).
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Coroutine
from typing import Any

from ottla.coordination import znodes
from ottla.kernel.ids import TopicPartition
from ottla.testing.simulation.cluster import SimulatedCluster, host_of
from ottla.testing.workers import DELAY_S_MAX as WORKER_DELAY_S_MAX

Fault = Callable[["Faults"], Coroutine[Any, Any, None]]

ACKNOWLEDGED = "acknowledged"
"""A client has just been told so, by the leader of a partition."""
TRANSACTION_STEP = "transaction step"
"""A client is asking the coordinator of its transaction for something."""


class Faults:
    """Of one run."""

    def __init__(
        self,
        cluster: SimulatedCluster,
        client_hosts: list[str],
        kept: Collection[str] | None = None,
    ) -> None:
        """All faults take place, or those that are kept."""
        self.cluster = cluster
        self.rng = cluster.rng
        """Of the fault that was the last to begin: what it draws does not depend on others, so
        that leaving them out does not change it."""
        self.client_hosts = client_hosts
        self.names: list[str] = []
        """Of those that took place."""
        self._seed = cluster.rng.getrandbits(64)
        self._kept = kept
        self._counts: Counter[str] = Counter()
        self.listeners: defaultdict[str, list[Callable[[int], None]]] = defaultdict(list)
        """By event: those who want to know which broker it was."""
        cluster.on_event = self.happened
        self._tasks: list[asyncio.Task[None]] = []
        self._cuts: set[tuple[str, str]] = set()
        self._tail_lost_by: int | None = None

    def begin(self, *kinds: Fault) -> None:
        for kind in kinds:
            self._tasks.append(self.cluster.loop.create_task(kind(self)))

    def acknowledged(self, partition: TopicPartition) -> None:
        """A client has just been told so."""
        if ACKNOWLEDGED in self.listeners:
            leader = self.cluster.leader_of(partition)
            if leader in self.cluster.running():
                self.happened(ACKNOWLEDGED, leader)

    def happened(self, event: str, broker_id: int) -> None:
        for listener in self.listeners.get(event, ()):
            listener(broker_id)

    async def heal(self) -> None:
        self.listeners.clear()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        for task in self._tasks:
            if not task.cancelled():
                task.result()
        cluster = self.cluster
        cluster.network.slow_ways.clear()
        for sender, receiver in sorted(self._cuts):
            cluster.network.heal(sender, receiver)
        for broker_id, machine in cluster.machines.items():
            cluster.resume(broker_id)
            cluster.wanted[broker_id] = True
            machine.disk.heal()
            if machine.is_running:
                machine.remote_store.heal()
                machine.workers.delay_s_max = WORKER_DELAY_S_MAX

    # -- tools --------------------------------------------------------------------------------

    async def due(self, kind: Fault, longest_s: float = 2.0) -> None:
        """Until it is time for the next fault of a kind. Those that are left out pass by."""
        while True:
            number = self._counts[kind.__name__] + 1
            rng = random.Random(f"{self._seed} {kind.__name__}:{number}")
            await asyncio.sleep(rng.uniform(0, longest_s))
            if self.strikes(kind):
                self.rng = rng
                return

    def strikes(self, kind: Fault) -> bool:
        """Whether the next fault of a kind takes place, now."""
        self._counts[kind.__name__] += 1
        name = f"{kind.__name__}:{self._counts[kind.__name__]}"
        if self._kept is not None and name not in self._kept:
            return False
        self.cluster.trace.note(name)
        self.names.append(name)
        return True

    async def wait(self, longest_s: float = 2.0) -> None:
        await asyncio.sleep(self.rng.uniform(0, longest_s))

    async def pick(self) -> int:
        """A broker that runs; waits for one."""
        while not (running := self.cluster.running()):
            await asyncio.sleep(0.05)
        return self.rng.choice(running)

    def cut(self, sender: str, receiver: str) -> None:
        self._cuts.add((sender, receiver))
        self.cluster.network.cut(sender, receiver)

    def heal_cut(self, sender: str, receiver: str) -> None:
        self._cuts.discard((sender, receiver))
        self.cluster.network.heal(sender, receiver)


async def kill(faults: Faults) -> None:
    while True:
        await faults.due(kill, 3)
        broker_id = await faults.pick()
        faults.cluster.wanted[broker_id] = False
        faults.cluster.kill(broker_id)
        await faults.wait(1.5)
        faults.cluster.wanted[broker_id] = True


async def kill_and_start_at_once(faults: Faults) -> None:
    while True:
        await faults.due(kill_and_start_at_once, 3)
        faults.cluster.kill(await faults.pick())


async def kill_all(faults: Faults) -> None:
    while True:
        await faults.due(kill_all, 8)
        for broker_id in faults.cluster.running():
            faults.cluster.kill(broker_id)


async def kill_whoever_acknowledged(faults: Faults) -> None:
    cluster = faults.cluster

    def acknowledged(leader: int) -> None:
        if faults.rng.random() < 0.02 and faults.strikes(kill_whoever_acknowledged):
            cluster.kill(leader)

    faults.listeners[ACKNOWLEDGED].append(acknowledged)
    await asyncio.get_running_loop().create_future()


async def pause_whoever_acknowledged(faults: Faults) -> None:
    paused: asyncio.Queue[int] = asyncio.Queue()

    def acknowledged(leader: int) -> None:
        if faults.rng.random() < 0.02 and faults.strikes(pause_whoever_acknowledged):
            faults.cluster.pause(leader)
            paused.put_nowait(leader)

    faults.listeners[ACKNOWLEDGED].append(acknowledged)
    while True:
        broker_id = await paused.get()
        await faults.wait(2)
        faults.cluster.resume(broker_id)


async def lose_power(faults: Faults) -> None:
    """One broker at a time: what it had not synced, and others have, comes back to it before the
    next one loses its power."""
    cluster = faults.cluster
    while True:
        await faults.due(lose_power, 3)
        cluster.lose_power(await faults.pick())
        await faults.wait(1)
        while cluster.unhealed():
            await asyncio.sleep(0.1)


async def pause(faults: Faults) -> None:
    while True:
        await faults.due(pause, 2)
        broker_id = await faults.pick()
        faults.cluster.pause(broker_id)
        await faults.wait(2)
        faults.cluster.resume(broker_id)


async def restart_cleanly(faults: Faults) -> None:
    cluster = faults.cluster
    while True:
        await faults.due(restart_cleanly, 2)
        broker_id = await faults.pick()
        cluster.wanted[broker_id] = False
        await cluster.stop(broker_id)
        await faults.wait(1)
        cluster.wanted[broker_id] = True


async def roll(faults: Faults) -> None:
    """All of them, one after another, each when the one before is in sync again: as an operator
    does it."""
    cluster = faults.cluster
    while True:
        for broker_id in sorted(cluster.machines):
            await faults.due(roll, 0.3)
            if broker_id in cluster.running():
                cluster.wanted[broker_id] = False
                await cluster.stop(broker_id)
                cluster.wanted[broker_id] = True
            await asyncio.sleep(0.1)
            while cluster.unhealed():
                await asyncio.sleep(0.1)


async def cut_between_brokers(faults: Faults) -> None:
    while True:
        await faults.due(cut_between_brokers, 2)
        one, other = faults.rng.sample(sorted(faults.cluster.machines), 2)
        ways = [(host_of(one), host_of(other))]
        if faults.rng.random() < 0.5:
            ways.append((host_of(other), host_of(one)))
        faults.cluster.trace.note(f"cut {ways}")
        for way in ways:
            faults.cut(*way)
        await faults.wait(3)
        faults.cluster.trace.note(f"heal {ways}")
        for way in ways:
            faults.heal_cut(*way)


async def isolate(faults: Faults) -> None:
    """A broker from all others, and from clients or not."""
    while True:
        await faults.due(isolate, 2)
        broker_id = faults.rng.choice(sorted(faults.cluster.machines))
        others = [host_of(each) for each in faults.cluster.machines if each != broker_id]
        if faults.rng.random() < 0.5:
            others += faults.client_hosts
        faults.cluster.trace.note(f"isolate {broker_id} from {others}")
        for host in others:
            faults.cut(host, host_of(broker_id))
            faults.cut(host_of(broker_id), host)
        await faults.wait(3)
        faults.cluster.trace.note(f"{broker_id} is back")
        for host in others:
            faults.heal_cut(host, host_of(broker_id))
            faults.heal_cut(host_of(broker_id), host)


async def slow_network(faults: Faults) -> None:
    """From one host to another: what they say to others, and others to them, overtakes it."""
    hosts = [host_of(each) for each in faults.cluster.machines]
    slow_ways = faults.cluster.network.slow_ways
    while True:
        await faults.due(slow_network, 1)
        slow_ways.clear()
        for _ in range(faults.rng.randint(1, 4)):
            one = faults.rng.choice(hosts)
            other = faults.rng.choice([each for each in hosts + faults.client_hosts if each != one])
            way = (one, other) if faults.rng.random() < 0.5 else (other, one)
            slow_ways[way] = faults.rng.uniform(0, 0.8)
        faults.cluster.trace.note(f"slow: {slow_ways}")
        await faults.wait(3)


async def reset_connections(faults: Faults) -> None:
    hosts = [host_of(each) for each in faults.cluster.machines]
    while True:
        await faults.due(reset_connections, 0.5)
        one = faults.rng.choice(hosts)
        other = faults.rng.choice([each for each in hosts + faults.client_hosts if each != one])
        faults.cluster.trace.note(f"reset {one} {other}")
        faults.cluster.network.reset(one, other)


async def cut_off_store(faults: Faults) -> None:
    cluster = faults.cluster
    while True:
        await faults.due(cut_off_store, 2)
        broker_id = await faults.pick()
        store = cluster.machines[broker_id].remote_store
        cluster.trace.note(f"{broker_id} is cut off from the store")
        store.cut()
        await faults.wait(2)
        cluster.trace.note(f"{broker_id} reaches the store")
        store.heal()


async def cut_off_store_of_all(faults: Faults) -> None:
    cluster = faults.cluster
    while True:
        await faults.due(cut_off_store_of_all, 5)
        stores = [cluster.machines[each].remote_store for each in cluster.running()]
        cluster.trace.note("the store is away")
        for store in stores:
            store.cut()
        await faults.wait(1.5)
        cluster.trace.note("the store is back")
        for store in stores:
            store.heal()


async def lose_answers_of_store(faults: Faults) -> None:
    while True:
        await faults.due(lose_answers_of_store, 0.7)
        broker_id = await faults.pick()
        faults.cluster.trace.note(f"{broker_id} loses the store's next answer")
        faults.cluster.machines[broker_id].remote_store.lose_next_answer()


async def expire_sessions(faults: Faults) -> None:
    while True:
        await faults.due(expire_sessions, 3)
        broker_id = await faults.pick()
        faults.cluster.trace.note(f"the session of {broker_id} expires")
        faults.cluster.machines[broker_id].expire_session()


async def depose_controllers(faults: Faults) -> None:
    """As an operator may: the controller's node goes."""
    cluster = faults.cluster
    while True:
        await faults.due(depose_controllers, 2)
        if cluster.ensemble.exists(znodes.CONTROLLER):
            cluster.trace.note(f"depose {cluster.controller_id()}")
            cluster.ensemble.delete(znodes.CONTROLLER)


async def kill_controllers(faults: Faults) -> None:
    cluster = faults.cluster
    while True:
        await faults.due(kill_controllers, 4)
        controller_id = cluster.controller_id()
        if controller_id in cluster.running():
            assert controller_id is not None
            cluster.kill(controller_id)
