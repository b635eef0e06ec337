"""Produce requests of one 100 B record, five in flight on each of 1, 16 and 100 connections."""

from __future__ import annotations

from bench import client, topics
from bench.benchmark import Measures, Setting
from bench.broker import Broker

CONNECTIONS = (1, 16, 100)
IN_FLIGHT = 5


class SmallRequests:
    """How many requests a second, where the cost of a request is all there is."""

    name = "small_requests"
    needs_java = False
    has_cluster = False

    def __init__(self, broker: Broker, setting: Setting) -> None:
        self._broker = broker
        self._warm_up_s = setting.effort.seconds(1.0)
        self._seconds = setting.effort.seconds(5.0)

    def prepare(self) -> None:
        pass

    def measure(self) -> Measures:
        measures: Measures = {}
        for connections in CONNECTIONS:
            with topics.temporary(self._broker, "small") as topic:
                report = client.run_python(
                    "pipelined_producer",
                    self._broker.address,
                    self._broker.pid,
                    topic,
                    connections,
                    IN_FLIGHT,
                    self._warm_up_s,
                    self._seconds,
                )
                topics.check_end_offset(self._broker, topic, int(report["answers_in_all"]))
            spent = client.spent(report)
            measures[f"small_requests_{connections}"] = spent.rate / 1e3
            measures[f"small_requests_{connections}.cpu"] = spent.cpu_us
            # Near 1 the generator is what was measured, not the broker.
            measures[f"small_requests_{connections}.client_busy"] = report["client_busy"]
        return measures

    def clean_up(self) -> None:
        pass
