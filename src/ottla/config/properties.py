"""Java's `.properties` format, in which Kafka keeps `server.properties`."""

from __future__ import annotations

from collections.abc import Iterator

_BLANKS = " \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Properties(dict[str, str]):
    """The settings of a file, and where each stands. Of a name that is there twice the last one
    counts, as in Java."""

    def __init__(self, file_name: str) -> None:
        super().__init__()
        self.file_name = file_name
        self.lines: dict[str, int] = {}

    def place_of(self, name: str) -> str:
        """`FILE:LINE`, for a message."""
        return f"{self.file_name}:{self.lines[name]}"


class PropertiesError(ValueError):
    """The text is not in the format. The message begins with `FILE:LINE:`."""


def parse_properties(data: bytes | str, file_name: str = "server.properties") -> Properties:
    """Bytes are taken as UTF-8, else as Latin-1 (which is what Java takes them for)."""
    found = Properties(file_name)
    for number, line in _logical_lines(_decode(data)):
        place = f"{file_name}:{number}"
        key_end = _find_unescaped(line, _BLANKS + "=:")
        rest = line[key_end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        name = _unescape(line[:key_end], place)
        if not name:
            raise PropertiesError(f"{place}: there is no name before {line[:20]!r}")
        found[name] = _unescape(rest, place)
        found.lines[name] = number
    return found


def _decode(data: bytes | str) -> str:
    if isinstance(data, str):
        return data
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with a backslash at the end joined with the next, blank ones and comments left out;
    each with the number of its first."""
    pending: str | None = None
    started = 0
    # Not splitlines(): that also splits at characters which are part of a value in Java.
    natural = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(natural, start=1):
        stripped = line.lstrip(_BLANKS)
        if pending is None:
            if not stripped or stripped[0] in "#!":
                continue
            started = number
        logical = (pending or "") + stripped
        backslashes = len(stripped) - len(stripped.rstrip("\\"))
        if backslashes % 2:
            pending = logical[:-1]
            continue
        pending = None
        yield started, logical
    if pending is not None:
        yield started, pending


def _find_unescaped(line: str, wanted: str) -> int:
    position = 0
    while position < len(line):
        if line[position] == "\\":
            position += 2
        elif line[position] in wanted:
            return position
        else:
            position += 1
    return len(line)


def _unescape(text: str, place: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\":
            out.append(char)
            continue
        escape = text[position : position + 1]
        position += 1
        if escape == "u":
            digits = text[position : position + 4]
            if len(digits) < 4 or not all(c in "0123456789abcdefABCDEF" for c in digits):
                raise PropertiesError(f"{place}: \\u{digits} is not followed by four hex digits")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escape, escape))
    joined = "".join(out)
    # Two \u escapes may be the halves of one character outside of the basic plane.
    return joined.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
