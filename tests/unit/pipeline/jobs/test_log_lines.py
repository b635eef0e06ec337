"""Log lines of each format, as their specifications have them."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.pipeline.generate import logs
from ottla.pipeline.generate.event import limited
from ottla.pipeline.jobs.log_lines import (
    COMBINED,
    COMMON,
    JSON,
    LOGFMT,
    SYSLOG,
    BrokenLine,
    Line,
    parse,
)

NEW_YEAR_US = 1_767_225_600_000_000  # 2026-01-01T00:00Z
TIME = "2026-01-01T00:00:00Z"


def us(text: str) -> int:
    since = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(microseconds=1)


def reason(line: bytes | str | None) -> str:
    with pytest.raises(BrokenLine) as caught:
        parse(line.encode() if isinstance(line, str) else line)
    return str(caught.value)


def fields(line: str) -> dict[str, str]:
    return parse(line.encode()).fields


# -- what is no line ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (None, "no value"),
        (b"", "neither JSON, syslog, an access line nor logfmt with a time"),
        (b"it went wrong", "neither JSON, syslog, an access line nor logfmt with a time"),
        (b'a="b', "neither JSON, syslog, an access line nor logfmt: it is none of them from"),
        (b"\xff{}", "no UTF-8: byte 0"),
        (b"{", "no JSON: Expecting property name"),
        (b"[]", "neither JSON, syslog, an access line nor logfmt with a time"),
        (b"{}", "no time"),
        (b'{"time":null}', "no time"),
        (b'{"time":"soon"}', "no time: soon"),
        (b'{"time":1767225600}', "no time: 1767225600"),
        (b'{"time":"2026-01-01T00:00:00"}', "no zone in the time: 2026-01-01T00:00:00"),
        (b'{"time":"2026-01-01T00:00:00Z"} more', "no JSON: Extra data"),
        (b'{"time":"2026-01-01T00:00:00Z","n":NaN}', "no JSON: NaN is no JSON"),
        (b'{"time":"2026-01-01T00:00:00Z","m":"\\ud800"}', "no JSON: half a surrogate pair"),
        (b'{"a":' * 100_000, "no JSON: "),
        (b"time=soon", "no time: soon"),
        (b"<914>1 - - - - - -", "no syslog of RFC 5424: priority 914 is above 191"),
    ],
)
def test_reasons(line: bytes | None, why: str) -> None:
    assert reason(line).startswith(why)


@given(st.binary())
@example(b"{")
@example(b"<0>1 - - - - - [")
def test_any_bytes_are_a_line_or_broken(line: bytes) -> None:
    assert_parsed_or_broken(line)


@given(
    st.lists(
        st.sampled_from(
            [
                *("<", ">", "1", "14", " ", "-", "[", "]", '"', "\\", "=", "{", "}", ":", ",", "a"),
                *("time=", TIME, '{"time":"', "\\ud83d", "\\xff", "é", "200", "\n", "\x00"),
                *("<14>1 - - - - - ", '1 - - [01/Feb/2026:00:00:00 +0000] "'),
            ]
        )
    )
)
def test_what_looks_like_a_line_is_one_or_broken(pieces: list[str]) -> None:
    assert_parsed_or_broken("".join(pieces).encode())


def assert_parsed_or_broken(value: bytes) -> None:
    try:
        line = parse(value)
    except BrokenLine:
        return
    # All that goes on from here is text that files can hold.
    for text in (*line.fields, *line.fields.values(), *(t for t in line if isinstance(t, str))):
        text.encode()


# -- JSON --------------------------------------------------------------------------------------


def test_json() -> None:
    line = {
        "time": "2026-01-01T00:00:00.25Z",
        "level": "WARN",
        "service": "cart",
        "host": "cart-4",
        "message": 'said "hi"',
        "user": 7,
        "is_new": True,
        "gone": None,
        "at": {"line": [1, 2.5, "é"]},
    }
    assert parse(json.dumps(line).encode()) == Line(
        time_us=NEW_YEAR_US + 250_000,
        format=JSON,
        service="cart",
        host="cart-4",
        level="warning",
        message='said "hi"',
        fields={"user": "7", "is_new": "true", "at": '{"line":[1,2.5,"é"]}'},
    )


def test_names_that_other_loggers_have() -> None:
    line = parse(b'{"@timestamp":"2026-01-01T01:00:00+01:00","severity":"Error","msg":"m"}\r\n')
    assert (line.time_us, line.level, line.message) == (NEW_YEAR_US, "error", "m")
    assert (line.service, line.host, line.fields) == (None, None, {})


@pytest.mark.parametrize(
    ("word", "level"),
    [
        *(("trace", "debug"), ("Debug", "debug"), ("INFO", "info"), ("notice", "info")),
        *(("warn", "warning"), ("err", "error"), ("fatal", "error"), ("critical", "error")),
    ],
)
def test_levels(word: str, level: str) -> None:
    line = parse(f"time={TIME} lvl={word}".encode())
    assert (line.level, line.fields) == (level, {})


def test_a_level_that_is_none_stays_a_field() -> None:
    line = parse(f'{{"time":"{TIME}","level":30}}'.encode())
    assert (line.level, line.fields) == (None, {"level": "30"})


def test_an_escaped_character_of_two_halves() -> None:
    assert parse(f'{{"time":"{TIME}","msg":"\\ud83d\\ude00"}}'.encode()).message == "😀"


JSON_VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
OTHER_NAMES = st.text().filter(
    lambda name: (
        name not in {"service", "host", "level", "severity", "lvl", "message", "msg"}
        and name not in {"time", "timestamp", "@timestamp", "ts"}
    )
)


@given(st.text(), st.dictionaries(OTHER_NAMES, JSON_VALUES), st.booleans())
def test_json_lines_parse_back(message: str, others: dict[str, Any], is_ascii: bool) -> None:
    found = parse(
        json.dumps({"time": TIME, "message": message, **others}, ensure_ascii=is_ascii).encode()
    )
    assert found.message == message
    assert {
        name: value if isinstance(others[name], str) else json.loads(value)
        for name, value in found.fields.items()
    } == others


# -- logfmt ------------------------------------------------------------------------------------


def test_logfmt() -> None:
    line = (
        'time=2026-01-01T00:00:00.953Z level=info service=search host=search-1 msg="said \\"hi\\"" '
        'path=/a?b=c empty= none="" is_new took=3ms tab="a\\tb" e="\\u00e9"'
    )
    assert parse(line.encode()) == Line(
        time_us=NEW_YEAR_US + 953_000,
        format=LOGFMT,
        service="search",
        host="search-1",
        level="info",
        message='said "hi"',
        fields={
            "path": "/a?b=c",
            "empty": "",
            "none": "",
            "is_new": "true",
            "took": "3ms",
            "tab": "a\tb",
            "e": "é",
        },
    )


@pytest.mark.parametrize(
    "line",
    [
        f'time={TIME} msg="open',
        f'time={TIME} msg="a"b',
        f'time={TIME} ms"g=a',
        f"time={TIME} =a",
        f"time={TIME} a=b\x00c",
        f'time={TIME} a=b"c"',
        f"time={TIME}\nmore=lines",
    ],
)
def test_what_is_no_logfmt(line: str) -> None:
    assert "from character" in reason(line)


@pytest.mark.parametrize(
    ("quoted", "text"),
    [
        ("\\\\", "\\"),
        ("\\n\\r\\b\\f", "\n\r\b\f"),
        ("\\ud83d\\ude00", "😀"),
        ("\\ud83d", "\ufffd"),
        ("\\u12", "u12"),
        ("two\nlines", "two\nlines"),
        ("a=b c", "a=b c"),
    ],
)
def test_what_stands_in_quotes(quoted: str, text: str) -> None:
    assert fields(f'time={TIME} a="{quoted}"') == {"a": text}


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


BARE = st.text(
    st.characters(min_codepoint=0x21, exclude_characters='="', exclude_categories=["Cs"]),
    min_size=1,
)


@given(st.dictionaries(BARE.filter(lambda name: name not in {"service", "host"}), st.text()))
def test_logfmt_lines_parse_back(pairs: dict[str, str]) -> None:
    # A name that has a column of its own is looked at above.
    pairs = {f"_{name}": value for name, value in pairs.items()}
    line = " ".join([f"time={TIME}", *(f"{name}={quoted(pairs[name])}" for name in pairs)])
    assert fields(line) == pairs


# -- syslog ------------------------------------------------------------------------------------

# RFC 5424, 6.5.
EXAMPLE_1 = (
    "<34>1 2003-10-11T22:14:15.003Z mymachine.example.com su - ID47 - "
    "\ufeff'su root' failed for lonvick on /dev/pts/8"
)
EXAMPLE_2 = (
    "<165>1 2003-08-24T05:14:15.000003-07:00 192.0.2.1 myproc 8710 - - "
    "%% It's time to make the do-nuts."
)
EXAMPLE_3 = (
    "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 "
    '[exampleSDID@32473 iut="3" eventSource="Application" eventID="1011"] '
    "\ufeffAn application event log entry..."
)
EXAMPLE_4 = (
    "<165>1 2003-10-11T22:14:15.003Z mymachine.example.com evntslog - ID47 "
    '[exampleSDID@32473 iut="3" eventSource="Application" eventID="1011"]'
    '[examplePriority@32473 class="high"]'
)
SDID = {
    "exampleSDID@32473.iut": "3",
    "exampleSDID@32473.eventSource": "Application",
    "exampleSDID@32473.eventID": "1011",
}


def test_the_examples_of_rfc_5424() -> None:
    assert parse(EXAMPLE_1.encode()) == Line(
        time_us=us("2003-10-11T22:14:15.003Z"),
        format=SYSLOG,
        service="su",
        host="mymachine.example.com",
        level="error",
        message="'su root' failed for lonvick on /dev/pts/8",
        fields={"facility": "4", "severity": "2", "msgid": "ID47"},
    )
    assert parse(EXAMPLE_2.encode()) == Line(
        time_us=us("2003-08-24T12:14:15.000003Z"),
        format=SYSLOG,
        service="myproc",
        host="192.0.2.1",
        level="info",
        message="%% It's time to make the do-nuts.",
        fields={"facility": "20", "severity": "5", "procid": "8710"},
    )
    event = Line(
        time_us=us("2003-10-11T22:14:15.003Z"),
        format=SYSLOG,
        service="evntslog",
        host="mymachine.example.com",
        level="info",
        message="An application event log entry...",
        fields={"facility": "20", "severity": "5", "msgid": "ID47", **SDID},
    )
    assert parse(EXAMPLE_3.encode()) == event
    assert parse(EXAMPLE_4.encode()) == event._replace(
        message=None, fields={**event.fields, "examplePriority@32473.class": "high"}
    )


@pytest.mark.parametrize(
    ("time", "utc"),
    [
        ("1985-04-12T23:20:50.52Z", "1985-04-12T23:20:50.52Z"),
        ("1985-04-12T19:20:50.52-04:00", "1985-04-12T23:20:50.52Z"),
        ("2003-10-11T22:14:15.003Z", "2003-10-11T22:14:15.003Z"),
        ("2003-08-24T05:14:15.000003-07:00", "2003-08-24T12:14:15.000003Z"),
    ],
)
def test_the_times_of_rfc_5424(time: str, utc: str) -> None:
    assert parse(f"<0>1 {time} - - - - -".encode()).time_us == us(utc)


@pytest.mark.parametrize(
    "time",
    [
        "2003-08-24T05:14:15.000000003-07:00",  # its own example 5: nanoseconds are too fine
        "2003-08-24T05:14:15",
        "2003-08-24 05:14:15Z",
        "2003-08-24T05:14:60Z",
        "2003-08-24t05:14:15z",
        "20030824T051415Z",
    ],
)
def test_what_is_no_time_of_rfc_5424(time: str) -> None:
    reason(f"<0>1 {time} - - - - -")


def test_the_structured_data_of_rfc_5424() -> None:
    head = "<0>1 - - - - - "
    basis = {"facility": "0", "severity": "0"}
    examples = '[exampleSDID@32473 iut="3" eventSource="Application" eventID="1011"]'
    assert fields(head + examples) == basis | SDID
    high = '[examplePriority@32473 class="high"]'
    assert fields(head + examples + high) == basis | SDID | {"examplePriority@32473.class": "high"}
    # 6.3.5: after a blank it is the message.
    line = parse(f"{head}{examples} {high}".encode())
    assert (line.fields, line.message) == (basis | SDID, high)
    # 6.3.5: the name of the first element is missing.
    assert reason(head + "[ " + examples[1:]) == ("no syslog of RFC 5424: not its structured data")
    assert fields(head + "[sigSig]") == basis | {"sigSig": ""}
    # 7.2.2
    origin = '[origin ip="192.0.2.1" ip="192.0.2.129" software="a"]'
    assert fields(head + origin) == basis | {
        "origin.ip": "192.0.2.1,192.0.2.129",
        "origin.software": "a",
    }


@pytest.mark.parametrize(
    ("escaped", "value"),
    [('\\"', '"'), ("\\\\", "\\"), ("\\]", "]"), ("\\n", "\\n"), ("é\n", "é\n")],
)
def test_escapes_in_structured_data(escaped: str, value: str) -> None:
    assert fields(f'<0>1 - - - - - [a b="{escaped}"]')["a.b"] == value


@pytest.mark.parametrize(
    "line",
    [
        "<192>1 - - - - - -",
        "<007>1 - - - - - -",
        "<-1>1 - - - - - -",
        "<1>2 - - - - - -",
        "<1>0 - - - - - -",
        "<1> - - - - - -",
        "<1>1 - - - - -",
        "<1>1  - - - - - -",
        "<1>1 - - - - - x",
        "<1>1 - - - - - -x",
        '<1>1 - - - - - [a b="]"]',
        '<1>1 - - - - - [a b="c]',
        '<1>1 - - - - - [a b="c"',
        "<1>1 - - - - - [a b=c]",
        '<1>1 - - - - - [a  b="c"]',
        "<1>1 - - - - - []",
        "<1>1 - höst - - - -",
        "<34>Oct 11 22:14:15 mymachine su: 'su root' failed",  # RFC 3164
        "<<",
    ],
)
def test_what_is_no_syslog(line: str) -> None:
    assert reason(line).startswith("no syslog of RFC 5424: ")


def test_all_that_syslog_may_leave_out() -> None:
    assert parse(b"<191>1 - - - - - -") == Line(
        time_us=None,
        format=SYSLOG,
        service=None,
        host=None,
        level="debug",
        message=None,
        fields={"facility": "23", "severity": "7"},
    )
    assert parse(b"<0>1 - - - - - - ").message == ""
    assert parse("<0>1 - - - - - - \ufeff".encode()).message == ""


@pytest.mark.parametrize(
    ("severity", "level"),
    list(enumerate(["error"] * 4 + ["warning", "info", "info", "debug"])),
)
def test_severities(severity: int, level: str) -> None:
    assert parse(f"<{8 + severity}>1 - - - - - -".encode()).level == level


SD_NAMES = st.text(
    st.characters(min_codepoint=0x21, max_codepoint=0x7E, exclude_characters='= ]"'), min_size=1
)
HEADER_NAMES = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1)


def sd_escaped(value: str) -> str:
    return re.sub(r'(["\\\]])', r"\\\1", value)


@given(
    st.integers(0, 191),
    st.datetimes(),
    HEADER_NAMES,
    st.dictionaries(SD_NAMES, st.dictionaries(SD_NAMES, st.text(), min_size=1)),
    st.none() | st.text().map(lambda text: text.rstrip("\r\n")),
)
def test_syslog_lines_parse_back(
    priority: int,
    time: datetime,
    host: str,
    elements: dict[str, dict[str, str]],
    message: str | None,
) -> None:
    data = ""
    for name, params in elements.items():
        pairs = [f'{key}="{sd_escaped(value)}"' for key, value in params.items()]
        data += f"[{' '.join([name, *pairs])}]"
    text = f"<{priority}>1 {time.isoformat()}Z {host} - - - {data or '-'}"
    if message is not None:
        text += f" \ufeff{message}"
    line = parse(text.encode())
    assert line.time_us == us(f"{time.isoformat()}+00:00")
    assert line.host == (None if host == "-" else host)
    assert line.message == message
    found = {
        key: value for key, value in line.fields.items() if key not in ("facility", "severity")
    }
    expected: dict[str, str] = {}
    for name, params in elements.items():
        for key, value in params.items():
            # "a.b" of "c" and "a" of "b.c" are one name.
            joined = f"{name}.{key}"
            expected[joined] = f"{expected[joined]},{value}" if joined in expected else value
    assert found == expected


# -- access lines --------------------------------------------------------------------------------


def test_an_access_line_of_nginx() -> None:
    line = (
        '2001:db8::1 - jo [01/Jan/2026:01:00:00 +0100] "GET /a?b=%20c HTTP/2.0" 503 22467 '
        '"https://example.org/" "Mozilla/5.0 (\\x22quoted\\x22) \\xC3\\xA9"'
    )
    assert parse(line.encode()) == Line(
        time_us=NEW_YEAR_US,
        format=COMBINED,
        service=None,
        host=None,
        level="error",
        message="GET /a?b=%20c HTTP/2.0",
        fields={
            "client": "2001:db8::1",
            "user": "jo",
            "protocol": "HTTP/2.0",
            "referer": "https://example.org/",
            "user_agent": 'Mozilla/5.0 ("quoted") é',
        },
        method="GET",
        path="/a?b=%20c",
        status=503,
        bytes=22467,
    )


def test_the_access_line_of_apaches_manual() -> None:
    line = '127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326'
    assert parse(line.encode()) == Line(
        time_us=us("2000-10-10T20:55:36Z"),
        format=COMMON,
        service=None,
        host=None,
        level="info",
        message="GET /apache_pb.gif HTTP/1.0",
        fields={"client": "127.0.0.1", "user": "frank", "protocol": "HTTP/1.0"},
        method="GET",
        path="/apache_pb.gif",
        status=200,
        bytes=2326,
    )


@pytest.mark.parametrize(
    ("request_line", "method", "path", "message"),
    [
        ("-", None, None, "-"),
        ("", None, None, ""),
        ("GET /", "GET", "/", "GET /"),
        ("\\x16\\x03\\x01", None, None, "\x16\x03\x01"),
        ("\\xff", None, None, "\ufffd"),
        ('GET /\\"a\\" HTTP/1.1', "GET", '/"a"', 'GET /"a" HTTP/1.1'),
        ("GET /a b HTTP/1.1", None, None, "GET /a b HTTP/1.1"),
        ("OPTIONS * HTTP/1.1", "OPTIONS", "*", "OPTIONS * HTTP/1.1"),
    ],
)
def test_what_clients_send(
    request_line: str, method: str | None, path: str | None, message: str
) -> None:
    line = parse(f'::1 - - [01/Jan/2026:00:00:00 +0000] "{request_line}" 400 -'.encode())
    assert (line.method, line.path, line.message) == (method, path, message)
    assert (line.status, line.bytes, line.level) == (400, None, "warning")


@pytest.mark.parametrize(
    "line",
    [
        '::1 - - [01/Jän/2026:00:00:00 +0000] "GET /" 200 1',
        '::1 - - [01/Jan/2026:00:00:00] "GET /" 200 1',
        '::1 - - [01/Jan/2026:00:00:00 +0000] "GET /" 2000 1',
        '::1 - - [01/Jan/2026:00:00:00 +0000] "GET /" 200 1 "-"',
        '::1 - - [01/Jan/2026:00:00:00 +0000] "GET /" 200 1 "-" "-" "-"',
        '::1 - - [01/Jan/2026:00:00:00 +0000] "GET / 200 1',
        '::1 - [01/Jan/2026:00:00:00 +0000] "GET /" 200 1',
    ],
)
def test_what_is_no_access_line(line: str) -> None:
    assert reason(line).startswith("neither JSON, syslog, an access line nor logfmt")


@pytest.mark.parametrize("time", ["01/Foo/2026:00:00:00 +0000", "31/Feb/2026:00:00:00 +0000"])
def test_access_lines_of_no_day(time: str) -> None:
    assert reason(f'::1 - - [{time}] "GET /" 200 1').startswith("no time: ")


# -- what is generated ---------------------------------------------------------------------------


def test_generated_lines_say_what_their_facts_say() -> None:
    formats = {logs.NGINX: COMBINED, logs.APACHE: COMMON}
    for event in limited(logs.Generator(4, 20, NEW_YEAR_US // 1000), count=5000):
        fact = event.fact
        if fact is None:
            reason(event.value)
            continue
        line = parse(event.value)
        assert line.time_us == fact.time_ms * 1000
        assert line.format == formats.get(fact.format, fact.format)
        assert line.service in (fact.service, None)
        assert (line.level, line.host, line.message) == (fact.level, fact.host, fact.message)


@pytest.mark.parametrize(
    "piece",
    [
        *(" [", "[", "a=", 'a="', '\\"', ' b="c', "\\", '{"a":', "<0>1 ", "[a ", "a ", '" "'),
        *(
            "\\x41",
            "\\u0041",
            "<0>1 - - - - - [",
            '[a b="c"]',
            "1 - - [01/Jan/2026:00:00:00 +0000] ",
        ),
    ],
)
@pytest.mark.timeout(20)
def test_no_line_takes_long(piece: str) -> None:
    """A pattern that looks back again and again would need hours for these."""
    for head in ("", "<0>1 - - - - - ", '1 - - [01/Jan/2026:00:00:00 +0000] "', "time="):
        assert_parsed_or_broken((head + piece * (500_000 // len(piece))).encode())
