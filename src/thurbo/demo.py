"""The demo: a real survey from table to page, in the order a newcomer would go.

Load the bundled Star Wars survey, hide a tenth of its answers, fit, evaluate the guesses beside simpler ones, read the
hidden units, ask what if, fill in one respondent's gaps, write the page. While training is compiled on one core, the
programs of the questions are compiled on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

import numpy as np

from thurbo.io.files import destination, write_atomically

TITLE = "Star Wars: what 1,186 people think"
SOURCE = "FiveThirtyEight, Star Wars survey (2014), licensed CC BY 4.0; column names shortened."
SHARE_HIDDEN = 0.1
HEAD_START = 6.0  # seconds that training has before other programs are compiled beside it
# Prediction meets the exact mass of a ranking, the dearest part, once for each row; enumeration in every hidden state.
SETTINGS = {"objective": "multi-prediction", "likelihood_weight": 0.1}
# The questions most people ask the map about.
COLOUR_BY = ("fan", "seen: The Phantom Menace", "Jar Jar Binks", "Darth Vader", "gender", "age", "films", "shot_first")
# Conditions, each beside its opposite, under which to ask about an answer.
WHAT_IF = (
    ("fan", "Yes", ("age >= 45-60", "age <= 30-44")),
    ("shot_first", "Han", ("age >= 45-60", "age <= 30-44")),
    (
        "fan",
        "Yes",
        ("films: The Empire Strikes Back > The Phantom Menace", "films: The Phantom Menace > The Empire Strikes Back"),
    ),
)


class Found(NamedTuple):
    """What the demo found: the report's summary, one respondent's filled gaps, and where the page is."""

    summary: dict[str, Any]
    respondent: dict[str, Any]
    page: Path


def run(
    *,
    n_hidden: int = 6,
    max_epochs: int = 30,
    seed: int = 0,
    output: str | PathLike[str] = "report.html",
    progress: Callable[[str], None] | None = None,
) -> Found:
    """Fit every question of the survey, check the fit, write the page to `output`; `progress` is told each stage."""
    destination(output)  # before any work: a minute later is too late to learn that the directory is missing
    from thurbo import report
    from thurbo.datasets import load_starwars
    from thurbo.estimators.tbm import TBM

    say = progress or (lambda message: None)
    say("Reading the survey")
    frame, schema = load_starwars(everything=True)
    shown = hide(frame, schema, seed)
    say(f"Fitting {n_hidden} hidden units to {len(frame):,} respondents")
    chosen: dict[str, Any] = {"n_hidden": n_hidden, "random_state": seed, **SETTINGS}
    model = TBM(schema, max_epochs=max_epochs, verbose=progress is not None, **chosen)
    with _beside(lambda: _questions(TBM(schema, max_epochs=0, verbose=False, **chosen).fit(shown), frame, seed)):
        model.fit(shown)
        say("Guessing the hidden answers")
    held_out, what_if, respondent = _questions(model, frame, seed, logistic=True)
    say("Drawing the map")
    summary = report.summary(
        model,
        frame,
        title=TITLE,
        rows_are="respondents",
        columns_are="questions",
        source=SOURCE,
        colour_by=COLOUR_BY,
        held_out=held_out,
        what_if=what_if,
        seed=seed,
    )
    page = write_atomically(output, report.render(summary))
    return Found(summary, respondent, page)


@contextmanager
def _beside(work: Callable[[], Any]) -> Iterator[None]:
    """Do some work on another thread for its compiled programs alone; what is not done in the end is waited for."""
    done = Event()

    def run() -> None:
        if not done.wait(HEAD_START):
            with suppress(Exception):  # whatever is wrong will be said when it is asked in earnest
                work()

    thread = Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _questions(model: Any, frame: Any, seed: int, logistic: bool = False) -> tuple[dict[str, Any], list[Any], Any]:
    """Everything the demo asks of a model: the hidden answers, what if, one respondent's gaps; and its hidden units."""
    # Prediction was trained through mean-field, which is quick as well.
    found = model.evaluate(frame, hide=SHARE_HIDDEN, random_state=seed, logistic=logistic, method="mean-field")
    asked = found.overall | {"columns": found.columns}, ask(model, frame, WHAT_IF), fill_gaps(model, frame)
    if not logistic:
        model.transform(frame)
    return asked


def hide(frame: Any, schema: Any, seed: int) -> Any:
    """The frame with a tenth of the answers blanked, each whole: those that `evaluate` hides with the same seed."""
    from sklearn.utils import check_random_state

    from thurbo.queries.evaluate.masked import choose

    fitted = schema.fit(frame)
    shown = frame.copy()
    for name, hidden in choose(fitted, fitted.compile(frame), SHARE_HIDDEN, check_random_state(seed)).items():
        for source in fitted[name].source_columns(name):
            shown[source] = frame[source].mask(hidden)
    return shown


