"""The pictures of the report one by one, for notebooks: matplotlib axes that can be changed and saved.

Each function draws what the page of `thurbo.report` shows, from the same figures, and returns its axes. matplotlib is
imported when a picture is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.special import expit

from thurbo.app.report.cards import describe_units, find_segments, placed, segment_records
from thurbo.app.report.maps import answer_groups, named, row_map
from thurbo.app.report.pictures import label_place, palette, relative_sizes, segment_colours, training_course
from thurbo.app.report.wording import (
    NOTHING,
    brief_of,
    briefs,
    clipped,
    missing_kinds,
    read_answers,
    texts_of,
    with_answer,
)
from thurbo.errors import ThurboError
from thurbo.predict.dependence import ordered
from thurbo.table.io.frames import as_table
from thurbo.table.schema.routing import NOT_APPLICABLE

__all__ = ["calibration", "dependence", "history", "map", "missing", "segments", "units"]

_INK, _MUTED, _LINE, _ON, _OFF = "#1d2026", "#59616c", "#e4e1da", "#23468f", "#b4540f"


def _axes(ax: Any, width: float, height: float) -> Any:
    """The given axes, or new ones of this size in inches."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ModuleNotFoundError as error:
        raise ThurboError("plots need matplotlib; install it with: pip install 'thurbo[report]'") from error
    return plt.subplots(figsize=(width, height), layout="constrained")[1]


def _bare(ax: Any, title: str, *sides: str) -> Any:
    """Axes with a title at the left, and lines at these sides only."""
    ax.set_title(title, loc="left", color=_INK, fontweight="bold")
    for side, line in ax.spines.items():
        line.set_visible(side in sides)
        line.set_color(_LINE)
    ax.tick_params(colors=_MUTED, length=0)
    return ax


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
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib axes
    """
    table = as_table(X)
    answers = read_answers(model.schema_, table)
    texts = texts_of(model.schema_, answers)
    chosen = None if colour_by is None else named(answers, [colour_by])[0]
    where = placed(model, table)
    found = find_segments(model.schema_, where)
    layout = row_map(where.points, found.labels, [], {}, seed, max_points)
    x, y, rows = (np.asarray(layout[key]) for key in ("x", "y", "rows"))
    ax = _axes(ax, 7.0, 6.0)
    if chosen is None:
        profiles = segment_records(found, texts)["profiles"]
        colours = segment_colours(profiles)
        groups = [(f"{p['segment']} {clipped(p['name'], 44)}", colours[p["segment"]]["light"]) for p in profiles]
        code = np.asarray(layout["segment"], float) - 1
        for p in profiles:
            own = np.flatnonzero(code == p["segment"] - 1)
            if len(own):
                place = label_place([(x[k], y[k]) for k in own])
                box = {"boxstyle": "circle", "facecolor": "white", "edgecolor": colours[p["segment"]]["light"]}
                ax.annotate(str(p["segment"]), place, ha="center", va="center", fontweight="bold", bbox=box, zorder=4)
        title = "Map of the rows"
    else:
        codes, labels = answer_groups(chosen)
        code = codes[rows]
        groups = [(label, each["light"]) for label, each in zip(labels, palette(len(labels)), strict=True)]
        title = brief_of(texts, chosen.name)
    ax.scatter(x[np.isnan(code)], y[np.isnan(code)], s=6, color=_LINE, linewidths=0)
    for k, (label, colour) in enumerate(groups):
        ax.scatter(x[code == k], y[code == k], s=10, color=colour, linewidths=0, alpha=0.8, label=label)
    ax.set(xticks=[], yticks=[], aspect="equal")
    ax.legend(loc="upper left", bbox_to_anchor=(0, 0), frameon=False, fontsize="small", markerscale=2)
    return _bare(ax, title)


def segments(found: Any, schema: Any = None, *, ax: Any = None) -> Any:
    """The answers that set each segment apart: shares in the segment (dots) and among all rows (lines).

    Parameters
    ----------
    found : Segments
        The result of `model.segments`.
    schema : Schema, optional
        The schema of the model (`model.schema_`), for the texts of questions.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib axes
    """
    names = list(dict.fromkeys(record["column"] for record in found.answers))
    texts = texts_of(schema) if schema is not None else {name: {"brief": name, "short": name} for name in names}
    profiles = segment_records(found, texts)["profiles"]
    colours, labels, height = segment_colours(profiles), list[tuple[float, str]](), 0.0
    n_lines = sum(len(p["lines"]) + 2 for p in profiles)
    ax = _axes(ax, 7.5, 0.26 * n_lines + 0.6)
    for p in profiles:
        colour = colours[p["segment"]]["light"]
        ax.text(
            0,
            height,
            f"{p['segment']} {clipped(p['name'], 46)}, {p['share']:.0%}",
            color=colour,
            fontweight="bold",
            va="center",
        )
        height -= 1
        for line in (each for each in p["lines"] if each["is_share"]):
            ax.plot(
                [line["overall"], line["value"]], [height, height], color=colour, linewidth=2, solid_capstyle="butt"
            )
            ax.plot(line["value"], height, "o", color=colour, markersize=6)
            ax.plot(line["overall"], height, "|", color=_INK, markersize=9)
            labels.append((height, clipped(with_answer(line["brief"], line["answer"]), 60)))
            height -= 1
        height -= 0.6
    ax.set(xlim=(-0.02, 1.02), ylim=(height, 0.8), xlabel="share of the answer; the tick is that of all rows")
    ax.set_yticks([place for place, _ in labels], [text for _, text in labels], fontsize="small")
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    ax.grid(axis="x", color=_LINE)
    ax.set_axisbelow(True)
    return _bare(ax, "Segments")


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
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib axes
    """
    n_hidden = model.weights_.shape[1]
    if unit is not None and not 1 <= unit <= n_hidden:
        raise ThurboError(f"unit={unit!r} is not one of the {n_hidden} hidden units; they are numbered from 1")
    answers = read_answers(model.schema_, as_table(X))
    texts = texts_of(model.schema_, answers)
    weight = model.schema_.weights(as_table(X), missing_columns="ignore")
    on = expit(np.asarray(model.transform(X, output="log_odds"), float)[:, :n_hidden])
    rows = None if weight is None else weight / weight.mean()
    records = describe_units(answers, on, np.asarray(model.weights_, float), model.site_names_, rows=rows, texts=texts)
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
    words = [clipped(f"{brief_of(texts, line['column'])}: {line['statement']}", 56) for line in lines]
    ax.set_yticks([-k for k in range(len(lines))], words, fontsize="small")
    ax.set(xlim=(-0.02, 1.02))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    if lines:
        ax.legend(frameon=False, loc="best")
    return _bare(ax, f"Trait {chosen['unit']}, on for {chosen['share']:.0%}", "bottom")


