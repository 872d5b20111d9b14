"""The demo: a real survey from table to page, in the order a newcomer would go.

Load the bundled Star Wars survey, hide a tenth of its answers, fit, check the guesses, read the hidden units,
ask what if, fill in one respondent's gaps, write the page. Everything goes through the public interface.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from thurbo.io.files import destination, write_atomically

TITLE = "Star Wars: what 1,186 people think"
SOURCE = "FiveThirtyEight, Star Wars survey (2014), licensed CC BY 4.0; column names shortened."
SHARE_HIDDEN = 0.1
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
    from thurbo.estimator import TBM

    say = progress or (lambda message: None)
    say("Reading the survey")
    frame, schema = load_starwars(everything=True)
    shown, hidden = hide(frame, schema, seed)
    say(f"Fitting {n_hidden} hidden units to {len(frame):,} respondents")
    verbose = progress is not None
    chosen: dict[str, Any] = dict(SETTINGS)
    model = TBM(schema, n_hidden=n_hidden, max_epochs=max_epochs, random_state=seed, verbose=verbose, **chosen)
    model.fit(shown)
    say("Guessing the hidden answers")
    held_out = check(model, frame, shown, hidden)
    say("Drawing the map")
    summary = report.summary(
        model,
        frame,
        title=TITLE,
        source=SOURCE,
        colour_by=COLOUR_BY,
        held_out=held_out,
        what_if=ask(model, frame, WHAT_IF),
        seed=seed,
    )
    respondent = fill_gaps(model, frame)
    page = write_atomically(output, report.render(summary))
    return Found(summary, respondent, page)


def hide(frame: Any, schema: Any, seed: int) -> tuple[Any, dict[str, NDArray[np.bool_]]]:
    """The frame with a tenth of the modelled answers blanked, each whole, and which ones they are, by question."""
    rng = np.random.default_rng(seed)
    shown, hidden = frame.copy(), {}
    for name in schema.modelled:
        sources = list(schema[name].source_columns(name))
        answered = frame[sources].notna().any(axis=1).to_numpy()
        hidden[name] = answered & (rng.random(len(frame)) < SHARE_HIDDEN)
        for source in sources:
            shown[source] = frame[source].mask(hidden[name])
    return shown, hidden


def check(model: Any, frame: Any, shown: Any, hidden: Mapping[str, NDArray[np.bool_]]) -> dict[str, Any]:
    """Accuracy and log score (nats) of the hidden answers, beside those of the shown answers' shares.

    Of a ranking the favourite is to be guessed; every option of a select-all question is an answer of its own.
    """
    truth = model.schema_.compile(frame)
    known = model.schema_.compile(shown)
    columns = []
    for name, where in hidden.items():
        kind = model.schema_[name].kind
        code = _codes(truth[name])[where]
        if not (code >= 0).any():
            continue
        # In parts of at most 128 rows, for which the programs of the other questions are compiled already.
        parts = np.array_split(np.flatnonzero(where), -(-int(where.sum()) // 128))
        probability = np.concatenate([_guesses(model, shown.iloc[part], name) for part in parts])
        if kind == "multiselect":  # [row, option] becomes [row, option, not ticked or ticked]
            probability = np.stack([1 - probability, probability], axis=-1)
        else:
            probability = probability[:, None]
        n_labels = probability.shape[-1]
        marginal = np.stack([_shares(each, n_labels) for each in _codes(known[name]).T])
        marginal = np.broadcast_to(marginal, probability.shape)
        answered = code >= 0
        columns.append(
            {
                "column": f"{name}: favourite" if kind == "ranking" else name,
                "n": int(answered.sum()),
                "accuracy": _accuracy(probability[answered], code[answered]),
                "accuracy_marginal": _accuracy(marginal[answered], code[answered]),
                "log_score": _log_score(probability[answered], code[answered]),
                "log_score_marginal": _log_score(marginal[answered], code[answered]),
            }
        )
    count = np.array([record["n"] for record in columns])
    measures = ("accuracy", "accuracy_marginal", "log_score", "log_score_marginal")
    overall = {key: float(np.average([record[key] for record in columns], weights=count)) for key in measures}
    return {"n_cells": int(count.sum()), "share": SHARE_HIDDEN, **overall, "columns": columns}


def _guesses(model: Any, rows: Any, name: str) -> NDArray[np.float64]:
    """P(answer | the other answers), by the mean-field that prediction was trained through."""
    return np.asarray(model.predict_proba(rows, name, method="mean-field"), float)


def _codes(block: Any) -> NDArray[Any]:
    """Answers as codes, −1 where there is none: [row, option]; of a choice or ranking the best label, [row, 1]."""
    from thurbo.report.answers import favourite

    return favourite(block)[:, None] if block.has_tiers else np.asarray(block.code)


def _accuracy(probability: NDArray[Any], code: NDArray[Any]) -> float:
    return float(np.mean(probability.argmax(axis=1) == code))


def _log_score(probability: NDArray[Any], code: NDArray[Any]) -> float:
    return float(np.mean(np.log(np.maximum(probability[np.arange(len(code)), code], 1e-12))))


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


def _shares(code: NDArray[Any], n_levels: int) -> NDArray[np.float64]:
    """Share of each level among the answers, with half an answer added to each so that none is impossible."""
    count = np.bincount(code[code >= 0], minlength=n_levels) + 0.5
    return count / count.sum()


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
        probability = _guesses(model, rows, name)[0]
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
        f"{percent(check['accuracy_marginal'])}.",
        f"  Log score: {check['log_score']:.3f} nats an answer, against "
        f"{check['log_score_marginal']:.3f} for the shares.",
        "",
        "What if? Of somebody of whom nothing else is known the model says",
        *(f"  {w['column']}: {w['label']}, given {w['given']}: {percent(w['probability'])}" for w in s["what_if"]),
        "",
        f"Respondent {respondent['row'] + 1} left {len(respondent['filled'])} questions open; the model says",
    ]
    lines += [f"  {a['column']}: {a['answer']} ({percent(a['probability'])} sure)" for a in respondent["filled"]]
    return [*lines, "", f"The page with the map: {found.page}"]
