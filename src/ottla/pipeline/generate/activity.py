"""What visitors of a site do, and what the activity pipeline must say of it.
docs/pipelines/activity.md has the schema and the definitions."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random

from ottla.pipeline.generate.chance import Weighted, below, one_of, zipf
from ottla.pipeline.generate.event import Event, arrival_of, in_arrival_order
from ottla.pipeline.generate.rhythm import DAY_MS, MINUTE_MS, Rhythm
from ottla.pipeline.generate.times import iso_of

SESSION_GAP_MS = 30 * MINUTE_MS
TOP_COUNT = 10

PAGE_VIEW, SEARCH, CLICK = TYPES = ("page_view", "search", "click")

_TYPE_WEIGHTS = (0.80, 0.08, 0.12)
_PAGES = 1000
_TARGETS = ("buy", "share", "like", "next", "menu")
_COLOURS = ("red", "blue", "green", "black", "white", "grey")
_THINGS = ("shoes", "jacket", "lamp", "table", "phone", "bike", "tent", "book", "watch", "bag")
_SEARCHES = tuple(f"{colour} {thing}" for thing in _THINGS for colour in _COLOURS)
_BROKEN_SHARE = 0.01
# A visitor does something every 20 s and a dozen things a visit, and comes back after hours.
_VISITOR_PERIOD_S = 20
_ACTIONS_A_VISIT = 12
_VISITORS_PER_ACTIVE = 50


@dataclass(frozen=True, slots=True)
class Action:
    time_ms: int
    type: str
    user: str
    subject: str
    """The page of a page view or a click, the query of a search."""


class Generator:
    """Makes the same events for the same seed, rate and start; iterating again starts anew."""

    def __init__(self, seed: int, rate: float, start_ms: int) -> None:
        self._seed = f"activity {seed}"
        self._rate = rate
        self._start_ms = start_ms

    def __iter__(self) -> Iterator[Event[Action]]:
        """In the order of arrival, without end."""
        return in_arrival_order(self._by_event_time())

    def _by_event_time(self) -> Iterator[Event[Action]]:
        random = Random(self._seed)
        active_count = max(1, int(self._rate * _VISITOR_PERIOD_S))
        all_count = active_count * _VISITORS_PER_ACTIVE
        active = [below(all_count, random) for _ in range(active_count)]
        types, pages, searches = Weighted(_TYPE_WEIGHTS), zipf(_PAGES), zipf(len(_SEARCHES))
        times = Rhythm(self._seed, self._rate, self._start_ms).times()
        for number, time_ms in enumerate(times):
            slot = below(active_count, random)
            if random.random() < 1 / _ACTIONS_A_VISIT:
                active[slot] = below(all_count, random)
            kind = TYPES[types.choose(random)]
            if kind == SEARCH:
                subject = _SEARCHES[searches.choose(random)]
            else:
                subject = f"/page/{pages.choose(random) + 1}"
            action = Action(time_ms, kind, f"user-{active[slot] + 1}", subject)
            yield _event(action, number, random)


def _event(action: Action, number: int, random: Random) -> Event[Action]:
    fields = {
        "id": f"a-{number}",
        "type": action.type,
        "time": iso_of(action.time_ms),
        "user": action.user,
        "query" if action.type == SEARCH else "page": action.subject,
    }
    if action.type == CLICK:
        fields["target"] = one_of(_TARGETS, random)
    is_broken = random.random() < _BROKEN_SHARE
    return Event(
        event_time_ms=action.time_ms,
        arrival_ms=arrival_of(action.time_ms, random),
        key=action.user.encode(),
        value=_broken(fields, random) if is_broken else _encoded(fields),
        fact=None if is_broken else action,
    )


def _encoded(fields: Mapping[str, str]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def _broken(fields: dict[str, str], random: Random) -> bytes:
    """Each way in which a record must be refused."""
    way = below(5, random)
    if way == 0:
        return _encoded(fields)[:-2]
    if way == 1:
        return _encoded({name: text for name, text in fields.items() if name != "user"})
    if way == 2:
        return _encoded({**fields, "time": "yesterday"})
    if way == 3:
        return _encoded({**fields, "type": "page_veiw"})
    return b"\xff\xfe" + _encoded(fields)


@dataclass(frozen=True, slots=True)
class Session:
    user: str
    start_ms: int
    end_ms: int
    """The time of the last action in it."""
    actions: int
    page_views: int


@dataclass(frozen=True, slots=True)
class Traffic:
    page_views: int
    visitors: int
    """How many users viewed a page."""


Ranking = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Truth:
    """The exact answers. Minutes and days are named by their first millisecond, in UTC."""

    minutes: Mapping[int, Traffic]
    days: Mapping[int, Traffic]
    sessions: list[Session]
    """By user, then by time."""
    top_pages: Mapping[int, Ranking]
    """A day's, by page views; equals by name."""
    top_searches: Mapping[int, Ranking]
    broken: int


def truth(events: Iterable[Event[Action]]) -> Truth:
    actions: list[Action] = []
    broken = 0
    for event in events:
        if event.fact is None:
            broken += 1
        else:
            actions.append(event.fact)
    return Truth(
        minutes=_traffic(actions, MINUTE_MS),
        days=_traffic(actions, DAY_MS),
        sessions=sessions_of(actions),
        top_pages=_rankings(actions, PAGE_VIEW),
        top_searches=_rankings(actions, SEARCH),
        broken=broken,
    )


def _traffic(actions: Iterable[Action], window_ms: int) -> dict[int, Traffic]:
    views: Counter[int] = Counter()
    users: defaultdict[int, set[str]] = defaultdict(set)
    for action in actions:
        if action.type == PAGE_VIEW:
            window = action.time_ms - action.time_ms % window_ms
            views[window] += 1
            users[window].add(action.user)
    return {window: Traffic(views[window], len(users[window])) for window in sorted(views)}


def sessions_of(actions: Iterable[Action]) -> list[Session]:
    """A user's next action belongs to the session when it comes at most the gap after the last
    one, as Spark's session windows have it."""
    sessions: list[Session] = []
    for action in sorted(actions, key=lambda action: (action.user, action.time_ms)):
        view = int(action.type == PAGE_VIEW)
        last = sessions[-1] if sessions else None
        if (
            last is None
            or last.user != action.user
            or action.time_ms - last.end_ms > SESSION_GAP_MS
        ):
            sessions.append(Session(action.user, action.time_ms, action.time_ms, 1, view))
        else:
            sessions[-1] = Session(
                last.user, last.start_ms, action.time_ms, last.actions + 1, last.page_views + view
            )
    return sessions


def _rankings(actions: Iterable[Action], kind: str) -> dict[int, Ranking]:
    counts: defaultdict[int, Counter[str]] = defaultdict(Counter)
    for action in actions:
        if action.type == kind:
            counts[action.time_ms - action.time_ms % DAY_MS][action.subject] += 1
    return {
        day: sorted(counts[day].items(), key=lambda item: (-item[1], item[0]))[:TOP_COUNT]
        for day in sorted(counts)
    }
