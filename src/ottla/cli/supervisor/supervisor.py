"""Starts several brokers, says what becomes of them, and stops them in order.

It has no loop of asyncio and no Kafka in it: it waits for signals, and for lines of its children.
"""

from __future__ import annotations

import math
import os
import selectors
import signal
import sys
import time
from collections.abc import Sequence

from ottla import __version__
from ottla.cli.command_line import command_line
from ottla.cli.early_exit import CLEAR_LINE, SIGNALS, handle_signals
from ottla.cli.errors import ExitCode, Failure, warn
from ottla.cli.start import CLUSTER_FILE, Settings, broker_config
from ottla.cli.start_problems import data_dir_problem
from ottla.cli.supervisor.broker_settings import Plan, arguments, plan_brokers
from ottla.cli.supervisor.stuck_writer import StuckWriter
from ottla.cli.supervisor.supervised_broker import SupervisedBroker, in_words

_LOOK_S = 1.0
"""How often it looks for a broker that holds up all others."""
_STOP_TIMEOUT_S = 60.0
"""For one broker, with what it has to write; then it is killed."""
_LOG_DIR_MARK = "meta.properties"
"""Every log dir of a broker has it."""


def run_brokers(settings: Settings, started_s: float) -> int:
    plan = plan_brokers(settings)
    session_timeout_ms = _check(plan)
    os.makedirs(plan.folder, exist_ok=True)
    brokers = [
        SupervisedBroker(
            number,
            [sys.executable, "-P", "-m", "ottla.cli.tied_broker", *arguments(each)],
            os.path.join(plan.folder, f"broker-{number}.log"),
        )
        for number, each in enumerate(plan.brokers, start=1)
    ]
    _say_who_is_missing(plan)
    stuck = StuckWriter(plan.cluster_file, session_timeout_ms / 1000)
    supervisor = Supervisor(
        brokers, stuck, plan.folder, restarts=settings.restart, started_s=started_s
    )
    return supervisor.run()


def _check(plan: Plan) -> int:
    """What is wrong with the settings is said once, and not by every broker. Returns the time-out
    of a session."""
    configs = [broker_config(each) for each in plan.brokers]
    problem = data_dir_problem(plan.folder, "--data-dir")
    if problem is not None:
        raise Failure(problem)
    if os.path.exists(os.path.join(plan.folder, _LOG_DIR_MARK)):
        raise Failure(
            f"--data-dir {plan.folder}: there are the data of a single broker; give another folder "
            "to several"
        )
    return configs[0].zookeeper_session_timeout_ms


def _say_who_is_missing(plan: Plan) -> None:
    known = {os.path.basename(each.data_dir or "") for each in plan.brokers}
    missing = [
        name
        for name in sorted(os.listdir(plan.folder))
        if name not in known and os.path.exists(os.path.join(plan.folder, name, _LOG_DIR_MARK))
    ]
    if missing:
        warn(f"not started, though they have data in {plan.folder}: {', '.join(missing)}")


