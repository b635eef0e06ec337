"""The page of plots that the demo leaves: one file that needs nothing else, in light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from ottla.cli.demo.charts import WIDE, Series, bars, columns, lines
from ottla.cli.demo.history import Rate
from ottla.cli.demo.results import Results

_MINUTES_MAX = 180
_LONGEST_MINUTES = 15

_STYLE = """
:root { color-scheme: light dark; --page: #f6f6f3; --card: #fcfcfb; --ink: #1b1b19;
  --soft: #66655f; --grid: #e3e2dc; --s1: #2a6fc9; --s2: #c7541b; }
@media (prefers-color-scheme: dark) { :root { --page: #121211; --card: #1c1c1a; --ink: #f1f0ea;
  --soft: #a5a49c; --grid: #34342f; --s1: #6ba6f2; --s2: #f08a4b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1180px; padding: 28px 20px 48px; background: var(--page);
  color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 24px; margin: 0; }
h2 { font-size: 16px; margin: 0; }
p { margin: 2px 0 0; color: var(--soft); }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 12px;
  margin: 20px 0; padding: 0; }
.facts div, figure { background: var(--card); border: 1px solid var(--grid); border-radius: 10px;
  padding: 14px 18px; margin: 0; }
.facts dt { color: var(--soft); font-size: 13px; }
.facts dd { margin: 0; font-size: 24px; font-variant-numeric: tabular-nums; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr));
  gap: 12px; }
.wide { grid-column: 1 / -1; }
svg { display: block; width: 100%; height: auto; margin-top: 12px; overflow: visible; }
text { fill: var(--soft); font: 12px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
text.value { fill: var(--ink); }
.grid { stroke: var(--grid); }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.line.s1 { stroke: var(--s1); } .line.s2 { stroke: var(--s2); }
.point { opacity: 0; } .point:hover { opacity: 1; }
.s1.bar, .s1.point, text.name.s1 { fill: var(--s1); }
.s2.bar, .s2.point, text.name.s2 { fill: var(--s2); }
text.name { font-weight: 600; }
.bar:hover { opacity: 0.75; }
""".strip()


@dataclass(frozen=True, slots=True)
class Run:
    """What the demo did."""

    version: str
    seconds: float
    written: int
    read: int
    rates: Sequence[Rate]


def page(run: Run, results: Results) -> str:
    day = results.newest_day()
    facts = [
        ("records written", f"{run.written:,}"),
        ("read by Spark", f"{run.read:,}"),
        ("page views of the day", "-" if day is None else f"{day.page_views:,}"),
        ("visitors of the day", "-" if day is None else f"{day.visitors:,}"),
        ("sessions ended", f"{results.sessions:,}"),
    ]
    shown = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts
    )
    plots = "".join([_traffic(results), *_rankings(results), _sessions(results), _rates(run)])
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>ottla demo</title><style>\n{_STYLE}\n</style></head><body>"
        f"<h1>What {run.seconds:.0f} seconds of the demo found out</h1>"
        f"<p>ottla {escape(run.version)}: generated activity through the broker, by the activity "
        "pipeline on Spark, into topics. One second of the demo is one minute of the site.</p>"
        f'<dl class="facts">{shown}</dl><div class="plots">{plots}</div></body></html>\n'
    )


def _figure(title: str, note: str, plot: str | None, *, is_wide: bool = False) -> str:
    """Without a plot it says why there is none."""
    if plot is None:
        note = "None yet. Spark needs some seconds to start, and a session ends 30 minutes after "
        note += "its last action: half a minute of the demo."
    kind = ' class="wide"' if is_wide else ""
    return f"<figure{kind}><h2>{escape(title)}</h2><p>{escape(note)}</p>{plot or ''}</figure>"


def _traffic(results: Results) -> str:
    title = "Page views and visitors a minute"
    minutes = results.in_order()[-_MINUTES_MAX:]
    plot = None
    if minutes:
        plot = lines(
            [start[11:16] for start, _ in minutes],
            [
                Series("page views", [traffic.page_views for _, traffic in minutes]),
                Series("visitors", [traffic.visitors for _, traffic in minutes]),
            ],
            title,
            width=WIDE,
        )
    note = "By the minute in which they happened, UTC. The last minutes may still grow."
    return _figure(title, note, plot, is_wide=True)


def _rankings(results: Results) -> list[str]:
    found = []
    for number, (kind, title) in enumerate(
        (("page", "Top pages of the day"), ("search", "Top searches of the day")), 1
    ):
        ranking = results.ranking(kind)
        plot = bars(ranking, title, number=number) if ranking else None
        note = "By page views." if kind == "page" else "By how often they were searched for."
        found.append(_figure(title, note, plot))
    return found


def _sessions(results: Results) -> str:
    title = "How long sessions last"
    lengths = results.session_minutes.copy()
    if not lengths:
        return _figure(title, "", None)
    items = [(str(minute), float(lengths[minute])) for minute in range(_LONGEST_MINUTES)]
    longer = sum(count for minute, count in lengths.items() if minute >= _LONGEST_MINUTES)
    items.append((f"{_LONGEST_MINUTES}+", float(longer)))
    mean = results.session_s / results.sessions / 60
    actions = results.session_actions / results.sessions
    note = f"Sessions by whole minutes. In the mean {mean:.1f} minutes and {actions:.1f} actions."
    return _figure(title, note, columns(items, title))


def _rates(run: Run) -> str:
    title = "Records a second"
    plot = None
    if run.rates:
        plot = lines(
            [f"{rate.at_s:.0f} s" for rate in run.rates],
            [
                Series("written", [rate.written for rate in run.rates]),
                Series("read", [rate.read for rate in run.rates]),
            ],
            title,
        )
    note = "Written to the topic, and read by Spark, over the time of the demo."
    return _figure(title, note, plot)
