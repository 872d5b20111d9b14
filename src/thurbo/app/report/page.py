"""The summary as one HTML page: inline CSS, inline SVG, one short inline script, no external files.

The page is complete without the script, which adds hover, a filter and folding. A content security policy forbids any
other script and any request. All text from the user is escaped by Jinja.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from thurbo.app.report import pictures
from thurbo.app.report.summary import measured, of_orders, summary, verdict
from thurbo.app.report.wording import BRIEF, brief_of, clipped, missing_words, percent, time_words, with_answer
from thurbo.errors import ThurboError
from thurbo.table.io.files import destination, write_atomically
from thurbo.table.schema.descriptions import shortened

# Limits of the page: units and factors shown, and questions whose cards are open.
_MOST_UNITS, _MOST_FACTORS = 3, 3
MOST_OPEN = 40


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
    environment, texts = _environment(), summary["texts"]
    environment.filters.update(
        short=lambda name: texts.get(name, {"short": shortened(str(name))})["short"],
        full=lambda name: texts.get(name, {"full": name})["full"],
        brief=lambda name: brief_of(texts, name),
    )
    script = files("thurbo.app.report").joinpath("templates/page.js").read_text(encoding="utf-8")
    heat = pictures.heat_map(summary["dependence"])
    place = pictures.map_picture(summary["map"], summary["segments"])
    held_out = summary["held_out"]
    return environment.get_template("page.html.j2").render(
        s=summary,
        script=script,
        policy=_policy(script),
        units=_strongest(summary["units"]),
        factors=[each for each in summary["factors"] if each["high"] or each["low"]][:_MOST_FACTORS],
        open_cards=summary["data"]["n_columns"] <= MOST_OPEN,
        map=place,
        heat=heat,
        calibration=pictures.calibration_picture(held_out["calibration"]) if held_out else [],
        catalogues=[{**each, "picture": pictures.item_picture(each)} for each in summary["items"]],
        curve=pictures.curve(summary["history"]),
        swatches=pictures.palette,
        colours=pictures.segment_colours(summary["segments"]["profiles"]),
        facts=_facts(summary, place, heat, texts),
        accuracy=accuracy_by_column(held_out),
        verdict=verdict(held_out) if held_out else [],
        orders=of_orders(held_out),
        sections=_sections(summary),
    )


def _environment() -> Any:
    try:
        import jinja2
    except ModuleNotFoundError as error:
        raise ThurboError("the report needs jinja2; install it with: pip install 'thurbo[report]'") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("thurbo.app.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    plain = {"percent": percent, "number": number, "thousands": thousands, "signed": signed, "missing": missing_words}
    environment.filters.update(plain, duration=time_words, breakable=breakable)
    return environment


def _policy(script: str) -> str:
    """Nothing is loaded or sent; only the page's own script runs."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = ("default-src 'none'", "style-src 'unsafe-inline'", f"script-src 'sha256-{digest}'")
    return "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])


def number(value: float | None, digits: int = 2) -> str:
    """A number with fixed decimals and a typographic minus sign."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "\u2212")


def signed(value: float | None, digits: int = 2) -> str:
    """A number that always shows its sign."""
    return "–" if value is None else f"{value:+.{digits}f}".replace("-", "\u2212")


def thousands(value: float) -> str:
    """A count with a comma between thousands."""
    return f"{value:,.0f}"


def breakable(text: str) -> Any:
    """User text in which a long word without spaces may break after _ / . - and between a small and a large letter."""
    from markupsafe import Markup, escape

    words = []
    for word in str(text).split(" "):
        if len(word) > 18:
            word = "".join(letter + ("\u200b" if letter in "_/.-" else "") for letter in word)
        words.append(word)
    return Markup(str(escape(" ".join(words))).replace("\u200b", "<wbr>"))


def _strongest(units: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The units with the largest differences that are not nearly the same as a stronger one."""
    different = [unit for unit in units if unit["like"] is None and (unit["up"] or unit["down"])]
    return sorted(different, key=lambda unit: -unit["strength"])[:_MOST_UNITS]


def accuracy_by_column(held_out: Mapping[str, Any] | None) -> dict[str, Mapping[str, Any]]:
    """The tested record of each question; of a ranking that of its favourite."""
    if held_out is None:
        return {}
    return {each["column"].removesuffix(": favourite"): each for each in reversed(held_out["columns"])}


def _sections(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Anchors and titles of the contents, in the order of the page."""
    found = [
        ("findings", "Findings"),
        ("warnings", "Warnings") if summary["warnings"] else None,
        ("segments", "Segments"),
        ("items", "Liked together") if summary["items"] else None,
        ("trust", "How far to trust it"),
        ("questions", summary["columns_are"].capitalize()),
        ("relations", "Relations") if summary["dependence"] else None,
        ("what-if", "Conditions") if summary["what_if"] else None,
        ("traits", "Traits and factors") if summary["units"] or summary["factors"] else None,
        ("map", "Map"),
    ]
    return [each for each in found if each is not None]


def _facts(
    summary: Mapping[str, Any], place: Mapping[str, Any], heat: Mapping[str, Any] | None, texts: Mapping[str, Any]
) -> str:
    """What hover needs, as JSON that cannot end its script element."""
    layout = summary["map"]
    held = {
        "points": [list(p) for p in place["points"]],
        "segment": layout["segment"],
        "segments": {
            str(each["segment"]): {
                "name": each["name"],
                "share": percent(each["share"]),
                "lines": [with_answer(line["brief"], line["answer"]) for line in each["lines"][:3]],
            }
            for each in summary["segments"]["profiles"]
        },
        "people": layout["people"],
        "heat": None
        if heat is None
        else {"share": heat["share"], "names": [clipped(texts[name]["short"], 2 * BRIEF) for name in heat["names"]]},
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