class Supervisor:
    """Lives as long as the command. However it ends, its brokers end too."""

    def __init__(
        self,
        brokers: Sequence[SupervisedBroker],
        stuck: StuckWriter,
        folder: str,
        *,
        restarts: bool,
        started_s: float,
    ) -> None:
        self._brokers = brokers
        self._stuck = stuck
        self._folder = folder
        self._restarts = restarts
        self._started_s = started_s
        self._selector = selectors.DefaultSelector()
        self._signals, self._wakeup = os.pipe()
        self._is_stopping = False
        self._is_told_twice = False
        self._stopping: SupervisedBroker | None = None
        self._stop_until_s = 0.0
        self._has_said_ready = False
        self._exit_code = ExitCode.OK
        self._failure: Failure | None = None
        """Why it stops by itself."""

    def run(self) -> int:
        self._take_signals()
        try:
            for broker in self._brokers:
                self._start(broker)
            while self._goes_on():
                self._wait()
        finally:
            for broker in self._brokers:
                broker.kill()
        if self._failure is not None:
            raise self._failure
        if sys.stderr.isatty() and self._exit_code == ExitCode.OK:
            sys.stderr.write(CLEAR_LINE)
            warn(f"stopped; the data stay in {self._folder}")
        return self._exit_code

    def _take_signals(self) -> None:
        for descriptor in (self._signals, self._wakeup):
            os.set_blocking(descriptor, False)
        self._selector.register(self._signals, selectors.EVENT_READ)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        handle_signals(_heard_by_the_pipe)
        signal.signal(signal.SIGCHLD, _heard_by_the_pipe)

    def _start(self, broker: SupervisedBroker) -> None:
        descriptor = broker.start(time.monotonic())
        self._selector.register(descriptor, selectors.EVENT_READ, broker)

    def _goes_on(self) -> bool:
        if self._is_told_twice:
            return False
        running = [broker for broker in self._brokers if broker.is_running]
        if self._is_stopping:
            return self._stop_next(running)
        if not running and not any(broker.restart_at_s for broker in self._brokers):
            raise Failure("no broker is left")
        return True

    def _stop_next(self, running: Sequence[SupervisedBroker]) -> bool:
        """One after another, so that each can hand over what it leads to those that are left."""
        if not running:
            return False
        last = running[-1]
        if self._stopping is not last:
            self._stopping = last
            self._stop_until_s = time.monotonic() + _STOP_TIMEOUT_S
            last.send(signal.SIGTERM)
        elif time.monotonic() > self._stop_until_s:
            self._stop_until_s = math.inf
            warn(f"broker {last.id} does not stop: killed")
            last.send(signal.SIGKILL)
        return True

    def _wait(self) -> None:
        for key, _ in self._selector.select(_LOOK_S):
            if key.data is None:
                self._read_signals()
            else:
                self._hear(key.data, key.fd)
        for broker in self._brokers:
            if (exit_code := broker.exit_code()) is not None:
                self._ended(broker, exit_code)
        if self._is_stopping:
            return
        now_s = time.monotonic()
        for broker in self._brokers:
            broker.bound_log()
            if broker.restart_at_s is not None and broker.restart_at_s <= now_s:
                self._start(broker)
        self._end_stuck_writer(now_s)

    def _read_signals(self) -> None:
        for number in os.read(self._signals, 4096):
            if number not in SIGNALS:
                continue
            # A terminal that is closed says so by itself, and its shell once more.
            self._is_told_twice |= self._is_stopping and number != signal.SIGHUP
            self._is_stopping = True
            if number == signal.SIGINT and sys.stderr.isatty():
                sys.stderr.write(CLEAR_LINE)

    def _hear(self, broker: SupervisedBroker, descriptor: int) -> None:
        try:
            line = broker.hear()
        except EOFError:
            self._selector.unregister(descriptor)
            return
        if line is None:
            return
        print(line, flush=True)
        if not self._has_said_ready and all(broker.addresses for broker in self._brokers):
            self._has_said_ready = True
            self._say_ready()

    def _ended(self, broker: SupervisedBroker, exit_code: int) -> None:
        # Before it takes signals itself it has begun nothing that it would have to end.
        is_clean = exit_code == 0 or (exit_code == -signal.SIGTERM and not broker.addresses)
        self._forget(broker)
        if self._is_stopping:
            if not is_clean:
                warn(f"broker {broker.id} did not stop cleanly ({in_words(exit_code)})")
                self._exit_code = ExitCode.FAILED
            return
        if exit_code > 0 and not broker.was_ready:
            words = broker.last_words().removeprefix("the broker could not start: ")
            self._failure = Failure(f"broker {broker.id} could not start: {words}")
            self._is_stopping = True
            return
        what = "has stopped" if exit_code == 0 else f"has died ({in_words(exit_code)})"
        died = f"broker {broker.id} {what}, its log is {broker.log_path}"
        if not self._restarts:
            warn(f"{died}; with --restart it would be started again")
            return
        after_s = broker.restart_later(time.monotonic())
        warn(f"{died}; starting it again in {after_s:.0f} s")

    def _forget(self, broker: SupervisedBroker) -> None:
        for key in list(self._selector.get_map().values()):
            if key.data is broker:
                self._selector.unregister(key.fd)
        broker.close()

    def _end_stuck_writer(self, now_s: float) -> None:
        pid = self._stuck.look(now_s)
        for broker in self._brokers:
            if broker.pid is not None and broker.pid == pid:
                warn(
                    f"broker {broker.id} stands still in the middle of a write to {CLUSTER_FILE} "
                    "and holds up all others: killed"
                )
                broker.send(signal.SIGKILL)

    def _say_ready(self) -> None:
        seconds = time.monotonic() - self._started_s
        bootstrap = ",".join(broker.addresses for broker in self._brokers)
        print(
            f"ottla {__version__} ready: {len(self._brokers)} brokers on {bootstrap}, "
            f"data in {self._folder} ({seconds:.2f} s)",
            flush=True,
        )
        if sys.stdout.isatty():
            create = command_line(f"topics create t --replication-factor {len(self._brokers)}")
            print(
                f"""
Try, in another terminal:
  {create} --bootstrap {bootstrap}
  {command_line(f"cluster --bootstrap {bootstrap}")}
Ctrl-C stops the brokers.
""",
                flush=True,
            )


def _heard_by_the_pipe(number: int, frame: object) -> None: ...
