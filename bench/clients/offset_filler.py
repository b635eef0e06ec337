"""Commits offsets of many groups, as quickly as the broker takes them.

Arguments: ADDRESS TOPIC GROUPS PARTITIONS
"""

from __future__ import annotations

import json
import sys
import time

from bench import group_protocol as protocol
from bench.connection import Connection


def main() -> None:
    address, topic, groups, partitions = sys.argv[1:]
    begin_s = time.perf_counter()
    with Connection(address) as connection:
        for number in range(int(groups)):
            frame = protocol.commit(f"group-{number}", topic, range(int(partitions)), number)
            if code := protocol.commit_error_code(connection.ask(frame)):
                raise SystemExit(f"OffsetCommit: error {code}")
    print(json.dumps({"elapsed_s": time.perf_counter() - begin_s}))


if __name__ == "__main__":
    main()
