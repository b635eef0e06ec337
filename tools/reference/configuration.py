"""docs/configuration.md: every setting."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ottla.config import broker, topic
from ottla.config.broker import BROKER_SETTINGS, DIFFERS
from ottla.config.broker_settings.unused import unused_settings
from ottla.config.broker_validation import REFUSED
from ottla.config.definition import LONG_MAX, Setting, value_text
from ottla.config.group import GROUP_SETTINGS
from ottla.config.topic import TOPIC_SETTINGS
from tools.reference.markdown import MADE_BY, code, table

_FROZEN = Path(__file__).resolve().parents[2] / "tests" / "unit" / "config"
_OF_ZOOKEEPERS_TIME = "not in 4.3"
_NO_EFFECT = "**No effect yet.** "

_NOTES = {
    "cleanup.policy": "**`compact` is taken, and nothing is compacted yet:** everything is kept.",
    "log.cleanup.policy": "**Nothing is compacted yet.**",
}

_HEAD = """\
# Configuration

Ottla has the settings of Apache Kafka 4.3, with Kafka's names and, [except for a
few](#other-defaults), Kafka's defaults.

```sh
ottla start --config server.properties --set num.partitions=6  # --set overrides the file
ottla topics create clicks --config retention.ms=3600000
ottla configs describe topic clicks                            # values, and where they come from
ottla configs alter topic clicks --set retention.ms=7200000    # while the broker runs
```

- A name that Kafka does not know stops the start. The error names the nearest one.
- A value of the wrong type or out of its limits is refused. The error names the limits.
- A setting that Kafka knows and Ottla does not use is taken and changes nothing. With
  `--log-level info` the broker names them at start. [They are listed below](#taken-without-effect).
- A setting that Ottla cannot honour, and that somebody may rely on, [is refused](#refused).

The column *changes* tells how a setting of a broker changes while the broker runs: *read-only* not
at all; *per-broker* and *cluster-wide* with `ottla configs alter broker` or Kafka's admin API.
"""


def configuration() -> str:
    kafkas = _frozen("kafka_4_3_broker_configs.json")
    return "\n".join(
        [
            MADE_BY + _HEAD,
            "## Other defaults\n",
            "Where Kafka's default would make one broker on a laptop fail or wait:\n",
            table(
                ("setting", "Kafka", "Ottla", "why"),
                [
                    (_names(one.name), one.kafka, one.ottla, one.why[:1].upper() + one.why[1:])
                    for one in DIFFERS
                ],
            ),
            f"## Broker\n\n{len(BROKER_SETTINGS)} settings.\n",
            _broker_table(kafkas),
            f"## Topic\n\n{len(TOPIC_SETTINGS)} settings. A topic without its own value has the"
            " broker's, by the name in the last column.\n",
            _topic_table(),
            f"## Group\n\n{len(GROUP_SETTINGS)} settings, of groups of the consumer protocol"
            " (KIP-848).\n",
            _group_table(),
            "## Refused\n",
            table(
                ("setting", "why"),
                [(code(name), why[:1].upper() + why[1:]) for name, why in sorted(REFUSED.items())],
            ),
            "## Taken without effect\n",
            "A `server.properties` that was written for Apache Kafka starts Ottla. These"
            f" {len(unused_settings())} settings of Kafka 4.3 (and 3.9, of ZooKeeper's time) are"
            " checked for their type and change nothing. So do names that begin with"
            " `listener.name.` or belong to plugins (`rsm.config.`, `rlmm.config.`,"
            " `config.providers.`, `metrics.jmx.`).\n",
            table(
                ("setting", "type", "Kafka's default"),
                [
                    (code(name), _type(it), _kafkas_default(name, kafkas))
                    for name, it in sorted(unused_settings().items())
                ],
            ),
        ]
    )


def _broker_table(kafkas: dict[str, dict[str, Any]]) -> str:
    rows = []
    for name, it in BROKER_SETTINGS.items():
        effect = _NO_EFFECT if broker.has_no_effect(name) else ""
        rows.append(
            (
                code(name),
                _type(it),
                _value(value_text(it.default)),
                _kafkas_default(name, kafkas),
                it.change,
                _text(effect, it),
            )
        )
    return table(("setting", "type", "default", "Kafka's", "changes", "what it does"), rows)


def _topic_table() -> str:
    kafkas = _frozen("kafka_4_3_topic_configs.json")
    rows = []
    for name, it in TOPIC_SETTINGS.items():
        effect = _NO_EFFECT if topic.has_no_effect(name) else ""
        rows.append(
            (
                code(name),
                _type(it),
                _value(value_text(it.default)),
                _kafkas_default(name, kafkas),
                _text(effect, it),
                ", ".join(code(synonym) for synonym in it.synonyms),
            )
        )
    titles = ("setting", "type", "default", "Kafka's", "what it does", "of the broker")
    return table(titles, rows)


def _group_table() -> str:
    rows = [
        (
            code(name),
            _type(it),
            _value(value_text(it.default)),
            _text("", it),
            ", ".join(code(synonym) for synonym in it.synonyms),
        )
        for name, it in GROUP_SETTINGS.items()
    ]
    return table(("setting", "type", "default", "what it does", "of the broker"), rows)


def _frozen(name: str) -> dict[str, dict[str, Any]]:
    """As Apache Kafka 4.3 describes itself."""
    found: dict[str, dict[str, Any]] = json.loads((_FROZEN / name).read_text())
    return found


def _text(effect: str, it: Setting) -> str:
    limits = "" if it.validator is None or str(it.validator) == "a list" else f" ({it.validator})"
    internal = " For tests of Kafka itself." if it.internal else ""
    note = f" {_NOTES[it.name]}" if it.name in _NOTES else ""
    return f"{effect}{it.doc.rstrip('.')}{limits}.{note}{internal}"


def _type(it: Setting) -> str:
    return it.type.name.lower()


def _value(text: str | None) -> str:
    if text is None:
        return "none"
    if text == "":
        return "empty"
    if text == str(LONG_MAX):
        return "no limit"
    return code(text)


def _kafkas_default(name: str, kafkas: dict[str, dict[str, Any]]) -> str:
    return _value(kafkas[name]["default"]) if name in kafkas else _OF_ZOOKEEPERS_TIME


def _names(names: str) -> str:
    return ", ".join(code(name) for name in names.split(", "))
