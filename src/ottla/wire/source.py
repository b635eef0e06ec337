"""Python source that is being written, for the two codec compilers."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Source:
    """Lines of one function and the names that it refers to. Lives while it is compiled.

    Fields of fixed width that follow one another are joined into one `struct.Struct`. So a
    compiler does not write them at once but gathers them in `run`, and flushes that before it
    writes anything that depends on a position."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self._indent = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self._indent + text)

    @contextmanager
    def block(self, text: str) -> Iterator[None]:
        """A line that ends in a colon, and what stands under it."""
        self.line(text)
        self._indent += 1
        yield
        self._indent -= 1

    def struct_method(self, method: str, formats: str) -> str:
        """The name under which a bound method of `struct.Struct(">" + formats)` is called."""
        name = f"{method.removesuffix('_from')}_{formats.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + formats), method)
        return name

    def constant(self, name: str, value: object) -> str:
        """A value as source: as literal where that is short, else under a name."""
        if value is None or isinstance(value, bool | int | str):
            return repr(value)
        while self.names.setdefault(name, value) is not value:
            name += "_"
        return name

    def compile(self, function: str, filename: str) -> Any:
        exec(compile(self.text(), filename, "exec"), self.names)
        return self.names[function]

    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


def snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
