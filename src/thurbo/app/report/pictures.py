"""Pictures of the report: what page and notebook draw alike (colours, places, curves), and shapes as SVG.

Shapes are path data, so that they follow the colours of the page and stay small; `plot` draws with matplotlib.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import cycle
from typing import Any

import numpy as np

from thurbo.app.report.wording import FloatArray

_COLOURS = tomllib.loads(files("thurbo.app.report").joinpath("colours.toml").read_text("utf-8"))
MAP_WIDTH = 1000
_MARGIN = 24
_LABEL = 44  # least distance of two labels
HEAT_LEVELS = 8
MOST_IN_HEAT_MAP = 60


def palette(n: int) -> list[dict[str, str]]:
    """Colours of n ordered groups, for light and dark pages."""
    shares = np.linspace(0, 1, n) if n > 1 else np.ones(n)
    return [{mode: _blend(own, share) for mode, own in _COLOURS["levels"].items()} for share in shares.tolist()]


def segment_colours(profiles: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, str]]:
    """The colour of each segment by its number."""
    colours = cycle(_COLOURS["segments"])
    by_rule = {each["segment"] for each in profiles if each["few_answers"] or each["not_asked"]}
    numbers = [each["segment"] for each in profiles]
    return {number: _COLOURS["few"] if number in by_rule else next(colours) for number in numbers}


def _blend(anchors: Sequence[str], share: float) -> str:
    """The colour at this share of the way from the first anchor to the last one."""
    place = (len(anchors) - 1) * share
    channels = zip(*(bytes.fromhex(anchor[1:]) for anchor in anchors), strict=True)
    return "#" + "".join(f"{round(np.interp(place, range(len(anchors)), own)):02x}" for own in channels)


def _frame(ys: Sequence[float]) -> tuple[int, float, int]:
    """Inner width, middle and height of a map of points with these heights."""
    inner = MAP_WIDTH - 2 * _MARGIN
    span = (max(ys) - min(ys)) if ys else 1.0
    middle = (max(ys) + min(ys)) / 2 if ys else 0.0
    return inner, middle, round(max(span, 0.3) * inner + 2 * _MARGIN)


def places(layout: Mapping[str, Any]) -> tuple[list[tuple[int, int]], int]:
    """Whole-number pixel positions of the map's points, and the height of the picture."""
    inner, middle, height = _frame(layout["y"])
    return [
        (round(MAP_WIDTH / 2 + x * inner), round(height / 2 - (y - middle) * inner))
        for x, y in zip(layout["x"], layout["y"], strict=True)
    ], height


def dots(points: Iterable[tuple[int, int]]) -> str:
    """Path data with a dot at each point: a line of length zero with round caps is drawn as a disc."""
    return "".join(f"M{x} {y}h0" for x, y in points)


