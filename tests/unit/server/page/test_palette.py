"""The colours of the page: what is to be read can be read, in the light and in the dark (WCAG 2.2, AA)."""

import re
from pathlib import Path

import pytest

from pykubelet.server import page

CSS = (Path(page.__file__).parent / "static" / "page.css").read_text()
_LIGHT, _, _DARK = CSS.partition("prefers-color-scheme: dark")

TEXT = [
    *((text, ground) for text in ("text", "quiet", "accent") for ground in ("ground", "surface", "sunken")),
    *((tone, f"{tone}-soft") for tone in ("good", "warn", "bad", "quiet", "accent")),
    ("bad", "ground"),
    ("bad", "surface"),
    ("on-accent", "accent"),
    ("terminal-text", "terminal"),
    *((f"ansi-{number}", "terminal") for number in range(1, 16) if number != 8),
]
SHAPES = [
    *((tone, "surface") for tone in ("good", "warn", "bad", "control", "path")),
    ("path", "sunken"),
    ("control", "ground"),
    ("accent", "ground"),
]


def palette(is_dark: bool) -> dict[str, str]:
    found = dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", _LIGHT))
    if is_dark:
        found |= dict(re.findall(r"--([a-z0-9-]+): (#[0-9a-f]{6});", _DARK))
    return found


def luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_text_stands_out(is_dark: bool) -> None:
    colours = palette(is_dark)
    for text, ground in TEXT:
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_what_means_something_without_words_stands_out(is_dark: bool) -> None:
    colours = palette(is_dark)
    for shape, ground in SHAPES:
        assert contrast(colours[shape], colours[ground]) >= 3.0, (shape, ground)


def test_no_colour_is_used_that_is_not_in_the_palette() -> None:
    rules = re.sub(r"--[a-z0-9-]+: #[0-9a-f]{6};", "", CSS)
    assert re.findall(r"#[0-9a-fA-F]{3,8}\b", rules) == []


def test_black_is_black_and_white_is_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