def ask(model: Any, frame: Any, questions: Sequence[tuple[str, str, tuple[str, ...]]]) -> list[dict[str, Any]]:
    """P(answer | condition) for somebody of whom nothing but the condition is known."""
    nobody = frame.iloc[:1].copy()
    for name in model.schema_.modelled:
        for source in model.schema_[name].source_columns(name):
            nobody[source] = None
    found = []
    for column, label, conditions in questions:
        place = list(model.schema_[column].labels).index(label)
        for given in conditions:
            probability = float(np.asarray(model.predict_proba(nobody, column, given=[given]))[0, place])
            found.append({"column": column, "label": label, "given": given, "probability": probability})
    return found


def fill_gaps(model: Any, frame: Any, most: int = 5) -> dict[str, Any]:
    """One respondent who answered most questions but not all, with the model's answer to the others."""
    # A select-all question has no one answer to be sure of; of a ranking it is the favourite.
    schema = model.schema_
    names = [name for name in schema.modelled if schema[name].kind != "multiselect"]
    gaps = np.stack([frame[list(schema[name].source_columns(name))].isna().all(axis=1) for name in names], axis=1)
    n_gaps = gaps.sum(axis=1)
    places = np.flatnonzero((n_gaps >= 3) & (n_gaps <= most))
    place = int(places[0])
    # The first of many like it: asked together they meet programs that the check has compiled already.
    rows = frame.iloc[places[:100]]
    answers = []
    for name in (name for name, gap in zip(names, gaps[place], strict=True) if gap):
        probability = np.asarray(model.predict_proba(rows, name, method="mean-field"), float)[0]
        best = int(probability.argmax())
        label = str(schema[name].labels[best])
        answers.append({"column": name, "answer": label, "probability": float(probability[best])})
    return {"row": place, "n_answered": len(names) - len(answers), "filled": answers}


def tell(found: Found) -> None:
    """Print what was found, for people, to standard output."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    for text in story(found):
        # Headings are the lines that stand out to the left and do not end a sentence.
        heading = bool(text) and not text.startswith(" ") and not text.endswith(".")
        console.print(Text(text, style="bold" if heading else ""))


def story(found: Found, most_units: int = 5) -> list[str]:
    """What was found, line by line."""
    from thurbo.report.units import percent

    s, respondent = found.summary, found.respondent
    data, fit, check = s["data"], s["fit"], s["held_out"]
    took = "" if fit["seconds"] is None else f" in {fit['seconds']:.1f} s"
    lines = [
        s["title"],
        f"{data['n_rows']:,} respondents, {data['n_columns']} questions, "
        f"{percent(data['share_missing'])} of answers missing.",
        f"{fit['n_hidden']} hidden units fitted by {fit['objective']}{took}, {fit['n_epochs']} epochs.",
        "",
        "The most telling hidden units: answers with the unit on, against off",
    ]
    for unit in sorted(s["units"], key=lambda unit: -unit["strength"])[:most_units]:
        lines.append(f"  Unit {unit['unit']}, on in {percent(unit['share'])}. {unit['words']}.")
        telling = sorted(unit["up"] + unit["down"], key=lambda e: -abs(e["standardised"]))
        lines += [f"      {effect['words']}" for effect in telling[:3]]
    lines += [
        "",
        "Can it be believed?",
        f"  {check['n_cells']:,} answers were hidden before fitting. From the same person's other answers",
        f"  {percent(check['accuracy'])} are guessed right; the most common answer is right for "
        f"{percent(check['accuracy_marginal'])}, a regression of each question on all others for "
        f"{percent(check['accuracy_logistic'])}.",
        f"  Log score: {check['log_score']:.3f} nats an answer, against {check['log_score_marginal']:.3f} for the "
        f"shares and {check['log_score_logistic']:.3f} for the regressions.",
        "",
        "What if? Of somebody of whom nothing else is known the model says",
        *(f"  {w['column']}: {w['label']}, given {w['given']}: {percent(w['probability'])}" for w in s["what_if"]),
        "",
        f"Respondent {respondent['row'] + 1} left {len(respondent['filled'])} questions open; the model says",
    ]
    lines += [f"  {a['column']}: {a['answer']} ({percent(a['probability'])} sure)" for a in respondent["filled"]]
    return [*lines, "", f"The page with the map: {found.page}"]