def history(model: Any, *, ax: Any = None) -> Any:
    """The objective during training, and on held-out rows if there were any.

    Parameters
    ----------
    model : TBM
        A fitted model.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib axes
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


def calibration(found: Any, *, ax: Any = None) -> Any:
    """Predicted probability of the most probable label against the share of correct predictions.

    Parameters
    ----------
    found : Evaluation
        The result of `model.evaluate` or `tb.evaluate`.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib axes
    """
    ax = _axes(ax, 4.2, 4.2)
    bins = found.calibration
    ax.plot([0, 1], [0, 1], color=_MUTED, linestyle="--", linewidth=1)
    place = [[each[key] for each in bins] for key in ("predicted", "observed")]
    ax.scatter(*place, s=[20 + 160 * size for size in relative_sizes(bins)], color=_ON, alpha=0.8, zorder=3)
    ax.set(xlim=(0, 1.03), ylim=(0, 1.03), aspect="equal", xlabel="predicted probability", ylabel="share correct")
    ax.grid(color=_LINE)
    ax.set_axisbelow(True)
    return _bare(ax, "Calibration")


def dependence(found: Any, *, most: int = 40, ax: Any = None) -> Any:
    """A heat map: how much of the uncertainty about a question (row) the answer to another one (column) removes.

    Parameters
    ----------
    found : Dependence
        The result of `model.dependence`.
    most : int, default=40
        Number of questions, those with the strongest relations.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib axes
    """
    kept = ordered(found.strength, found.names, most)
    n = len(kept)
    ax = _axes(ax, 0.24 * n + 3.4, 0.24 * n + 1.6)
    image = ax.imshow(found.share[np.ix_(kept, kept)], cmap="Blues", vmin=0)
    names = briefs(dict(zip(found.names, found.texts, strict=True)))
    words = [names[found.names[k]] for k in kept]
    ax.set_yticks(range(n), [f"{word}  {k + 1}" for k, word in enumerate(words)], fontsize="small")
    ax.set_xticks(range(n), [str(k + 1) for k in range(n)], fontsize="x-small")
    ax.xaxis.tick_top()
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.6, format=lambda value, _: f"{value:.0%}")
    bar.outline.set_visible(False)
    return _bare(ax, "Share of uncertainty removed")


def missing(schema: Any, X: Any, *, ax: Any = None) -> Any:
    """Missing answers of each question by reason: no answer, declared values such as "refused", and not asked.

    Parameters
    ----------
    schema : Schema
        The schema of the table, for example `model.schema_`.
    X : table
        The table.
    ax : matplotlib axes, optional
        Where to draw; by default a new figure.

    Returns
    -------
    matplotlib axes
    """
    shares: Mapping[str, Mapping[str, float]] = missing_kinds(schema, as_table(X))
    names = [name for name in schema.modelled if shares.get(name)]
    kinds: Sequence[str] = sorted({kind for name in names for kind in shares[name]}, key=lambda kind: _place(kind))
    texts = texts_of(schema)
    ax = _axes(ax, 7.0, 0.26 * max(len(names), 2) + 1.0)
    left = np.zeros(len(names))
    colours = [each["light"] for each in palette(max(len(kinds), 2))]
    for kind, colour in zip(kinds, colours, strict=False):
        width = np.asarray([shares[name].get(kind, 0.0) for name in names])
        ax.barh(
            range(len(names)),
            width,
            left=left,
            color=_LINE if kind == NOT_APPLICABLE else colour,
            label=kind,
            height=0.7,
        )
        left += width
    ax.set_yticks(range(len(names)), [texts[name]["brief"] for name in names], fontsize="small")
    ax.invert_yaxis()
    ax.set(xlim=(0, 1))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    if names:
        ax.legend(frameon=False, fontsize="small")
    return _bare(ax, "Missing answers", "bottom")


def _place(kind: str) -> tuple[int, str]:
    return ({NOTHING: 0, NOT_APPLICABLE: 2}.get(kind, 1), kind)
