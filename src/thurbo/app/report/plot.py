"""The pictures of the report one by one, for notebooks: matplotlib axes that can be changed and saved.

Each function draws what the page of `thurbo.report` shows, from the same figures, and returns its axes. matplotlib is
imported when a picture is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import cleandoc
from typing import Any, TypeVar

import numpy as np

from thurbo.app.report.cards import Described, answer_groups, named, row_map, segment_records
from thurbo.app.report.pictures import layers, palette, segment_colours, strongest, training_course
from thurbo.app.report.wording import NOTHING, brief_of, missing_kinds, texts_of, with_answer
from thurbo.errors import ThurboError
from thurbo.table.io.frames import as_table
from thurbo.table.schema.naming import clipped
from thurbo.table.schema.routing import NOT_APPLICABLE

__all__ = ["calibration", "dependence", "history", "map", "missing", "segments", "units"]

_INK, _MUTED, _LINE, _ON, _OFF = "#1d2026", "#59616c", "#e4e1da", "#23468f", "#b4540f"


_SHARED = """
ax : matplotlib axes, optional
    Where to draw; by default a new figure.

Returns
-------
matplotlib axes
"""
Function = TypeVar("Function", bound=Callable[..., Any])


def _picture(function: Function) -> Function:
    """A function whose documentation ends with what all pictures share."""
    function.__doc__ = cleandoc(function.__doc__ or "") + _SHARED
    return function


def _axes(ax: Any, width: float, height: float) -> Any:
    """The given axes, or new ones of this size in inches."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ThurboError("plots need matplotlib; install it with: pip install 'thurbo[report]'") from error
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def _lines(ax: Any, heights: Sequence[float], labels: Sequence[str]) -> None:
    """Labels of lines at these heights, and shares below them."""
    ax.set_yticks(heights, labels, fontsize="small")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")


def _bare(ax: Any, title: str, *sides: str, grid: str = "") -> Any:
    """Axes with a title at the left, lines at these sides only, and a grid along "x" or "both"."""
    if grid:
        ax.grid(axis=grid, color=_LINE)
        ax.set_axisbelow(True)
    ax.set_title(title, loc="left", color=_INK, fontweight="bold")
    for side, line in ax.spines.items():
        line.set_visible(side in sides)
        line.set_color(_LINE)
    ax.tick_params(colors=_MUTED, length=0)
    return ax


@_picture
def map(
    model: Any, X: Any, colour_by: str | None = None, *, seed: int = 0, max_points: int = 3000, ax: Any = None
) -> Any:
    """The map of rows: similar rows are close together; coloured by segment, or by the answers to one question.

    Parameters
    ----------
    model : TBM
        A fitted model.
    X : table
        Rows with all columns of the fitted schema.
    colour_by : str, optional
        A question (or "question: label"); by default the segments.
    seed, max_points : int
        Random seed, and the maximum number of rows.
    """
    described = Described(model, X)
    chosen = None if colour_by is None else named(described.answers, [colour_by])[0]
    layout = row_map(described.points, described.segments.labels, [], {}, seed, max_points)
    points = np.column_stack([layout["x"], layout["y"]])
    ax = _axes(ax, 7.0, 6.0)
    if chosen is None:
        title, profiles = "Map of the rows", described.segment_records["profiles"]
        for each in layers(points.tolist(), layout["segment"], profiles):
            box = {"boxstyle": "circle", "facecolor": "white", "edgecolor": each["light"]}
            place, number = (each["x"], each["y"]), str(each["segment"])
            ax.annotate(number, place, ha="center", va="center", fontweight="bold", bbox=box, zorder=4)
        colours, code = segment_colours(profiles), np.asarray(layout["segment"], float)
        groups = [(p["segment"], _name(p, 44), colours[p["segment"]]) for p in profiles]
    else:
        codes, labels = answer_groups(chosen)
        title, code = brief_of(described.texts, chosen.name), codes[layout["rows"]]
        groups = [(k, *each) for k, each in enumerate(zip(labels, palette(len(labels)), strict=True))]
    ax.scatter(*points[np.isnan(code)].T, s=6, color=_LINE, linewidths=0)
    for own, label, colour in groups:
        ax.scatter(*points[code == own].T, s=10, color=colour["light"], linewidths=0, alpha=0.8, label=label)
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.legend(loc="upper left", bbox_to_anchor=(0, 0), frameon=False, fontsize="small", markerscale=2)
    return _bare(ax, title)


