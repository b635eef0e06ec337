"""One log line, in whatever format it comes, as one shape. Plain Python, no Spark.

JSON, logfmt, syslog (RFC 5424) and the access lines of nginx and Apache are told apart by how they
begin. Whatever the bytes are, a line is parsed or BrokenLine says why not; docs/pipelines/logs.md
has the rules. All patterns take time in proportion to the line, even one that is made to hurt.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

from ottla.pipeline.jobs.times import time_us_of

JSON, LOGFMT, SYSLOG, COMBINED, COMMON = "json", "logfmt", "syslog", "combined", "common"

DEBUG, INFO, WARNING, ERROR = "debug", "info", "warning", "error"

_LEVELS = {
    **dict.fromkeys(("trace", "debug"), DEBUG),
    **dict.fromkeys(("info", "information", "notice"), INFO),
    **dict.fromkeys(("warn", "warning"), WARNING),
    **dict.fromkeys(("err", "error", "crit", "critical", "alert"), ERROR),
    **dict.fromkeys(("fatal", "panic", "emerg", "emergency"), ERROR),
}
# RFC 5424, 6.2.1: the index is the severity.
_SEVERITIES = (ERROR, ERROR, ERROR, ERROR, WARNING, INFO, INFO, DEBUG)

# The names under which loggers write what is a column here; the first that is there counts.
_TIME = ("time", "timestamp", "@timestamp", "ts")
_LEVEL = ("level", "severity", "lvl")
_MESSAGE = ("message", "msg")


class Line(NamedTuple):
    time_us: int | None
    """Since 1970. None: it says that it does not know (syslog can)."""
    format: str
    service: str | None
    host: str | None
    level: str | None
    message: str | None
    fields: dict[str, str]
    """What has no column of its own."""
    method: str | None = None
    path: str | None = None
    status: int | None = None
    bytes: int | None = None


class BrokenLine(ValueError):
    """The text is the reason, for the dead letters."""


def parse(value: bytes | None) -> Line:
    """Raises BrokenLine, and nothing else."""
    if value is None:
        raise BrokenLine("no value")
    try:
        text = value.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise BrokenLine(f"no UTF-8: byte {error.start}") from None
    if text.startswith("{"):
        return _parse_json(text)
    if text.startswith("<"):
        return _parse_syslog(text)
    return _parse_access(text) or _parse_logfmt(text)


# -- JSON and logfmt -----------------------------------------------------------------------------


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _parse_json(text: str) -> Line:
    try:
        found = _DECODER.decode(text)
        if "\\u" in text:
            # An escape can name half a character ("\\ud800"), which no file can hold.
            json.dumps(found, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise BrokenLine("no JSON: half a surrogate pair") from None
    except (ValueError, RecursionError) as error:
        raise BrokenLine(f"no JSON: {error}") from None
    fields = {name: _text_of(value) for name, value in found.items() if value is not None}
    return _line_of(fields, JSON)


def _text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# One blank or more, a name, and maybe a value: bare or in quotes.
_PAIR = re.compile(
    r'[ \t]*([^\x00-\x20="]+)(?:=("[^"\\]*(?:\\.[^"\\]*)*"|[^\x00-\x20"]*))?(?![^ \t])', re.DOTALL
)
_NO_FORMAT = "neither JSON, syslog, an access line nor logfmt"


def _parse_logfmt(text: str) -> Line:
    fields: dict[str, str] = {}
    position, text = 0, text.rstrip(" \t")
    while position < len(text):
        pair = _PAIR.match(text, position)
        if pair is None:
            raise BrokenLine(f"{_NO_FORMAT}: it is none of them from character {position} on")
        name, value = pair.groups()
        if value is None:
            value = "true"
        elif value.startswith('"'):
            value = _unescaped(value[1:-1])
        fields[name] = value
        position = pair.end()
    # Any words are logfmt, of names without values: a time is what makes it a line of a log.
    if not any(name in fields for name in _TIME):
        raise BrokenLine(f"{_NO_FORMAT} with a time")
    return _line_of(fields, LOGFMT)


def _line_of(fields: dict[str, str], format: str) -> Line:
    """Takes what has a column out of the fields."""
    time = _first(fields, _TIME)
    if time is None:
        raise BrokenLine("no time")
    return Line(
        time_us=_time_us(time),
        format=format,
        service=fields.pop("service", None) or None,
        host=fields.pop("host", None) or None,
        level=_level_of(fields),
        message=_first(fields, _MESSAGE),
        fields=fields,
    )


def _first(fields: dict[str, str], names: tuple[str, ...]) -> str | None:
    for name in names:
        if name in fields:
            return fields.pop(name)
    return None


def _level_of(fields: dict[str, str]) -> str | None:
    """A word that is not known stays where it is."""
    for name in _LEVEL:
        if name in fields:
            level = _LEVELS.get(fields[name].lower())
            if level is not None:
                del fields[name]
            return level
    return None


def _time_us(text: str) -> int:
    try:
        return time_us_of(text)
    except ValueError as error:
        raise BrokenLine(str(error)) from None


# -- syslog --------------------------------------------------------------------------------------

# RFC 5424, 6. Names longer than it allows are taken: no later step has those limits.
_HEADER = re.compile(
    r"<(0|[1-9][0-9]{0,2})>([1-9][0-9]{0,2}) "
    r"(-|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})) "
    r"([!-~]+) ([!-~]+) ([!-~]+) ([!-~]+) (?=-|\[)"
)
_SD_NAME = r"[!#-<>-\\^-~]+"
_SD_PARAM = rf' ({_SD_NAME})="([^"\\\]]*(?:\\.[^"\\\]]*)*)"'
_ELEMENT = re.compile(rf"\[({_SD_NAME})((?:{_SD_PARAM})*)\]", re.DOTALL)
_PARAM = re.compile(_SD_PARAM, re.DOTALL)
# 6.3.3: a backslash before any other character is one like all others.
_SD_ESCAPE = re.compile(r'\\(["\\\]])')
_BOM = "\ufeff"
_NIL = "-"


def _parse_syslog(text: str) -> Line:
    header = _HEADER.match(text)
    if header is None:
        raise BrokenLine("no syslog of RFC 5424: not its header")
    priority, version, time, host, service, procid, msgid = header.groups()
    facility, severity = divmod(int(priority), 8)
    if facility > 23:
        raise BrokenLine(f"no syslog of RFC 5424: priority {priority} is above 191")
    if version != "1":
        raise BrokenLine(f"no syslog of RFC 5424: version {version}")
    fields = {"facility": str(facility), "severity": str(severity)}
    if procid != _NIL:
        fields["procid"] = procid
    if msgid != _NIL:
        fields["msgid"] = msgid
    position = _add_structured_data(fields, text, header.end())
    message = None if position == len(text) else text[position + 1 :].removeprefix(_BOM)
    return Line(
        time_us=None if time == _NIL else _time_us(time),
        format=SYSLOG,
        service=None if service == _NIL else service,
        host=None if host == _NIL else host,
        level=_SEVERITIES[severity],
        message=message,
        fields=fields,
    )


def _add_structured_data(fields: dict[str, str], text: str, position: int) -> int:
    """Returns where it ends."""
    if text[position] == _NIL:
        position += 1
    else:
        while (element := _ELEMENT.match(text, position)) is not None:
            name = element[1]
            if element.end(2) == element.start(2):
                fields[name] = ""
            for param in _PARAM.finditer(element[2]):
                value = _SD_ESCAPE.sub(r"\1", param[2])
                key = f"{name}.{param[1]}"
                # A parameter may come again, as the addresses of an origin do (7.2.1).
                fields[key] = f"{fields[key]},{value}" if key in fields else value
            position = element.end()
    if position < len(text) and text[position] != " ":
        raise BrokenLine("no syslog of RFC 5424: not its structured data")
    return position


# -- access lines --------------------------------------------------------------------------------

_QUOTED = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_ACCESS = re.compile(
    r"([^ ]+) ([^ ]+) ([^\[\]]+) "
    r"\[([0-9]{2}/[A-Z][a-z]{2}/[0-9]{4}:[0-9]{2}:[0-9]{2}:[0-9]{2} [+-][0-9]{4})\] "
    rf"{_QUOTED} ([0-9]{{3}}) ([0-9]{{1,18}}|-)(?: {_QUOTED} {_QUOTED})?",
    re.DOTALL,
)
_REQUEST = re.compile(r"([A-Z]+) ([^ ]+)(?: ([^ ]+))?")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _parse_access(text: str) -> Line | None:
    """None: it is none. What the server did not know, it wrote as a dash."""
    found = _ACCESS.fullmatch(text)
    if found is None:
        return None
    client, ident, user, time, request, status, size, referer, agent = found.groups()
    request = _unescaped(request)
    parts = _REQUEST.fullmatch(request)
    method, path, protocol = parts.groups() if parts else (None, None, None)
    named = {
        "client": client,
        "ident": ident,
        "user": user,
        "protocol": protocol,
        "referer": referer and _unescaped(referer),
        "user_agent": agent and _unescaped(agent),
    }
    code = int(status)
    return Line(
        time_us=_access_time_us(time),
        format=COMMON if referer is None else COMBINED,
        service=None,
        host=None,
        level=ERROR if code >= 500 else WARNING if code >= 400 else INFO,
        message=request,
        fields={name: one for name, one in named.items() if one is not None and one != _NIL},
        method=method,
        path=path,
        status=code,
        bytes=None if size == _NIL else int(size),
    )


# Lines of one second have the same text.
@lru_cache(maxsize=1024)
def _access_time_us(text: str) -> int:
    try:
        month = _MONTHS.index(text[3:6]) + 1
    except ValueError:
        raise BrokenLine(f"no time: {text}") from None
    zone = f"{text[21:24]}:{text[24:]}"
    return _time_us(f"{text[7:11]}-{month:02}-{text[:2]}T{text[12:20]}{zone}")


# -- escapes -------------------------------------------------------------------------------------

_ESCAPE = re.compile(r"(?:\\x[0-9A-Fa-f]{2})+|(?:\\u[0-9A-Fa-f]{4})+|\\.", re.DOTALL)
_CONTROL = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}


def _unescaped(text: str) -> str:
    """What stands in quotes, in logfmt and in access lines: \\" and \\\\, control characters,
    \\u00e9, and bytes as \\xc3\\xa9. What is no character then is replaced."""
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    kind = escape[0][1]
    if kind == "x" and len(escape[0]) > 2:
        return bytes.fromhex(escape[0].replace("\\x", "")).decode(errors="replace")
    if kind == "u" and len(escape[0]) > 2:
        return bytes.fromhex(escape[0].replace("\\u", "")).decode("utf-16-be", errors="replace")
    return _CONTROL.get(kind, kind)
