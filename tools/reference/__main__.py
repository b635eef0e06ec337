"""Writes the pages."""

from __future__ import annotations

from tools.reference.pages import DOCS, pages


def main() -> None:
    for name, text in pages().items():
        (DOCS / name).write_text(text)
        print(f"docs/{name}")


if __name__ == "__main__":
    main()
