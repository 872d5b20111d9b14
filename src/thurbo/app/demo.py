"""The demo: a complete analysis of a real survey, from the table to the report.

Load the bundled Star Wars survey, mask a tenth of its answers, fit, compare the predictions with baselines, describe
the hidden units, predict under conditions, impute one respondent's missing answers, write the report.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from thurbo import _importing
from thurbo.table.io.files import destination, write_atomically

SHARE_MASKED = 0.1
_ABOUT = tomllib.loads(files("thurbo.app").joinpath("demo.toml").read_text("utf-8"))
TITLE, SOURCE, COLOUR_BY, WHAT_IF = (_ABOUT[key] for key in ("title", "source", "colour_by", "what_if"))


class DemoResults(NamedTuple):
    """Results of the demo: the summary of the report, one respondent's imputed answers, and the path of the page."""

    summary: dict[str, Any]
    respondent: dict[str, Any]
    page: Path


def run(
    *,
    n_hidden: int | Literal["auto"] = "auto",
    max_epochs: int | Literal["auto"] = "auto",
    seed: int = 0,
    output: str | PathLike[str] = "report.html",
    progress: Callable[[str], None] | None = None,
) -> DemoResults:
    """Fit the survey with every default, evaluate the model and write the report to `output`.

    `progress` is called at each stage.
    """
    destination(output)  # raises before any work if the file cannot be written
    with _importing():
        from thurbo.app import report
        from thurbo.table.datasets import load_starwars
        from thurbo.tbm import TBM

    say = progress or (lambda message: None)
    say("Reading the survey")
    frame, schema = load_starwars(everything=True)
    shown = mask(frame, schema, seed)
    say(f"Fitting {len(frame):,} respondents")
    chosen: dict[str, Any] = {"n_hidden": n_hidden, "max_epochs": max_epochs, "random_state": seed}
    model = TBM(schema, verbose=progress is not None, **chosen).fit(shown)._finished()
    say("Predicting the masked answers")
    with ThreadPoolExecutor(1) as pool:  # compiles the programs of other queries while regressions are computed here
        # First the features that the summary needs, then predictions under conditions, and one respondent's gaps.
        beside = pool.submit(lambda: (model.transform(frame), ask(model, frame, WHAT_IF), impute_one(model, frame)))
        held_out = model.evaluate(frame, hide=SHARE_MASKED, random_state=seed, logistic=True)
        say("Summarising")
        summary = report.summary(
            model,
            frame,
            title=TITLE,
            rows_are="respondents",
            columns_are="questions",
            source=SOURCE,
            colour_by=COLOUR_BY,
            held_out=held_out,
            seed=seed,
        )
        _, summary["what_if"], respondent = beside.result()
    return DemoResults(summary, respondent, write_atomically(output, report.render(summary)))


def mask(frame: Any, schema: Any, seed: int) -> Any:
    """The frame without the answers that `evaluate` masks with the same seed: a tenth of them."""
    from sklearn.utils import check_random_state

    from thurbo.predict.evaluation import choose

    fitted = schema.fit(frame)
    shown = frame.copy()
    for name, masked in choose(fitted, fitted.compile(frame), SHARE_MASKED, check_random_state(seed)).items():
        for source in fitted[name].source_columns(name):
            shown[source] = frame[source].mask(masked)
    return shown


def ask(model: Any, frame: Any, questions: Sequence[tuple[str, str, tuple[str, ...]]]) -> list[dict[str, Any]]:
    """P(answer | condition) for a respondent with no other answers."""
    schema, found = model.schema_, list[dict[str, Any]]()
    sources = [source for name in schema.modelled for source in schema[name].source_columns(name)]
    empty = frame.iloc[:1].assign(**dict.fromkeys(sources))
    for column, label, conditions in questions:
        place = list(schema[column].labels).index(label)
        for given in conditions:
            probability = float(np.asarray(model.predict_proba(empty, column, given=[given]))[0, place])
            found.append({"column": column, "label": label, "given": given, "probability": probability})
    return found


def impute_one(model: Any, frame: Any, most: int = 5) -> dict[str, Any]:
    """A respondent with few missing answers to questions that were asked, and the model's prediction of each."""
    from thurbo.table.io.frames import as_table
    from thurbo.table.schema.routing import not_asked

    # A select-all question has no single most probable answer; of a ranking it is the first item.
    schema = model.schema_
    names = [name for name in schema.modelled if schema[name].kind != "multiselect"]
    empty = {name: frame[list(schema[name].source_columns(name))].isna().all(axis=1).to_numpy() for name in names}
    out = not_asked(schema, schema.skips, as_table(frame))
    gaps = {name: each & ~out.get(name, False) for name, each in empty.items()}
    n_gaps = np.sum(list(gaps.values()), axis=0)
    places = np.flatnonzero((n_gaps >= 3) & (n_gaps <= most))
    place = int(places[0])
    # Together with similar rows, so that the functions compiled for the evaluation are used again.
    rows = frame.iloc[places[:100]]
    answers = []
    for name in (name for name, gap in gaps.items() if gap[place]):
        probability = np.asarray(model.predict_proba(rows, name), float)[0]
        best = int(probability.argmax())
        label = str(schema[name].labels[best])
        answers.append({"column": name, "answer": label, "probability": float(probability[best])})
    return {"row": place, "n_answered": int(sum(not each[place] for each in empty.values())), "filled": answers}


def print_results(found: DemoResults) -> None:
    """Print the results to standard output."""
    from rich.console import Console
    from rich.text import Text

    from thurbo.app.report.page import template

    console = Console(highlight=False, soft_wrap=True)
    for line in template("demo.txt.j2", found.summary["texts"]).render(found._asdict()).splitlines():
        # Headings are the lines without indentation and without a full stop.
        heading = bool(line) and not line.startswith(" ") and not line.endswith(".")
        console.print(Text(line, style="bold" if heading else ""))
