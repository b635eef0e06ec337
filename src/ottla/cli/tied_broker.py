"""`python -m ottla.cli.tied_broker start ...`: the ottla command for a parent process. It is told
to stop when its standard input ends: a parent that was killed stops nobody, but its end of the
pipe is closed all the same."""

from __future__ import annotations

import os
import signal
import sys
import threading

from ottla.cli.main import main

_STDIN = 0


def _stop_with_parent() -> None:
    while os.read(_STDIN, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    threading.Thread(target=_stop_with_parent, name="parent", daemon=True).start()
    sys.exit(main())
