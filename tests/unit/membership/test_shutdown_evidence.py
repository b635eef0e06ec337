"""By whole brokers: what their registrations say after a stop, a kill, a loss of power."""

from __future__ import annotations

import asyncio
import json

import pytest

from ottla.coordination import znodes
from ottla.coordination.znodes import BrokerInfo, Endpoint
from ottla.kernel.errors import KafkaError
from ottla.storage.run_mark import RunMark, read_run_mark, write_run_mark
from ottla.testing.disk import Fault
from ottla.testing.machine import ProcessDied
from ottla.testing.store import MemoryStore
from tests.support.simulated_broker import SimulatedBroker, with_broker

RUN = "/ottla_broker_runs/1"


def unclean(broker: SimulatedBroker) -> list[str]:
    """As the registration says it."""
    content = json.loads(broker.ensemble.get("/brokers/ids/1").data)
    found: list[str] = content.get("unclean_log_dirs", [])
    return found


async def settled() -> None:
    """What is written in the background is there."""
    await asyncio.sleep(1)


def epoch(broker: SimulatedBroker) -> int:
    return broker.ensemble.get("/brokers/ids/1").czxid


def test_a_new_broker_has_lost_nothing() -> None:
    async def test(broker: SimulatedBroker) -> None:
        assert unclean(broker) == []
        await settled()
        run = json.loads(broker.ensemble.get(RUN).data)
        assert run == {"version": 1, "broker_epoch": epoch(broker), "log_dirs": ["/data"]}
        mark = read_run_mark(broker.machine.disk, "/data")
        assert mark == RunMark(epoch(broker), "boot-1", 1)

    with_broker(test)


def test_a_clean_stop_loses_nothing() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await settled()
        await broker.machine.stop()
        broker.machine.disk.remove("/data/.ottla_run")
        await broker.start()
        assert unclean(broker) == []

    with_broker(test)


def test_a_clean_stop_leaves_the_brokers_epoch() -> None:
    async def test(broker: SimulatedBroker) -> None:
        broker.machine.expire_session()
        await settled()
        registered = epoch(broker)
        await broker.machine.stop()
        mark = json.loads(broker.machine.disk.read_file("/data/.kafka_cleanshutdown"))
        assert mark["brokerEpoch"] == registered
        await broker.start()

    with_broker(test)


def test_a_kill_loses_nothing() -> None:
    async def test(broker: SimulatedBroker) -> None:
        for wait_s in (1.0, 0.0, 0.001):  # In the middle of writing it down, too.
            await asyncio.sleep(wait_s)
            await broker.restart(broker.machine.kill)
            assert unclean(broker) == []

    with_broker(test)


def test_with_the_power_logs_may_have_lost_their_end() -> None:
    async def test(broker: SimulatedBroker) -> None:
        for wait_s in (1.0, 0.0, 0.001):
            await asyncio.sleep(wait_s)
            await broker.restart(broker.machine.lose_power)
            assert unclean(broker) == ["/data"]
        await settled()
        await broker.restart(broker.machine.kill)
        assert unclean(broker) == []

    with_broker(test)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_disk_that_was_put_back_from_a_copy_is_found_out(is_clean: bool) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await settled()
        disk = broker.machine.disk
        old_mark = disk.read_file("/data/.ottla_run")
        await broker.machine.stop()
        old_stop = disk.read_file("/data/.kafka_cleanshutdown")
        await broker.start()
        await settled()
        await broker.machine.stop()
        disk.replace_file("/data/.ottla_run", old_mark)
        if is_clean:
            disk.replace_file("/data/.kafka_cleanshutdown", old_stop)
        else:
            disk.remove("/data/.kafka_cleanshutdown")
        await broker.start()
        assert unclean(broker) == ["/data"]

    with_broker(test)


def test_another_device_is_found_out() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await settled()
        broker.machine.kill()
        disk = broker.machine.disk
        mark = read_run_mark(disk, "/data")
        assert mark is not None
        write_run_mark(disk, "/data", mark._replace(device=2))
        await broker.start()
        assert unclean(broker) == ["/data"]

    with_broker(test)


def test_an_empty_disk_in_the_place_of_one_is_found_out() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await settled()
        await broker.machine.stop()
        broker.machine.disk.remove_folder("/two")
        await broker.start()
        assert unclean(broker) == ["/two"]

    with_broker(test, log_dirs="/one,/two")


def test_a_log_dir_that_failed_meanwhile_is_not_whole_when_it_is_back() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await settled()
        await broker.machine.stop()
        fault = broker.machine.disk.fail(Fault("list_folder", "/two"))
        await broker.start()
        assert unclean(broker) == []
        await settled()
        await broker.machine.stop()
        fault.count = 0
        await broker.start()
        assert unclean(broker) == ["/two"]

    with_broker(test, log_dirs="/one,/two")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [("/one", "/one,/two", []), ("/one,/two", "/one", ["/two"])],
)
def test_log_dirs_come_and_go(before: str, after: str, expected: list[str]) -> None:
    async def test(broker: SimulatedBroker) -> None:
        await settled()
        await broker.machine.stop()
        broker.machine.change_settings({"log.dirs": after})
        await broker.start()
        assert unclean(broker) == expected

    with_broker(test, log_dirs=before)


def test_the_controller_has_to_hear_of_it_once() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await settled()
        await broker.restart(broker.machine.lose_power)
        assert unclean(broker) == ["/data"]
        broker.machine.expire_session()  # It serves, so the controller has told it what to lead.
        await settled()
        assert unclean(broker) == []

    with_broker(test)


@pytest.mark.parametrize("is_killed", [True, False])
def test_what_no_controller_has_heard_is_said_again_at_the_next_start(is_killed: bool) -> None:
    """The controller of before has died, and its session lives on. Else the broker would be elected
    for what it has lost, when it is the first that is back."""

    async def test(broker: SimulatedBroker) -> None:
        await settled()
        broker.machine.lose_power()
        controller = MemoryStore(broker.ensemble)
        await controller.open()
        await controller.create(znodes.CONTROLLER, znodes.encode_controller(2, 0), ephemeral=True)
        starting = asyncio.create_task(broker.start())
        await settled()
        assert unclean(broker) == ["/data"]
        assert not starting.done()
        if is_killed:
            broker.machine.kill()
        else:
            await broker.machine.stop_and_exit()
        with pytest.raises(ProcessDied):
            await starting
        await controller.close()
        await broker.start()
        assert unclean(broker) == ["/data"]
        await settled()
        await broker.restart(broker.machine.kill)
        assert unclean(broker) == []

    with_broker(test)


def test_a_start_that_failed_leaves_a_clean_stop_as_it_was() -> None:
    async def test(broker: SimulatedBroker) -> None:
        await settled()
        await broker.machine.stop()
        broker.machine.disk.remove("/data/.ottla_run")
        other = MemoryStore(broker.ensemble)
        await other.open()
        node = znodes.encode_broker(BrokerInfo((Endpoint("PLAINTEXT", "PLAINTEXT", "else", 1),)))
        await other.create(znodes.broker_path(1), node, ephemeral=True)
        with pytest.raises(KafkaError):
            await broker.start()
        await broker.machine.stop_and_exit()
        await other.close()
        await broker.start()
        assert unclean(broker) == []

    with_broker(test)