def _name(profile: Mapping[str, Any], most: int) -> str:
    """Number and name of a segment."""
    return f"{profile['segment']} {clipped(profile['name'], most)}"


@_picture
def segments(found: Any, schema: Any = None, *, ax: Any = None) -> Any:
    """The answers that set each segment apart: shares in the segment (dots) and among all rows (lines).

    Parameters
    ----------
    found : Segments
        The result of `model.segments`.
    schema : Schema, optional
        The schema of the model (`model.schema_`), for the texts of questions.
    """
    texts = {each["column"]: dict.fromkeys(("brief", "full"), each["column"]) for each in found.answers}
    texts = texts if schema is None else texts_of(schema)
    profiles = segment_records(found, texts, () if schema is None else schema.skips)["profiles"]
    colours, labels, height = segment_colours(profiles), dict[float, str](), 0.0
    ax = _axes(ax, 7.5, 0.26 * sum(len(p["lines"]) + 2 for p in profiles) + 0.6)
    for p in profiles:
        colour = colours[p["segment"]]["light"]
        ax.text(0, height, f"{_name(p, 46)}, {p['share']:.0%}", color=colour, fontweight="bold", va="center")
        height -= 1
        for line in (each for each in p["lines"] if each["is_share"]):
            ends = [line["overall"], line["value"]]
            ax.plot(ends, [height, height], color=colour, linewidth=2, solid_capstyle="butt")
            ax.plot(line["value"], height, "o", color=colour, markersize=6)
            ax.plot(line["overall"], height, "|", color=_INK, markersize=9)
            labels[height] = clipped(with_answer(line["brief"], line["answer"]), 60)
            height -= 1
        height -= 0.6
    ax.set(xlim=(-0.02, 1.02), ylim=(height, 0.8), xlabel="share of the answer; the tick is that of all rows")
    _lines(ax, list(labels), list(labels.values()))
    return _bare(ax, "Segments", grid="x")


@_picture
def units(model: Any, X: Any, unit: int | None = None, *, ax: Any = None) -> Any:
    """How answers differ between rows with a hidden unit on and off.

    Parameters
    ----------
    model : TBM
        A fitted model.
    X : table
        Rows with all columns of the fitted schema.
    unit : int, optional
        Number of the unit, from 1; by default that with the largest differences.
    """
    n_hidden = model.weights_.shape[1]
    if unit is not None and not 1 <= unit <= n_hidden:
        raise ThurboError(f"unit={unit!r} is not one of the {n_hidden} hidden units; they are numbered from 1")
    described = Described(model, X)
    records = described.units()
    if not records:
        raise ThurboError("the model has no hidden units; use plot.map or plot.dependence")
    chosen = max(records, key=lambda each: each["strength"])
    chosen = next((each for each in records if each["unit"] == unit), chosen)
    lines = [*chosen["up"], *chosen["down"]]
    ax = _axes(ax, 7.0, 0.36 * max(len(lines), 2) + 0.9)
    for k, line in enumerate(lines):
        ax.plot([line["share_off"], line["share_on"]], [-k, -k], color=_LINE, linewidth=2)
        ax.plot(line["share_off"], -k, "o", markerfacecolor="white", color=_OFF, label="off" if k == 0 else None)
        ax.plot(line["share_on"], -k, "o", color=_ON, label="on" if k == 0 else None)
    labels = [clipped(with_answer(line["text"], line["statement"]), 56) for line in lines]
    _lines(ax, [-k for k in range(len(lines))], labels)
    ax.set(xlim=(-0.02, 1.02))
    if lines:
        ax.legend(frameon=False, loc="best")
    return _bare(ax, f"Trait {chosen['unit']}, on for {chosen['share']:.0%}", "bottom")


