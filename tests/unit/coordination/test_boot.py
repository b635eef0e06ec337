from __future__ import annotations

import subprocess
import sys

from ottla.coordination.boot import boot_id


def test_every_process_of_one_start_of_the_machine_sees_the_same() -> None:
    other = subprocess.run(
        [sys.executable, "-c", "from ottla.coordination.boot import boot_id; print(boot_id())"],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert other.stdout == boot_id() + "\n"
    assert len(boot_id()) >= 32
