"""The summary as one HTML page: inline CSS, inline SVG, no scripts, no external files.

Figures are SVG paths, so they follow the light or dark colours of the page and stay small.
All text from the user is escaped by Jinja.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from thurbo.errors import ThurboError
from thurbo.report.missing import missing_words
from thurbo.report.times import time_words
from thurbo.report.units import percent
from thurbo.schema.question_texts import shortened

# From the lowest level to the highest, for light and dark pages; distinguishable with colour blindness.
_LIGHT = ("#dd9a2b", "#d8694a", "#b0447c", "#69409a", "#23468f")
_DARK = ("#f2c879", "#ee9a77", "#dc84b4", "#ab92e6", "#7fb0f5")
_MAP_WIDTH = 1000
_MARGIN = 24
# Limits of the page: units shown, weights per unit, and table rows before it scrolls.
_MOST_UNITS = 24
_MOST_WEIGHTS = 40
_MOST_LINES = 40


def render(summary: Mapping[str, Any]) -> str:
    """Render a summary as one self-contained HTML page.

    Parameters
    ----------
    summary : mapping
        The result of `thurbo.report.summary`.

    Returns
    -------
    str
        The HTML text.

    Raises
    ------
    ThurboError
        If jinja2 is not installed.
    """
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ThurboError("the report needs jinja2; install it with: pip install 'thurbo[report]'") from error

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("thurbo.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    plain = {"percent": percent, "number": number, "thousands": thousands, "signed": signed, "missing": missing_words}
    plain["duration"] = time_words
    texts = summary["texts"]
    environment.filters.update(
        plain,
        short=lambda name: texts.get(name, {"short": shortened(str(name))})["short"],
        full=lambda name: texts.get(name, {"full": name})["full"],
    )
    # The units with the largest differences, if the model has many; in the same order.
    strongest = sorted(summary["units"], key=lambda unit: -unit["strength"])[:_MOST_UNITS]
    units = [unit for unit in summary["units"] if unit in strongest]
    return environment.get_template("page.html.j2").render(
        s=summary,
        units=units,
        weights=_largest_weights(units),
        most_lines=_MOST_LINES,
        map=_map_picture(summary["map"]),
        thumbnails=_thumbnails(summary["map"], units),
        curve=_curve(summary["history"]),
        swatches=palette,
        widest=_widest_weight(units),
    )


def number(value: float | None, digits: int = 2) -> str:
    """A number with fixed decimals and a typographic minus sign."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "\u2212")


def signed(value: float | None, digits: int = 2) -> str:
    """A number that always shows its sign."""
    return "–" if value is None else f"{value:+.{digits}f}".replace("-", "\u2212")


def thousands(value: int) -> str:
    """A count with a comma between thousands."""
    return f"{value:,}"


def palette(n: int) -> list[dict[str, str]]:
    """Colours of n ordered groups, for light and dark pages."""
    return [{"light": _blend(_LIGHT, i, n), "dark": _blend(_DARK, i, n)} for i in range(n)]


def _blend(anchors: Sequence[str], i: int, n: int) -> str:
    place = (len(anchors) - 1) * (i / (n - 1) if n > 1 else 1.0)
    low = min(int(place), len(anchors) - 2)
    share = place - low
    channels = [
        round((1 - share) * int(anchors[low][c : c + 2], 16) + share * int(anchors[low + 1][c : c + 2], 16))
        for c in (1, 3, 5)
    ]
    return "#" + "".join(f"{channel:02x}" for channel in channels)


def _points(layout: Mapping[str, Any]) -> tuple[list[tuple[int, int]], int]:
    """Whole-number pixel positions of the map's points, and the height of the picture."""
    xs, ys = layout["x"], layout["y"]
    span = (max(ys) - min(ys)) if ys else 1.0
    inner = _MAP_WIDTH - 2 * _MARGIN
    height = round(max(span, 0.3) * inner + 2 * _MARGIN)
    middle = (max(ys) + min(ys)) / 2 if ys else 0.0
    return [
        (round(_MAP_WIDTH / 2 + x * inner), round(height / 2 - (y - middle) * inner))
        for x, y in zip(xs, ys, strict=True)
    ], height


def _dots(points: Iterable[tuple[int, int]]) -> str:
    """Path data with a dot at each point: a line of length zero with round caps is drawn as a disc."""
    return "".join(f"M{x} {y}h0" for x, y in points)


def _map_picture(layout: Mapping[str, Any]) -> dict[str, Any]:
    points, height = _points(layout)
    panels = []
    for colouring in layout["colourings"]:
        groups = colouring["groups"]
        colours = palette(len(colouring["labels"]))
        layers = [
            {
                "label": label,
                "count": sum(group == code for group in groups),
                "path": _dots(p for p, group in zip(points, groups, strict=True) if group == code),
                **colours[code],
            }
            for code, label in enumerate(colouring["labels"])
        ]
        missing = [p for p, group in zip(points, groups, strict=True) if group is None]
        panels.append(
            {
                "column": colouring["column"],
                "layers": layers,
                "missing": _dots(missing),
                "n_missing": len(missing) - colouring["n_not_asked"],
                "n_not_asked": colouring["n_not_asked"],
            }
        )
    size = max(5.0, min(16.0, 320 / max(len(points), 1) ** 0.5))
    return {
        "width": _MAP_WIDTH,
        "height": height,
        "panels": panels,
        "all": _dots(points),
        "size": round(size, 1),
    }


def _thumbnails(layout: Mapping[str, Any], units: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """For each hidden unit, the points of the map where it is on."""
    points, _ = _points(layout)
    return {
        unit["unit"]: _dots(p for p, on in zip(points, layout["on"], strict=True) if on[unit["unit"] - 1] >= 0.5)
        for unit in units
    }


def _curve(history: Sequence[Mapping[str, Any]], width: int = 720, height: int = 200) -> dict[str, Any] | None:
    """Training curves as polylines in a box of this size, on one scale; None without at least two values."""
    known = [(entry["epoch"], entry["objective"]) for entry in history if entry["objective"] is not None]
    if len(known) < 2:
        return None
    held_out = [(entry["epoch"], entry["held_out"]) for entry in history if entry["held_out"] is not None]
    first, last = known[0][0], known[-1][0]
    values = [value for _, value in (*known, *held_out)]
    low, high = min(values), max(values)
    across, tall = (last - first) or 1, (high - low) or 1.0

    def corners(points: Sequence[tuple[int, float]]) -> str:
        return " ".join(
            f"{width * (epoch - first) / across:.1f},{height * (1 - (value - low) / tall):.1f}"
            for epoch, value in points
        )

    return {
        "points": corners(known),
        "held_out": corners(held_out) if len(held_out) > 1 else "",
        "best": max((value for _, value in held_out), default=None),
        "width": width,
        "height": height,
        "low": low,
        "high": high,
        "first": first,
        "last": last,
        "end": known[-1][1],
    }


def _largest_weights(units: Sequence[Mapping[str, Any]]) -> dict[int, list[Mapping[str, Any]]]:
    """The largest weights of each unit by absolute value, from highest to lowest."""
    return {
        unit["unit"]: sorted(
            sorted(unit["weights"], key=lambda w: -abs(w["weight"]))[:_MOST_WEIGHTS], key=lambda w: -w["weight"]
        )
        for unit in units
    }


def _widest_weight(units: Sequence[Mapping[str, Any]]) -> float:
    """The largest absolute weight of all units, so that all bars have one scale."""
    return max((abs(w["weight"]) for unit in units for w in unit["weights"]), default=0.0) or 1.0
