from __future__ import annotations

import pytest

from ottla.kernel.eager import begin
from ottla.kernel.ids import TopicPartition, new_topic_id
from ottla.storage.errors import StorageFailure
from tests.unit.storage.support import PARTITION, Machine

OTHER = TopicPartition("other", 3)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_of_no_known_topic_is_offline_and_all_others_are_served(
    is_clean: bool, caplog: pytest.LogCaptureFixture
) -> None:
    machine = Machine()
    log = machine.manager.create_log(PARTITION, new_topic_id(machine.rng), machine.config)
    machine.append(log, count=3)
    log.advance_log_start_offset(2)
    machine.append(machine.log(OTHER), count=2)
    begin(machine.manager.checkpoint_high_watermarks(lambda _: 2))
    begin(machine.manager.checkpoint_log_start_offsets())
    machine.wait()
    path = "/data/t-0/partition.metadata"
    sound = machine.disk.read_file(path)
    machine.disk.flip_bit(path, 0, 3)
    machine.restart(clean=is_clean)
    assert machine.log(OTHER).log_end_offset == 2
    assert machine.manager.get(PARTITION) is None
    assert "/data/t-0 is offline, and all else is served" in caplog.text
    assert "delete the file" in caplog.text
    with pytest.raises(StorageFailure, match="damaged"):
        machine.log()
    begin(machine.manager.checkpoint_high_watermarks(lambda _: 2))
    machine.wait()
    machine.restart(clean=is_clean)
    assert machine.manager.read_high_watermarks() == {PARTITION: 2, OTHER: 2}
    machine.disk.replace_file(path, sound)
    machine.restart(clean=is_clean)
    assert (machine.log().log_start_offset, machine.log().log_end_offset) == (2, 3)