@_picture
def history(model: Any, *, ax: Any = None) -> Any:
    """The objective during training, and on held-out rows if there were any.

    Parameters
    ----------
    model : TBM
        A fitted model.
    """
    ax = _axes(ax, 6.0, 3.2)
    looks = ((_ON, "training rows"), (_OFF, "held-out rows"))
    for known, (colour, label) in zip(training_course(model.history_), looks, strict=True):
        if known:
            ax.plot(*zip(*known, strict=True), color=colour, label=label)
    ax.set(xlabel="epoch", ylabel="objective (nats per answer)")
    if ax.lines:
        ax.legend(frameon=False)
    return _bare(ax, "Training", "left", "bottom")


@_picture
def calibration(found: Any, *, ax: Any = None) -> Any:
    """Predicted probability of the most probable label against the share of correct predictions.

    Parameters
    ----------
    found : Evaluation
        The result of `model.evaluate` or `tb.evaluate`.
    """
    ax = _axes(ax, 4.2, 4.2)
    bins = found.calibration
    ax.plot([0, 1], [0, 1], color=_MUTED, linestyle="--", linewidth=1)
    n, *place = (np.asarray([each[key] for each in bins]) for key in ("n", "predicted", "observed"))
    ax.scatter(*place, s=20 + 160 * n / n.max(initial=1), color=_ON, alpha=0.8, zorder=3)
    ax.set(xlim=(0, 1.03), ylim=(0, 1.03), aspect="equal", xlabel="predicted probability", ylabel="share correct")
    return _bare(ax, "Calibration", grid="both")


@_picture
def dependence(found: Any, *, most: int = 40, ax: Any = None) -> Any:
    """A heat map: how much of the uncertainty about a question (row) the answer to another one (column) removes.

    Parameters
    ----------
    found : Dependence
        The result of `model.dependence`.
    most : int, default=40
        Number of questions, those with the strongest relations.
    """
    kept, share = strongest(found.names, found.share, most)
    n, texts = len(kept), dict(zip(found.names, found.texts, strict=True))
    ax = _axes(ax, 0.24 * n + 3.4, 0.24 * n + 1.6)
    image = ax.imshow(share, cmap="Blues", vmin=0)
    ax.set_yticks(range(n), [f"{texts[name]}  {k + 1}" for k, name in enumerate(kept)], fontsize="small")
    ax.set_xticks(range(n), [str(k + 1) for k in range(n)], fontsize="x-small")
    ax.xaxis.tick_top()
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.6, format=lambda value, _: f"{value:.0%}")
    bar.outline.set_visible(False)
    return _bare(ax, "Share of uncertainty removed")


@_picture
def missing(schema: Any, X: Any, *, ax: Any = None) -> Any:
    """Missing answers of each question by reason: no answer, declared values such as "refused", and not asked.

    Parameters
    ----------
    schema : Schema
        The schema of the table, for example `model.schema_`.
    X : table
        The table.
    """
    shares, texts = missing_kinds(schema, as_table(X)), texts_of(schema)
    names = [name for name in schema.modelled if shares.get(name)]
    order = {NOTHING: 0, NOT_APPLICABLE: 2}
    kinds = sorted({kind for name in names for kind in shares[name]}, key=lambda kind: (order.get(kind, 1), kind))
    ax = _axes(ax, 7.0, 0.26 * max(len(names), 2) + 1.0)
    left = np.zeros(len(names))
    for kind, colour in zip(kinds, palette(max(len(kinds), 2)), strict=False):
        width = np.asarray([shares[name].get(kind, 0.0) for name in names])
        shade = _LINE if kind == NOT_APPLICABLE else colour["light"]
        ax.barh(range(len(names)), width, left=left, color=shade, label=kind, height=0.7)
        left += width
    _lines(ax, range(len(names)), [texts[name]["brief"] for name in names])
    ax.invert_yaxis()
    ax.set(xlim=(0, 1))
    if names:
        ax.legend(frameon=False, fontsize="small")
    return _bare(ax, "Missing answers", "bottom")
