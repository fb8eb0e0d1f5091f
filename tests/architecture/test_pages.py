"""The HTML pages that commands write are readable: texts have a contrast of 4.5 or more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MIN_CONTRAST = 4.5
"""WCAG 2.2, success criterion 1.4.3, for text of normal size."""
CANVAS = {"light": "#ffffff", "dark": "#1c1b22"}
"""The browser's own background; Firefox has the lighter one of the dark ones."""
PAGES = {
    "neff/profile/page/style.css": ("ink", "dim", "mark", "path", "good", "wait-ink"),
    "hlo_tools/graph/viewer.html": ("ink", "dim", "mark"),
    "hlo_tools/diff/page.py": ("dim",),
    "hlo_tools/stats/page.py": ("dim",),
    "hlo_tools/cli/sharding.py": ("dim",),
}
"""Colors of texts of each page, by the name of their variable."""
BACKGROUNDS = ("page", "panel", "lane")


def variables(text: str) -> dict[str, dict[str, str]]:
    """Return the colors of the light and of the dark design of a style sheet."""
    rules = re.findall(r"(:root(?:\.dark)?) \{([^}]*)\}", text)
    assert len(rules) == 2, "a page has a light and a dark design"
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", declarations))
        for _, declarations in rules
    )
    return {"light": light, "dark": light | dark}


def luminance(color: str) -> float:
    """Return the relative luminance of ``#rgb`` or ``#rrggbb`` (WCAG 2.2)."""
    digits = color[1:] if len(color) == 7 else "".join(2 * digit for digit in color[1:])
    shares = [int(digits[start : start + 2], 16) / 255 for start in (0, 2, 4)]
    red, green, blue = (
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colors: 1 to 21."""
    darker, brighter = sorted((luminance(first), luminance(second)))
    return (brighter + 0.05) / (darker + 0.05)


def test_contrast_of_known_colors() -> None:
    assert contrast("#000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#fff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("design", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_texts_are_readable(page: str, design: str) -> None:
    colors = variables((ROOT / page).read_text())[design]
    backgrounds = {name: colors[name] for name in BACKGROUNDS if name in colors}
    for text in PAGES[page]:
        for name, background in (backgrounds or {"canvas": CANVAS[design]}).items():
            ratio = contrast(colors[text], background)
            assert ratio >= MIN_CONTRAST, f"--{text} on --{name}: {ratio:.2f}"


def test_the_comparison_tells_better_from_worse() -> None:
    style = (ROOT / "neff/profile/page/style.css").read_text()
    tables = (ROOT / "neff/profile/page/tables.js").read_text()
    for kind in ("better", "worse"):
        assert f"td.bar.{kind} {{ --heat: var(--{kind}); }}" in style
        assert style.count(f"--{kind}: ") == 2, "a light and a dark color"
        assert f'"{kind}"' in tables
