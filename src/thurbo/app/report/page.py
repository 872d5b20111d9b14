"""The summary as one HTML page: inline CSS, inline SVG, one short inline script, no external files.

The page is complete without the script, which adds hover, a filter and folding. A content security policy forbids any
other script and any request. All text from the user is escaped by Jinja.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from functools import partial
from importlib.resources import files
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from thurbo.app.report import pictures
from thurbo.app.report.summary import measured, of_orders, summary, verdict
from thurbo.app.report.wording import Texts, brief_of, missing_words, number, percent, time_words, with_answer
from thurbo.errors import ThurboError
from thurbo.table.io.files import destination, write_atomically

# Limits of the page: units and factors shown, and questions whose cards are open.
_MOST_UNITS, _MOST_FACTORS = 3, 3
MOST_OPEN = 12


def template(name: str, texts: Texts) -> Any:
    """A template of the report; text is escaped in HTML."""
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ThurboError("the report needs jinja2; install it with: pip install 'thurbo[report]'") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("thurbo.app.report"),
        autoescape=name.endswith(".html.j2"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        full=lambda name: texts.get(name, {"full": name})["full"],
        brief=lambda name: brief_of(texts, name),
        percent=percent,
        number=number,
        signed=partial(number, sign="+"),
        thousands=lambda value: f"{value:,.0f}",
        missing=missing_words,
        duration=time_words,
        breakable=breakable,
    )
    return environment.get_template(name)


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
    texts, held_out = summary["texts"], summary["held_out"]
    script = files("thurbo.app.report").joinpath("templates/page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Nothing is loaded or sent; only the page's own script runs.
    rules = ("default-src 'none'", "style-src 'unsafe-inline'", f"script-src 'sha256-{digest}'")
    heat = pictures.heat_map(summary["dependence"])
    place = pictures.map_picture(summary["map"], summary["segments"])
    # Units that are not nearly the same as a stronger one, those with the largest differences first.
    units = [unit for unit in summary["units"] if unit["like"] is None and (unit["up"] or unit["down"])]
    tested = [] if held_out is None else held_out["columns"]
    return template("page.html.j2", texts).render(
        s=summary,
        script=script,
        policy="; ".join([*rules, "base-uri 'none'", "form-action 'none'"]),
        units=sorted(units, key=lambda unit: -unit["strength"])[:_MOST_UNITS],
        factors=[each for each in summary["factors"] if each["high"] or each["low"]][:_MOST_FACTORS],
        open_cards=summary["data"]["n_columns"] <= MOST_OPEN,
        blocks=_blocks(summary["data"]),
        warned="Warnings" if any(each["level"] == "check" for each in summary["warnings"]) else "Notes",
        map=place,
        heat=heat,
        catalogues=[{**each, "picture": pictures.item_picture(each)} for each in summary["items"]],
        curve=pictures.curve(summary["history"]),
        swatches=pictures.palette,
        colours=pictures.segment_colours(summary["segments"]["profiles"]),
        facts=_facts(summary, place, heat),
        # The tested record of each question; of a ranking that of its favourite.
        accuracy={each["column"].removesuffix(": favourite"): each for each in reversed(tested)},
        verdict=verdict(held_out) if held_out else [],
        orders=of_orders(held_out),
    )


def _blocks(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Questions with their numbers in order, those of a grid under its words."""
    grid_of = {name: place for place, grid in enumerate(data["grids"]) for name in grid["columns"]}
    runs = groupby(enumerate(data["columns"], start=1), lambda pair: grid_of.get(pair[1]["name"]))
    return [
        {"grid": None if place is None else data["grids"][place], "columns": list(columns)} for place, columns in runs
    ]


def breakable(text: str) -> Any:
    """User text in which a long word without spaces may break after _ / . - and between a small and a large letter."""
    from markupsafe import Markup, escape

    words = [re.sub("([_/.-])", "\\1\u200b", word) if len(word) > 18 else word for word in str(text).split(" ")]
    return Markup(str(escape(" ".join(words))).replace("\u200b", "<wbr>"))


def _facts(summary: Mapping[str, Any], place: Mapping[str, Any], heat: Mapping[str, Any] | None) -> str:
    """What hover needs, as JSON that cannot end its script element."""
    layout, texts, profiles = summary["map"], summary["texts"], summary["segments"]["profiles"]
    segment_lines = [[with_answer(line["brief"], line["answer"]) for line in each["lines"][:3]] for each in profiles]
    names = [texts[name]["brief"] for name in (heat["names"] if heat else ())]
    held = {
        "points": [list(p) for p in place["points"]],
        "segment": layout["segment"],
        "segments": {
            str(each["segment"]): {"name": each["name"], "share": percent(each["share"]), "lines": lines}
            for each, lines in zip(profiles, segment_lines, strict=True)
        },
        "people": layout["people"],
        "heat": heat and {"share": heat["share"], "names": names},
        "items": [
            {"points": [list(p) for p in pictures.places(each)[0]], "names": each["items"], "n": each["n_ratings"]}
            for each in summary["items"]
        ],
    }
    text = json.dumps(held, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def write(
    model: Any,
    X: Any,
    path: str | PathLike[str],
    *,
    test: bool | Literal["auto"] = "auto",
    seed: int = 0,
    **about: Any,
) -> Path:
    """Write a report on a fitted model and a table: one self-contained HTML file.

    Parameters
    ----------
    model : TBM
        A fitted model.
    X : table
        Rows to describe, for example the training data.
    path : str or path
        The HTML file.
    test : bool or "auto", default="auto"
        Whether to test how well hidden answers are predicted. On new rows a tenth of the answers is hidden and
        predicted. On the rows of the fit, the model is fitted once more without them; "auto" does so if the fit took up
        to three minutes.
    seed : int, default=0
        Random seed of the hidden answers and the map.
    **about
        Other arguments of `thurbo.report.summary`, such as title, rows_are, colour_by, rows, or held_out with the
        result of `tb.evaluate`, which takes the place of the test.

    Returns
    -------
    Path
        The file.
    """
    destination(path)  # raises before any work if the file cannot be written
    if about.get("held_out") is None:
        about["held_out"] = measured(model, X, None if test == "auto" else bool(test), seed)
    return write_atomically(path, render(summary(model, X, seed=seed, **about)))
