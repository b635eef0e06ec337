from __future__ import annotations

import random

import pytest

from ottla.config.topic import TopicConfig
from ottla.kernel.ids import TopicPartition, new_topic_id
from tests.support.counts import count
from tests.unit.storage.support import PARTITION, Machine

COUNT = 20


@pytest.fixture
def machine() -> Machine:
    return Machine(TopicConfig(flush_messages=1))


def test_logs_that_are_made_in_one_go_are_synced_when_all_are_there(machine: Machine) -> None:
    """Each its id and its folder, and the log dir once."""
    synced = machine.record_syncs()
    for number in range(COUNT):
        topic_id = new_topic_id(machine.rng)
        machine.manager.create_log(TopicPartition("t", number), topic_id, machine.config)
        machine.wait()
    assert not synced
    machine.manager.logs_made()
    machine.wait()
    assert sorted(synced) == sorted(
        ["/data"]
        + [f"/data/t-{number}" for number in range(COUNT)]
        + [f"/data/t-{number}/partition.metadata" for number in range(COUNT)]
    )
    machine.disk.crash(keep_unsynced=False)
    machine.start()
    assert all(log.topic_id is not None for log in machine.manager.logs.values())
    assert len(machine.manager.logs) == COUNT


def test_a_log_that_nothing_was_written_to_is_not_synced_at_a_clean_stop(machine: Machine) -> None:
    machine.manager.create_log(PARTITION, new_topic_id(machine.rng), machine.config)
    machine.manager.logs_made()
    machine.wait()
    synced = machine.record_syncs()
    machine.stop()
    assert not [path for path in synced if "t-0" in path]


def test_recovery_syncs_no_record_before_the_topic_id(machine: Machine) -> None:
    topic_id = new_topic_id(machine.rng)
    machine.append(machine.manager.create_log(PARTITION, topic_id, machine.config))
    machine.workers.die()
    machine.restart(clean=False)
    machine.workers.die()
    machine.disk.crash(keep_unsynced=False)
    machine.start()
    log = machine.manager.logs[PARTITION]
    assert (log.topic_id, log.log_end_offset) == (topic_id, 1)


@pytest.mark.parametrize("seed", range(count(200, quick=20)))
def test_no_record_is_on_the_disk_before_the_topic_id_of_its_log(seed: int) -> None:
    """Whenever the power goes, and though `logs_made` comes late or never. After a kill, too."""
    rng = random.Random(seed)
    machine = Machine(TopicConfig(flush_messages=1))
    machine.rng.seed(seed)
    topic_id = new_topic_id(machine.rng)
    log = machine.manager.create_log(PARTITION, topic_id, machine.config)
    log.begin_leader_epoch(0)
    if rng.random() < 0.5:
        if rng.random() < 0.5:
            machine.append(log)
        machine.workers.die()
        machine.restart(clean=False)
        log = machine.manager.logs[PARTITION]
        assert log.topic_id == topic_id
    if rng.random() < 0.7:
        machine.append(log)
        log.flush_soon()
        machine.wait(rng.uniform(0, 0.02))
    machine.workers.die()
    machine.disk.crash(keep_unsynced=False)
    machine.start()
    found = machine.manager.logs.get(PARTITION)
    assert found is None or found.topic_id == topic_id or found.log_end_offset == 0
