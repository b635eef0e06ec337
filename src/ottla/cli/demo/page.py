"""The demo's page of charts: live, and as one file that needs nothing else; in light and dark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from html import escape
from importlib.resources import files

from ottla.cli.demo.charts import Axes, Series, bars, columns, line_chart
from ottla.cli.demo.history import Sample
from ottla.cli.demo.snapshot import Snapshot, SparkSnapshot
from ottla.cli.pipeline.results.activity_results import LONGEST_MINUTES, Results

_ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E"
    "%3Cpath d='M2 13V9m4 4V3m4 10V6m4 7v-3' stroke='%232465c3' stroke-width='2.5'/%3E%3C/svg%3E"
)
_FIRST_SAMPLE = "The first sample comes after a second."


def page(snapshot: Snapshot, *, is_live: bool) -> str:
    """The whole document. A live one renews its `<main>` by `content`."""
    if is_live:
        title = "ottla demo"
        state = '<span id="state" class="live">live</span>'
    else:
        title = f"What {_duration_text(snapshot.elapsed_s)} of the demo found out"
        state = '<span id="state"></span>'
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(title)}</title><link rel="icon" href="{_ICON}">'
        f"<style>\n{_asset('page.css')}</style></head><body>"
        f"<header><h1>{escape(title)}</h1>{state}<p>{escape(_story(snapshot))}</p></header>"
        f"<main>{content(snapshot)}</main>{_footer(snapshot, is_live=is_live)}"
        f"<script>\n{script()}</script></body></html>\n"
    )


def content(snapshot: Snapshot) -> str:
    """All that changes."""
    spark = snapshot.spark
    if spark is None:
        figures = [
            _throughput(snapshot, kind="third wide"),
            _latency(snapshot.samples, kind="third"),
            _memory(snapshot.samples, kind="third"),
        ]
    else:
        figures = [
            _traffic(spark),
            _throughput(snapshot, kind="quarter"),
            _latency(snapshot.samples, kind="quarter"),
            _lag(snapshot.samples, kind="quarter"),
            _memory(snapshot.samples, kind="quarter"),
            *_rankings(spark.results),
            _sessions(spark.results),
        ]
    return f'<dl class="facts">{_facts(snapshot)}</dl><div class="charts">{"".join(figures)}</div>'


def script() -> str:
    return _asset("page.js")


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _story(snapshot: Snapshot) -> str:
    written = f"ottla {snapshot.version}: generated visitors of a site are written to a topic"
    if snapshot.spark is None:
        return f"{written} and read back by another client."
    return (
        f"{written}, the activity pipeline on Spark reads them and writes its results to other "
        "topics. One second of the demo is one minute of the site."
    )


def _footer(snapshot: Snapshot, *, is_live: bool) -> str:
    if not is_live:
        return ""
    commands = ", ".join(f"<code>{escape(command)}</code>" for command in snapshot.commands)
    return f"<footer>In another terminal: {commands}</footer>"


def _facts(snapshot: Snapshot) -> str:
    last = snapshot.recent[-1] if snapshot.recent else None
    facts = [("records written", f"{snapshot.written:,}", f"{snapshot.rates[0]:,.0f}/s")]
    if last is not None and last.p50_ms is not None and last.p99_ms is not None:
        facts.append(("end to end", _ms(last.p50_ms), f"p99 {_ms(last.p99_ms)}"))
    else:
        facts.append(("end to end", "-", ""))
    memory = None if last is None else last.memory_bytes
    text = "-" if memory is None else _mb(memory / 1e6)
    facts.append(("broker memory", text, f"ready in {snapshot.ready_s:.2f} s"))
    if snapshot.spark is None:
        facts.append(("read back", f"{snapshot.read_back:,}", "by another client"))
    else:
        facts += _spark_facts(snapshot, snapshot.spark)
    return "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)} <small>{escape(note)}</small></dd></div>"
        for name, value, note in facts
    )


def _spark_facts(snapshot: Snapshot, spark: SparkSnapshot) -> list[tuple[str, str, str]]:
    minutes, day = spark.results.in_order(), spark.results.newest_day()
    clock, date = "-", "1 s is 1 min"
    if minutes:
        newest = minutes[-1][0]
        clock, date = newest[11:16], newest[:10]
    return [
        ("read by Spark", f"{spark.read:,}", f"lag {snapshot.lag:,}"),
        ("site's clock", clock, date),
        ("page views", "-" if day is None else f"{day.page_views:,}", "of the day"),
        ("visitors", "-" if day is None else f"{day.visitors:,}", "of the day"),
        ("sessions", f"{spark.results.sessions:,}", "ended"),
    ]


def _figure(title: str, note: str, plot: str, *, kind: str) -> str:
    return f'<figure class="{kind}"><h2>{escape(title)}</h2>{note}{plot}</figure>'


def _waiting(title: str, text: str, more: str = "", *, kind: str) -> str:
    return _figure(title, "", f'<div class="waiting">{escape(text)}{more}</div>', kind=kind)


def _legend(*keys: tuple[str, str], note: str = "") -> str:
    """Of each line its name and its last value."""
    shown = "".join(
        f'<span class="key s{number}">{escape(name)} <b>{escape(value)}</b></span>'
        for number, (name, value) in enumerate(keys, 1)
    )
    more = f'<span class="open">{escape(note)}</span>' if note else ""
    return f'<p class="legend">{shown}{more}</p>'


def _traffic(spark: SparkSnapshot) -> str:
    title = "Page views and visitors a minute"
    minutes, final_count = spark.minutes()
    if not minutes:
        text = "Spark starts. The first minutes come with the first batch."
        return _waiting(title, text, _stages(spark), kind="wide")
    last = minutes[final_count - 1][1]  # the newest if none is final
    plot = line_chart(
        title,
        [datetime.fromisoformat(start).timestamp() for start, _ in minutes],
        [
            Series("page views", [traffic.page_views for _, traffic in minutes]),
            Series("visitors", [traffic.visitors for _, traffic in minutes]),
        ],
        Axes(_clock_text, _count, time_ticks=10),
        final_count=final_count,
    )
    note = _legend(
        ("page views", f"{last.page_views:,}"),
        ("visitors", f"{last.visitors:,}"),
        note="dashed: may still grow" if final_count < len(minutes) else "",
    )
    return _figure(title, note, plot, kind="wide")


def _stages(spark: SparkSnapshot) -> str:
    items, is_now = [], True
    for name, passed_s in spark.stages:
        if passed_s is not None:
            items.append(f'<li class="done">{escape(name)} {passed_s:.1f} s</li>')
        elif is_now:
            items.append(f'<li class="now">{escape(name)} {spark.elapsed_s:.1f} s</li>')
            is_now = False
        else:
            items.append(f"<li>{escape(name)}</li>")
    return f'<ol class="stages">{"".join(items)}</ol>'


def _rankings(results: Results) -> list[str]:
    found = []
    for number, (kind, title) in enumerate(
        (("page", "Top pages of the day"), ("search", "Top searches of the day")), 1
    ):
        ranking = results.ranking(kind)
        if ranking:
            note = "by page views" if kind == "page" else "by how often they were searched for"
            plot = bars(ranking, number=number)
            found.append(_figure(title, f"<p>{note}</p>", plot, kind="third"))
        else:
            text = "Waits for the first batch of the query that ranks them."
            found.append(_waiting(title, text, kind="third"))
    return found


def _sessions(results: Results) -> str:
    title = "How long sessions last"
    lengths = results.session_minutes.copy()
    if not lengths:
        text = "Waits for the first session to end: 30 minutes of the site after its last action."
        return _waiting(title, text, kind="third wide")
    items = [(str(minute), float(lengths[minute])) for minute in range(LONGEST_MINUTES)]
    items.append((f"{LONGEST_MINUTES}+", float(lengths[LONGEST_MINUTES])))
    mean = results.session_s / results.sessions / 60
    actions = results.session_actions / results.sessions
    note = f"<p>by minutes; in the mean {mean:.1f} minutes and {actions:.1f} actions</p>"
    return _figure(title, note, columns(title, items), kind="third wide")


def _throughput(snapshot: Snapshot, *, kind: str) -> str:
    title = "Records a second"
    if not snapshot.samples:
        return _waiting(title, _FIRST_SAMPLE, kind=kind)
    written, read = snapshot.rates
    series = [Series("written", [one.written_per_s for one in snapshot.samples])]
    keys = [("written", f"{written:,.0f}")]
    if snapshot.spark is not None:
        series.append(Series("read by Spark", [one.read_per_s for one in snapshot.samples]))
        keys.append(("read by Spark", f"{read:,.0f}"))
    plot = line_chart(title, _times(snapshot.samples), series, _elapsed_axes(_count))
    return _figure(title, _legend(*keys), plot, kind=kind)


def _latency(samples: Sequence[Sample], *, kind: str) -> str:
    title = "End to end, from client to client"
    last = next((one for one in reversed(samples) if one.p50_ms is not None), None)
    if last is None or last.p50_ms is None or last.p99_ms is None:
        return _waiting(title, _FIRST_SAMPLE, kind=kind)
    series = [
        Series("p50", [one.p50_ms for one in samples]),
        Series("p99", [one.p99_ms for one in samples]),
    ]
    plot = line_chart(title, _times(samples), series, _elapsed_axes(_ms_tick))
    note = _legend(("p50", _ms(last.p50_ms)), ("p99", _ms(last.p99_ms)))
    return _figure(title, note, plot, kind=kind)


def _lag(samples: Sequence[Sample], *, kind: str) -> str:
    title = "Lag of Spark"
    if not samples:
        return _waiting(title, _FIRST_SAMPLE, kind=kind)
    series = [Series("records", [one.lag for one in samples])]
    plot = line_chart(title, _times(samples), series, _elapsed_axes(_count))
    note = _legend(("records", f"{samples[-1].lag:,}"))
    return _figure(title, note, plot, kind=kind)


def _memory(samples: Sequence[Sample], *, kind: str) -> str:
    title = "Memory of the broker"
    known = [one.memory_bytes for one in samples if one.memory_bytes is not None]
    if not known:
        text = "This system does not tell it." if samples else _FIRST_SAMPLE
        return _waiting(title, text, kind=kind)
    values = [None if one.memory_bytes is None else one.memory_bytes / 1e6 for one in samples]
    plot = line_chart(title, _times(samples), [Series("resident", values)], _elapsed_axes(_mb))
    return _figure(title, _legend(("resident", _mb(known[-1] / 1e6))), plot, kind=kind)


def _elapsed_axes(value: Callable[[float], str]) -> Axes:
    return Axes(_elapsed_text, value, first_s=0)


def _times(samples: Sequence[Sample]) -> list[float]:
    return [one.at_s for one in samples]


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 10 else f"{value:.1f}"


def _mb(value: float) -> str:
    return f"{value:,.0f} MB"


def _ms(value: float) -> str:
    return f"{value:.1f} ms" if value < 10 else f"{value:,.0f} ms"


def _ms_tick(value: float) -> str:
    return f"{value:,g} ms" if value < 10 else f"{value:,.0f} ms"


def _clock_text(time_s: float) -> str:
    return f"{datetime.fromtimestamp(time_s, UTC):%H:%M}"


def _elapsed_text(seconds: float) -> str:
    """
    >>> [_elapsed_text(one) for one in (0, 45, 90, 120, 5400, 7200, 86_400)]
    ['0 s', '45 s', '1:30 min', '2 min', '1:30 h', '2 h', '1 d']
    """
    whole = round(seconds)
    for unit_s, part_s, name in ((86_400, 3600, "d"), (3600, 60, "h"), (60, 1, "min")):
        if whole >= unit_s:
            count, rest = divmod(whole, unit_s)
            part = rest // part_s
            return f"{count}:{part:02} {name}" if part else f"{count} {name}"
    return f"{whole} s"


def _duration_text(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 120 else f"{seconds / 60:,.0f} minutes"
