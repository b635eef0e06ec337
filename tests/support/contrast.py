"""Whether texts of a page can be read: how much they differ from what is behind them."""

from __future__ import annotations

import json

from tests.support.browser import Browser

_LOWEST = """
((selectors) => {
  const light = (colour) => {
    const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => {
      const value = part / 255;
      return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = getComputedStyle(one).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") return colour;
    }
  };
  return Math.min(...[...document.querySelectorAll(selectors)]
    .filter((element) => element.textContent.trim()).map((element) => {
      const pair = [light(getComputedStyle(element).color), light(behind(element))].sort();
      return (pair[1] + 0.05) / (pair[0] + 0.05);
    }));
})
"""


def lowest_contrast(browser: Browser, selectors: str) -> float:
    """Of the texts of these elements, as WCAG has it: 4.5 is enough."""
    lowest: float = browser.run(f"{_LOWEST}({json.dumps(selectors)})")
    return lowest
