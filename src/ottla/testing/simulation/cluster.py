"""Brokers on simulated hosts, each with its controller, and the ensemble that they share."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ottla.broker import Broker
from ottla.coordination import znodes
from ottla.coordination.store import StoreError
from ottla.coordination.znodes import LeaderAndIsr
from ottla.kernel.errors import KafkaError
from ottla.kernel.ids import TopicPartition
from ottla.kernel.state_change_log import StateChangeLog
from ottla.storage.errors import BrokerStartRefused
from ottla.testing.loop import VirtualLoop
from ottla.testing.machine import ProcessDied, SimulatedMachine
from ottla.testing.network import SimulatedNetwork
from ottla.testing.simulation.entry import STORE, Mark
from ottla.testing.simulation.trace import Trace
from ottla.testing.store import Changes, MemoryEnsemble

PORT = 9092
STATE_CHANGE = "state change"
"""A role, an ISR, a leader, the controller, a session: what `kernel/state_change_log.py` tells."""
_RESTART_S_MAX = 0.5


def host_of(broker_id: int) -> str:
    return f"broker{broker_id}"


class SimulatedCluster:
    """Brokers 1 to `broker_count`. Whoever is to run is started again when it has ended, as by a
    supervisor."""

    def __init__(
        self,
        loop: VirtualLoop,
        rng: random.Random,
        broker_count: int,
        settings: Mapping[str, str],
        trace: Trace,
        *,
        session_timeout_s: float,
        skew_ms_max: int = 0,
        has_slow_disks: bool = False,
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.network = SimulatedNetwork(loop, rng)
        self.ensemble = MemoryEnsemble()
        self.counts: Counter[str] = Counter()
        """What happened to it, by the names of `exercised.py`."""
        self.state_change_logs: list[StateChangeLog] = []
        """Of every process: its counts outlive it here."""
        self._states: dict[str, LeaderAndIsr] = {}
        self.addresses = {each: (host_of(each), PORT) for each in range(1, broker_count + 1)}
        self.machines = {
            broker_id: SimulatedMachine(
                {
                    "broker.id": str(broker_id),
                    "listeners": f"PLAINTEXT://{host}:{port}",
                    **settings,
                },
                loop,
                rng,
                self.network.host(host),
                self.ensemble,
                takes_time_to_write=has_slow_disks,
                skew_ms=rng.randint(-skew_ms_max, skew_ms_max),
                session_timeout_s=session_timeout_s,
                make_broker=self._make_broker,
            )
            for broker_id, (host, port) in self.addresses.items()
        }
        self.wanted = dict.fromkeys(self.machines, False)
        """Who is to run."""
        self.paused: set[int] = set()
        self.up: set[int] = set()
        """Who has started, and has not ended since."""
        self._known: set[int] = set()
        """Who was started before."""
        self._supervisors: list[asyncio.Task[None]] = []
        self.on_event: Callable[[str, int], None] = lambda event, broker_id: None
        """Told of what a broker has just done."""
        for broker_id, machine in self.machines.items():
            machine.on_event = partial(self._tell_of, broker_id)
        trace.on_state_change = partial(self._tell_of, event=STATE_CHANGE)
        self.ensemble.begin_session(self)

    def _tell_of(self, broker_id: int, event: str) -> None:
        self.on_event(event, broker_id)

    def hear(self, changes: Changes) -> None:
        """What the controller decides is worth a line."""
        for path, _ in changes:
            if not self.ensemble.exists(path):
                continue
            data = self.ensemble.get(path).data
            if path == znodes.CONTROLLER:
                self.counts["controllers"] += 1
                self._decided(f"broker {znodes.decode_controller(data)}", Mark.CONTROLLER)
            elif path.startswith(znodes.TOPICS) and path.endswith("/state"):
                state = znodes.decode_partition_state(path, data)
                *_, topic, _, number, _ = path.split("/")
                before, self._states[path] = self._states.get(path), state
                is_led_on = before is not None and before.leader == state.leader
                self._decided(
                    f"{topic}-{number}: leader {state.leader}, epoch {state.leader_epoch}, "
                    f"in sync {list(state.isr)}, eligible {list(state.eligible_leader_replicas)}",
                    Mark.ISR if is_led_on else Mark.LEADER,
                )

    def _decided(self, what: str, mark: Mark) -> None:
        self.trace.note(what, STORE, mark)

    def _happened(self, broker_id: int, what: str, mark: Mark) -> None:
        self.trace.note(what, host_of(broker_id), mark)

    def _make_broker(self, *args: Any, **kwargs: Any) -> Broker:
        broker = Broker(*args, **kwargs)
        self.state_change_logs.append(broker.replicas.changes)
        return broker

    async def start(self) -> None:
        """The first makes what all expect to be in the store."""
        for broker_id in self.machines:
            self._supervisors.append(self.loop.create_task(self._supervise(broker_id)))
            self.wanted[broker_id] = True
        while len(self.up) < len(self.machines):
            await asyncio.sleep(0.1)

    async def _supervise(self, broker_id: int) -> None:
        machine = self.machines[broker_id]
        while True:
            if self.wanted[broker_id] and not machine.is_running:
                await self._start(broker_id)
            elif broker_id in self.up and machine.is_running and machine.broker.failed.done():
                self.counts["brokers that gave up"] += 1
                self._happened(broker_id, f"fails: {machine.broker.failed.result()}", Mark.ENDED)
                self._end(broker_id)
            await asyncio.sleep(0.05)

    async def _start(self, broker_id: int) -> None:
        machine = self.machines[broker_id]
        self.counts["restarts"] += broker_id in self._known
        self._known.add(broker_id)
        self._happened(broker_id, "starts", Mark.STARTS)
        try:
            await machine.start()
        except ProcessDied:
            return
        except (StoreError, KafkaError, BrokerStartRefused, OSError) as error:
            self._happened(broker_id, f"does not start: {error}", Mark.ENDED)
            if machine.is_running:
                machine.kill()
            await asyncio.sleep(self.rng.uniform(0, _RESTART_S_MAX))
        else:
            self.up.add(broker_id)
            self._happened(broker_id, "has started", Mark.RUNS)

    # -- what can happen to a broker ------------------------------------------------------------

    def running(self) -> list[int]:
        """Those that have started, and neither stand still nor are about to stop."""
        return sorted(self.up - self.paused)

    def kill(self, broker_id: int) -> None:
        self.counts["kills"] += 1
        self._happened(broker_id, "is killed", Mark.ENDED)
        self._end(broker_id)

    def _end(self, broker_id: int) -> None:
        self._ended(broker_id)
        self.machines[broker_id].kill()

    def lose_power(self, broker_id: int) -> None:
        self.counts["losses of power"] += 1
        self._happened(broker_id, "loses its power", Mark.ENDED)
        self._ended(broker_id)
        self.machines[broker_id].lose_power()

    def lose_disk(self, broker_id: int) -> None:
        self.counts["disks replaced"] += 1
        self._happened(broker_id, "gets an empty disk", Mark.ENDED)
        self._ended(broker_id)
        self.machines[broker_id].lose_disk()

    def pause(self, broker_id: int) -> None:
        self.counts["pauses"] += 1
        self._happened(broker_id, "is paused", Mark.PAUSED)
        self.paused.add(broker_id)
        self.machines[broker_id].pause()

    def resume(self, broker_id: int) -> None:
        if broker_id in self.paused:
            self._happened(broker_id, "goes on", Mark.RUNS)
            self.paused.discard(broker_id)
            self.machines[broker_id].resume()

    async def stop(self, broker_id: int) -> None:
        """Cleanly: its leaderships go to others first."""
        self.counts["clean stops"] += 1
        await self._stop_cleanly(broker_id)

    async def _stop_cleanly(self, broker_id: int) -> None:
        self._happened(broker_id, "is told to stop", Mark.STOPS)
        self._ended(broker_id)
        # Who waits for it may be cancelled. The broker stops all the same.
        await asyncio.shield(self.loop.create_task(self._stop(broker_id)))

    async def _stop(self, broker_id: int) -> None:
        try:
            await self.machines[broker_id].stop_and_exit()
        except ProcessDied:
            return
        self._happened(broker_id, "has stopped", Mark.ENDED)

    def _ended(self, broker_id: int) -> None:
        self.up.discard(broker_id)
        self.paused.discard(broker_id)

    async def shut_down(self) -> None:
        """All of them, cleanly, for good."""
        for supervisor in self._supervisors:
            supervisor.cancel()
        for broker_id in sorted(self.up):
            await self._stop_cleanly(broker_id)

    # -- what is decided --------------------------------------------------------------------------

    def controller_id(self) -> int | None:
        if not self.ensemble.exists(znodes.CONTROLLER):
            return None
        return znodes.decode_controller(self.ensemble.get(znodes.CONTROLLER).data)

    def partitions(self) -> Iterator[tuple[TopicPartition, tuple[int, ...], LeaderAndIsr | None]]:
        """With their replicas and their states, as the ensemble has them."""
        for topic in self.ensemble.children(znodes.TOPICS):
            path = znodes.topic_path(topic)
            assignment = znodes.decode_topic(topic, self.ensemble.get(path).data)
            for number, replicas in sorted(assignment.partitions.items()):
                each = TopicPartition(topic, number)
                state_path = znodes.partition_state_path(*each)
                state = None
                if self.ensemble.exists(state_path):
                    data = self.ensemble.get(state_path).data
                    state = znodes.decode_partition_state(state_path, data)
                yield each, replicas.replicas, state

    def leader_of(self, partition: TopicPartition) -> int | None:
        for each, _, state in self.partitions():
            if each == partition and state is not None and state.leader != -1:
                return state.leader
        return None

    def unhealed(self) -> list[str]:
        """What is not yet as it should be when nothing disturbs any more."""
        problems = [f"broker {each} does not run" for each in self.machines if each not in self.up]
        registered = {int(each) for each in self.ensemble.children(znodes.BROKER_IDS)}
        problems += [
            f"broker {each} is not registered" for each in self.machines if each not in registered
        ]
        if self.controller_id() is None:
            problems.append("there is no controller")
        for each, replicas, state in self.partitions():
            if state is None or state.leader == -1 or {*state.isr} != {*replicas}:
                problems.append(f"{each} has replicas {replicas}, and is {state}")
        return problems
