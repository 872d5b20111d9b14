"""The pictures of the README and the documentation, made by the demo's own code.

Run with `python docs/make_images.py` from the repository; it writes docs/images/map.png.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np

from thurbo import demo
from thurbo.report.page import palette

IMAGES = Path(__file__).parent / "images"
COLUMNS = ("fan", "seen: The Phantom Menace", "Jar Jar Binks")
PAPER, INK, FAINT = "#fbfaf7", "#1d2026", "#d8d5cd"


def draw_map(summary: dict[str, Any], columns: tuple[str, ...], path: Path) -> None:
    """One small map per column, side by side, with the page's own colours."""
    layout = summary["map"]
    points = np.column_stack([layout["x"], layout["y"]])
    by_name = {colouring["column"]: colouring for colouring in layout["colourings"]}
    size = (12.5, 12.5 / len(columns) * np.ptp(points[:, 1]) / np.ptp(points[:, 0]) + 0.75)
    figure, panels = plt.subplots(1, len(columns), figsize=size, facecolor=PAPER, layout="constrained")
    for axes, name in zip(panels, columns, strict=True):
        colouring = by_name[name]
        labels, colours = colouring["labels"], palette(len(colouring["labels"]))
        group = np.array([-1 if g is None else g for g in colouring["groups"]])
        axes.scatter(*points[group == -1].T, s=6, color=FAINT, linewidths=0)
        for code, colour in enumerate(colours):
            # Between the two ends a scale explains itself.
            label = labels[code] if code in {0, len(labels) - 1} else " "
            where = points[group == code].T
            axes.scatter(*where, s=8, color=colour["light"], linewidths=0, alpha=0.85, label=label)
        axes.set_title(name, loc="left", color=INK, fontsize=13, fontfamily="serif", fontweight="bold")
        axes.set_axis_off()
        axes.set_aspect("equal")
        axes.legend(
            loc="upper left",
            bbox_to_anchor=(-0.02, 0.0),
            ncols=len(labels),
            frameon=False,
            fontsize=9,
            labelcolor=INK,
            handletextpad=0.0,
            columnspacing=0.6,
            markerscale=2.0,
        )
    figure.savefig(path, dpi=110, facecolor=PAPER, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    """Run the demo and draw."""
    with tempfile.TemporaryDirectory() as folder:
        found = demo.run(output=Path(folder) / "report.html")
    IMAGES.mkdir(exist_ok=True)
    draw_map(found.summary, COLUMNS, IMAGES / "map.png")


if __name__ == "__main__":
    main()
