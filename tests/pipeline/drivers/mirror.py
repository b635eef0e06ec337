"""A driver of a process of its own: a mirror, as far as there is something to copy.

Arguments: FROM TO TOPIC FOLDER ROWS, with addresses of clusters, and how many rows a batch has.
Says when it has begun.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from ottla.pipeline.jobs.mirror import JOB
from ottla.pipeline.run.runner import JobRun
from ottla.pipeline.run.session import new_session
from tests.support.mirrors import settings_of


def main(source: str, target: str, topic: str, folder_name: str, rows: str) -> None:
    folder = Path(folder_name)
    spark = new_session("mirror", master="local[2]", folder=folder / "spark")
    settings = settings_of(source, target, folder, topic, max_offsets_per_trigger=rows)
    run = JobRun(JOB, settings, spark, is_once=True)
    run.start()
    print("begun", flush=True)
    while run.poll():
        time.sleep(0.05)
    run.close()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
