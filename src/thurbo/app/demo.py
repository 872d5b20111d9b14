"""The demo: a complete analysis of a real survey, from the table to the report.

Load the bundled Star Wars survey, mask a tenth of its answers, fit, compare the predictions with baselines, describe
the hidden units, predict under conditions, impute one respondent's missing answers, write the report.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from thurbo import _importing
from thurbo.table.io.files import destination, write_atomically

TITLE = "Star Wars survey: 1,186 respondents"
SOURCE = "FiveThirtyEight, Star Wars survey (2014), licensed CC BY 4.0; column names shortened."
SHARE_MASKED = 0.1
# Columns that colour the map.
COLOUR_BY = ("fan", "seen: The Phantom Menace", "Jar Jar Binks", "Darth Vader", "gender", "age", "films", "shot_first")
# Column, answer, and conditions to compare.
WHAT_IF = (
    ("fan", "Yes", ("age >= 45-60", "age <= 30-44")),
    ("shot_first", "Han", ("age >= 45-60", "age <= 30-44")),
    (
        "fan",
        "Yes",
        ("films: The Empire Strikes Back > The Phantom Menace", "films: The Phantom Menace > The Empire Strikes Back"),
    ),
)


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
    empty = frame.iloc[:1].copy()
    for name in model.schema_.modelled:
        for source in model.schema_[name].source_columns(name):
            empty[source] = None
    found = []
    for column, label, conditions in questions:
        place = list(model.schema_[column].labels).index(label)
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
    gaps = np.stack([each & ~out.get(name, False) for name, each in empty.items()], axis=1)
    n_gaps = gaps.sum(axis=1)
    places = np.flatnonzero((n_gaps >= 3) & (n_gaps <= most))
    place = int(places[0])
    # Together with similar rows, so that the functions compiled for the evaluation are used again.
    rows = frame.iloc[places[:100]]
    answers = []
    for name in (name for name, gap in zip(names, gaps[place], strict=True) if gap):
        probability = np.asarray(model.predict_proba(rows, name), float)[0]
        best = int(probability.argmax())
        label = str(schema[name].labels[best])
        answers.append({"column": name, "answer": label, "probability": float(probability[best])})
    return {"row": place, "n_answered": int(sum(not each[place] for each in empty.values())), "filled": answers}


def print_results(found: DemoResults) -> None:
    """Print the results to standard output."""
    from rich.console import Console
    from rich.text import Text

    from thurbo.app.report.wording import percent

    s, respondent = found.summary, found.respondent
    data, fit, check = s["data"], s["fit"], s["held_out"]
    took = "" if fit["seconds"] is None else f" in {fit['seconds']:.1f} s"
    lines = [
        s["title"],
        f"{data['n_rows']:,} respondents, {data['n_columns']} questions, "
        f"{percent(data['share_missing'])} of answers missing.",
        f"{fit['n_hidden']} hidden units, objective {fit['objective']}, fitted{took}, {fit['n_epochs']} epochs.",
        "",
        "Findings",
        *(f"  {each['words']}" for each in s["findings"] if each["kind"] != "accuracy"),
        "",
        "Predictive accuracy",
        f"  {check['n_cells']:,} answers were masked before fitting, then predicted from the other answers.",
        f"  Correct: {percent(check['accuracy'])} of the model's predictions, {percent(check['accuracy_marginal'])} "
        f"with the most common answer, {percent(check['accuracy_logistic'])} with "
        "a regression of each question on all others.",
        f"  Mean log-likelihood per answer (nats): {check['log_score']:.3f} for the model, "
        f"{check['log_score_marginal']:.3f} for the shares of answers, {check['log_score_logistic']:.3f} for the "
        "regressions.",
        "",
        "Predictions under a condition, for a respondent with no other answers",
        *(f"  {w['column']}: {w['label']}, given {w['given']}: {percent(w['probability'])}" for w in s["what_if"]),
        "",
        f"Imputed answers of respondent {respondent['row'] + 1}, who skipped {len(respondent['filled'])} questions",
        *(f"  {a['column']}: {a['answer']} (probability {percent(a['probability'])})" for a in respondent["filled"]),
        "",
        f"Report: {found.page}",
    ]
    console = Console(highlight=False, soft_wrap=True)
    for text in lines:
        # Headings are the lines without indentation and without a full stop.
        heading = bool(text) and not text.startswith(" ") and not text.endswith(".")
        console.print(Text(text, style="bold" if heading else ""))
