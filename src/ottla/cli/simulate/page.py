"""One run as a page: a lane for each host, with what happened there, and all of it as a list. It is
one file that needs nothing else, no script either; in light and dark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from ottla.cli.simulate.job import Result
from ottla.cli.simulate.replay import replay_command
from ottla.testing.simulation.entry import FAULTS, STORE, Entry, Mark

_STATES = (Mark.STARTS, Mark.RUNS, Mark.PAUSED, Mark.STOPS)
"""Of a broker that is there, until the next of these, or its end."""
_HIDDEN = (Mark.OTHER, Mark.LOG, Mark.READ)
"""Until somebody wants to see them: there are very many."""
_KEYS = tuple(mark for mark in Mark if mark not in _STATES)
_BROKERS = "Brokers" + "".join(
    f'<span><b class="{mark}"></b>{text}</span>'
    for mark, text in (
        (Mark.RUNS, "run"),
        (Mark.STARTS, "start or stop"),
        (Mark.PAUSED, "stand still"),
        ("down", "are down"),
    )
)
_COLOURS = {Mark.PROBLEM: "bad"}
_ZOOMS = (1, 3, 10, 40)
_LABELS_MAX = 12
_TEXT_MAX = 200
"""Of what is shown while a mouse is over it; the list has all of it."""


def page_of(result: Result) -> str:
    title = f"Seed {result.job.seed}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>\n{_css()}{_mark_css()}</style></head><body>"
        f"<h1>{title}</h1>{_story(result)}{_problems(result.problems)}"
        f'<section><div class="keys">{_keys()}</div><div class="keys zoom">{_zooms()}</div>'
        f'<div class="keys zoom">{_BROKERS}</div>'
        f"</section><section>{_lanes(result.entries)}</section>"
        f'<section class="log"><table>{_rows(result.entries)}</table></section></body></html>\n'
    )


@cache
def _css() -> str:
    return files(__package__).joinpath("page.css").read_text(encoding="utf-8")


def _mark_css() -> str:
    """What each key colours, and hides when it is not checked."""
    rules = []
    for mark in _KEYS:
        name, colour = mark.lower(), _COLOURS.get(mark, mark.lower())
        rules.append(f".keys .m-{name}, .lane .m-{name} {{ background: var(--{colour}); }}")
        rules.append(f"tr.m-{name} td:nth-child(3) {{ color: var(--{colour}); }}")
        rules.append(
            f"body:has(#k-{name}:not(:checked)) :is(.lane, table) .m-{name} {{ display: none; }}"
        )
    return "\n".join(rules) + "\n"


def _story(result: Result) -> str:
    replay = replay_command(result.job.seed, result.job.faults)
    end_s = result.entries[-1].time_s if result.entries else 0.0
    return (
        f"<p>{end_s:.1f} s of virtual time; faults: {len(result.faults) or 'none'}; problems: "
        f"{len(result.problems) or 'none'}; trace hash <code>{result.digest}</code>; again with "
        f"<code>{escape(replay)}</code></p>"
    )


def _problems(problems: Sequence[str]) -> str:
    if not problems:
        return ""
    texts = "".join(f"<pre>{escape(problem.strip())}</pre>" for problem in problems)
    return f'<section class="problems"><h2>What went wrong</h2>{texts}</section>'


def _keys() -> str:
    return "".join(
        f'<label><input type="checkbox" id="k-{mark.lower()}"'
        f"{'' if mark in _HIDDEN else ' checked'}>"
        f'<i class="m-{mark.lower()}"></i>{mark}</label>'
        for mark in _KEYS
    )


def _zooms() -> str:
    return "Zoom" + "".join(
        f'<label><input type="radio" name="zoom" id="z{zoom}"{" checked" if zoom == 1 else ""}>'
        f"{zoom}&times;</label>"
        for zoom in _ZOOMS
    )


def hosts_of(entries: Sequence[Entry]) -> list[str]:
    """What is done to the cluster, what it has decided, brokers, and clients by their names."""
    hosts = {entry.host for entry in entries}
    brokers = sorted(host for host in hosts if host.startswith("broker"))
    first = [host for host in (FAULTS, STORE) if host in hosts]
    return [*first, *brokers, *sorted(hosts.difference(first, brokers))]


def _lanes(entries: Sequence[Entry]) -> str:
    end_s = max((entry.time_s for entry in entries), default=0.0) or 1.0
    hosts = hosts_of(entries)
    names = "".join(f"<div>{escape(host)}</div>" for host in hosts)
    lanes = "".join(_lane(host, entries, end_s) for host in hosts)
    return (
        f'<div class="lanes"><div class="names"><div></div>{names}</div>'
        f'<div class="times"><div><div class="axis">{_axis(end_s)}</div>{lanes}</div></div></div>'
    )


def _axis(end_s: float) -> str:
    step_s = next(step for step in (1, 2, 5, 10, 20, 50, 100, 1000) if end_s / step < _LABELS_MAX)
    return "".join(
        f'<span style="left:{second / end_s:.3%}">{second} s</span>'
        for second in range(0, int(end_s) + 1, step_s)
    )


def _lane(host: str, entries: Sequence[Entry], end_s: float) -> str:
    here = [(number, entry) for number, entry in enumerate(entries) if entry.host == host]
    marks = "".join(
        f'<a href="#e{number}" class="m-{entry.mark.lower()}" '
        f'style="left:{entry.time_s / end_s:.3%}" title="{escape(_short(entry))}"></a>'
        for number, entry in here
        if entry.mark in _KEYS
    )
    return f'<div class="lane">{_bars([entry for _, entry in here], end_s)}{marks}</div>'


def _short(entry: Entry) -> str:
    return f"{entry.time_s:.6f} {entry.mark}: {entry.text[:_TEXT_MAX]}"


def _bars(here: Sequence[Entry], end_s: float) -> str:
    """When a broker was there."""
    changes = [entry for entry in here if entry.mark in (*_STATES, Mark.ENDED)]
    if not changes:
        return ""
    bars = []
    ends = [entry.time_s for entry in changes[1:]] + [end_s]
    for entry, until_s in zip(changes, ends, strict=True):
        if entry.mark in _STATES:
            left, width = entry.time_s / end_s, (until_s - entry.time_s) / end_s
            bars.append(f'<b class="{entry.mark}" style="left:{left:.3%};width:{width:.3%}"></b>')
    return "".join(bars)


def _rows(entries: Sequence[Entry]) -> str:
    def rows() -> Iterator[str]:
        for number, entry in enumerate(entries):
            yield (
                f'<tr id="e{number}" class="m-{entry.mark.lower()}"><td>{entry.time_s:.6f}'
                f"<td>{escape(entry.host)}<td>{entry.mark}<td>{escape(entry.text)}"
            )

    return "".join(rows())