def layers(
    points: Sequence[tuple[float, float]], segment: Sequence[int], profiles: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """For each segment on a map: its points, its colours, and the place of its label."""
    colours, found = segment_colours(profiles), []
    for number in (profile["segment"] for profile in profiles):
        own = [p for p, each in zip(points, segment, strict=True) if each == number]
        if own:
            middle = np.median(np.asarray(own), axis=0)
            # The point nearest to the middle, so that the label stands where the segment is.
            x, y = min(own, key=lambda p: (p[0] - middle[0]) ** 2 + (p[1] - middle[1]) ** 2)
            found.append({"segment": number, "points": own, "x": x, "y": y, **colours[number]})
    return found


def map_picture(layout: Mapping[str, Any], segments: Mapping[str, Any]) -> dict[str, Any]:
    """The map: one layer of dots and one label for each segment, and areas coloured by answers."""
    points, height = places(layout)
    found = layers(points, layout["segment"], segments["profiles"])
    for place, layer in enumerate(found):
        layer["path"] = dots(layer["points"])
        for other in found[:place]:  # labels that do not cover each other
            if abs(layer["x"] - other["x"]) < _LABEL and abs(layer["y"] - other["y"]) < _LABEL:
                layer["y"] = other["y"] + _LABEL
    return {
        "width": MAP_WIDTH,
        "height": height,
        "size": round(max(5.0, min(14.0, 320 / max(len(points), 1) ** 0.5)), 1),
        "points": points,
        "layers": found,
        "panels": _panels(layout),
    }


def _panels(layout: Mapping[str, Any]) -> list[dict[str, Any]]:
    """For each colouring of the map: squares by their most common answer, or by the mean of ordered answers."""
    inner, middle, height = _frame(layout["y"])
    side = inner / layout["n_across"]
    panels = []
    for number, colouring in enumerate(layout["colourings"]):
        n_labels = len(colouring["labels"])
        colours, squares = palette(n_labels), []
        for (column, row, n), shares in zip(layout["areas"], colouring["shares"], strict=True):
            left = MAP_WIDTH / 2 + (column / layout["n_across"] - 0.5) * inner
            top = height / 2 - ((row + 1) / layout["n_across"] - 0.5 - middle) * inner
            square = {"x": round(left, 1), "y": round(top, 1), "n": n, "light": None, "words": ""}
            if shares is not None:
                best = int(np.argmax(shares))
                shade = sum(k * share for k, share in enumerate(shares)) if colouring["ordered"] else float(best)
                shade = shade / (n_labels - 1) if n_labels > 1 else 1.0
                square |= {key: _blend([each[key] for each in colours], shade) for key in ("light", "dark")}
                order = [k for k in sorted(range(n_labels), key=lambda k: -shares[k])[:3] if shares[k] > 0]
                square["words"] = ", ".join(f"{colouring['labels'][k]} {100 * shares[k]:.0f} %" for k in order)
            squares.append(square)
        counted = zip(colouring["labels"], colouring["counts"], colours, strict=True)
        legend = [{"label": label, "count": count, **colour} for label, count, colour in counted]
        about = {key: colouring[key] for key in ("column", "n_missing", "n_not_asked")}
        panels.append({**about, "number": number, "side": round(side - 1, 1), "squares": squares, "legend": legend})
    return panels


def strongest(names: Sequence[str], share: FloatArray, most: int) -> tuple[list[str], FloatArray]:
    """The questions with the strongest relations in questionnaire order, and the shares between them."""
    best = np.nan_to_num((share + share.T) / 2).max(axis=1, initial=0.0)
    kept = np.sort(np.argsort(-best, kind="stable")[:most])
    return [names[k] for k in kept], share[np.ix_(kept, kept)]


def heat_map(dependence: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Squares of the shares of uncertainty, in a few shades, for the questions with the strongest relations."""
    if dependence is None:
        return None
    names, share = strongest(dependence["names"], np.asarray(dependence["share"], float), MOST_IN_HEAT_MAP)
    largest = float(np.nanmax(share)) if np.isfinite(share).any() else 0.0
    # Square roots, so that weak relations can be told from none.
    level = np.ceil(HEAT_LEVELS * np.sqrt(np.nan_to_num(share) / (largest or 1.0))).astype(int).clip(0, HEAT_LEVELS)
    levels = range(1, HEAT_LEVELS + 1)
    squares = [np.argwhere(level == own).tolist() for own in levels]
    return {
        "names": names,
        "paths": ["".join(f"M{c}.04 {r}.04h.92v.92h-.92z" for r, c in own) for own in squares],
        "opacity": [round(0.1 + 0.9 * own / HEAT_LEVELS, 3) for own in levels],
        "largest": largest,
        "n_all": len(dependence["names"]),
        "share": [[None if np.isnan(v) else round(100 * v) for v in row] for row in share],
    }


def item_picture(items: Mapping[str, Any], most_labels: int = 24) -> dict[str, Any]:
    """The map of a catalogue, with the names of the most frequent items where there is room."""
    points, height = places(items)
    order = sorted(range(len(points)), key=lambda k: -items["n_ratings"][k])
    labels, taken = list[dict[str, Any]](), list[tuple[int, int, int]]()
    for k in order:
        (x, y), text = points[k], items["items"][k]
        width = 11 * min(len(text), 26)
        # Labels are 28 high, and begin at their point.
        is_free = not any(x < right and left < x + width and abs(y - at) < 28 for left, right, at in taken)
        if x + width < MAP_WIDTH and is_free and len(labels) < most_labels:
            taken.append((x, x + width, y))
            labels.append({"x": x + 9, "y": y + 6, "text": text if len(text) <= 26 else text[:24] + "…"})
    return {"width": MAP_WIDTH, "height": height, "path": dots(points), "points": points, "labels": labels}


def training_course(history: Sequence[Mapping[str, Any]]) -> tuple[list[tuple[int, float]], list[tuple[int, float]]]:
    """(epoch, value) of the objective, and of held-out rows, where they are known."""
    objective, held_out = (
        [(each["epoch"], each[key]) for each in history if each.get(key) is not None and np.isfinite(each[key])]
        for key in ("objective", "held_out")
    )
    return objective, held_out


def curve(history: Sequence[Mapping[str, Any]], width: int = 720, height: int = 160) -> dict[str, Any] | None:
    """Training curves as polylines in a box of this size, on one scale; None without at least two values."""
    known, held_out = training_course(history)
    if len(known) < 2:
        return None
    first, last = known[0][0], known[-1][0]
    values = [value for _, value in (*known, *held_out)]
    low, high = min(values), max(values)
    across, tall = (last - first) or 1, (high - low) or 1.0
    corners = [
        [f"{width * (x - first) / across:.1f},{height * (1 - (y - low) / tall):.1f}" for x, y in points]
        for points in (known, held_out)
    ]
    box = {"width": width, "height": height, "low": low, "high": high, "first": first, "last": last}
    return {
        **box,
        "points": " ".join(corners[0]),
        "held_out": " ".join(corners[1]) if len(held_out) > 1 else "",
        "best": max((value for _, value in held_out), default=None),
        "end": known[-1][1],
    }
