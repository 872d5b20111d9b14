"""What one asks a fitted model: transform, rank, impute, score, predict, evaluate, sample.

Each reads a model and a table, and writes a table with one line for each row (`rank`: for each item); labels stay.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from thurbo.cli import lists as long
from thurbo.cli import options, tables
from thurbo.cli.app import app, counted, say
from thurbo.errors import ThurboError


def _open(model: Path, data: Path, quiet: bool, said: long.Said | None = None) -> tuple[Any, Any]:
    """A model and a table; a long one only where something is said of it, or could be."""
    fitted = tables.load(model, lists=said is not None)
    frame, _ = tables.read(data) if said is None else long.read(data, said, fitted.schema_)
    if not quiet:
        from thurbo.io import frames

        say(f"{data}: {counted(frames.table(frame).n_rows, 'row')}")
    return fitted, frame


@app.command()
def transform(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    kind: Annotated[
        options.Hidden, typer.Option("--as", help="Each unit's probability of being on, or its log-odds.")
    ] = options.Hidden.PROBABILITY,
    row: options.Row = None,
    item: options.Item = None,
    score: options.Score = None,
    columns: options.Columns = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Write the hidden units of every row, then the factors if there are any."""
    tables.settle(output)
    fitted, frame = _open(model, data, quiet, long.Said(row, item, score, columns))
    from thurbo.cli import rows

    found = fitted.transform(frame, output=kind.value)
    units = dict(zip(map(str, fitted.get_feature_names_out()), found.T, strict=True))
    tables.write(rows.about(fitted.schema_, frame, units), output)


@app.command()
def rank(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    top: Annotated[int, typer.Option(min=1, help="Number of items for each row.")] = 10,
    items: Annotated[
        Path | None,
        typer.Option(
            help="Only these: a table of one column, or of rows and items, of which all are ranked.", show_default=False
        ),
    ] = None,
    item_list: Annotated[
        str | None, typer.Option(help="Only these: items, with commas between.", show_default=False)
    ] = None,
    include_seen: Annotated[bool, typer.Option("--include-seen", help="Also items that the row lists.")] = False,
    ranking: Annotated[
        str | None, typer.Option("--column", help="Which ranking, where there are several.", show_default=False)
    ] = None,
    row: options.Row = None,
    item: options.Item = None,
    score: options.Score = None,
    columns: options.Columns = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Write the best items of every row, from the best: row, item, utility and place."""
    tables.settle(output)
    if items is not None and item_list is not None:
        raise ThurboError("--items and --item-list both say which items; give one of them")
    fitted, frame = _open(model, data, quiet, long.Said(row, item, score, columns))
    from thurbo.cli import rows

    chosen = None if items is None else rows.items_of(fitted.schema_, tables.read(items)[0])
    if item_list is not None:
        chosen = rows.items_named(fitted.schema_, item_list)
    best = fitted.rank(frame, top=top, items=chosen, exclude_seen=not include_seen, column=ranking)
    tables.write(rows.as_frame(best), output)


@app.command()
def impute(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    draws: Annotated[
        int,
        typer.Option(min=0, help="Several imputations, drawn jointly, below the table as it is (.imp, .id); 0: one."),
    ] = 0,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Write the table with its gaps filled; cells that were there do not change."""
    tables.settle(output)
    fitted, frame = _open(model, data, quiet)
    if draws:
        import thurbo

        completed = fitted.impute_draws(frame, draws, random_state=seed)
        tables.write(thurbo.stack(completed, frame), output, fitted.schema_)
    else:
        tables.write(fitted.impute(frame), output, fitted.schema_)


@app.command()
def score(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Write log P of every row in nats, in the data's own units: the lower, the stranger."""
    tables.settle(output)
    fitted, frame = _open(model, data, quiet)
    from thurbo.cli import rows

    value, error = fitted.score_samples(frame, return_se=True)
    columns = {"log_probability": value, **({"standard_error": error} if error.any() else {})}
    tables.write(rows.about(fitted.schema_, frame, columns), output)
    weight = fitted.schema_.weights(frame, missing_columns="silent")
    what = f"log P of {counted(len(value), 'row')}"
    typer.echo(f"{rows.mean_in_words(value, weight, what)} nats")


@app.command()
def predict(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    column: Annotated[str, typer.Option(help="The question to answer, from all other cells of a row.")],
    given: options.Given = None,
    level: Annotated[float, typer.Option(min=0.0, max=1.0, help="Of a number: what share its interval holds.")] = 0.9,
    row: options.Row = None,
    item: options.Item = None,
    score: options.Score = None,
    columns: options.Columns = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Write the probability of every answer to one question, and the most probable; of a number, an interval."""
    tables.settle(output)
    fitted, frame = _open(model, data, quiet, long.Said(row, item, score, columns))
    from thurbo.cli import rows

    asked = fitted.schema_[column]
    if asked.labels:
        found = rows.probabilities(fitted, frame, column, given)
    elif asked.family == "measured":
        found = rows.interval(fitted, frame, column, given, level)
    else:
        raise ThurboError(f'column "{column}": it is {asked.kind}, which has no answer to predict; name another column')
    tables.write(rows.about(fitted.schema_, frame, found), output)


@app.command()
def evaluate(
    model: options.Model,
    data: options.Data,
    hide: Annotated[float, typer.Option(help="Share of the answers that are hidden.")] = 0.1,
    regressions: Annotated[bool, typer.Option(help="Compare with a regression of each column on all others.")] = True,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the figures as a table too.", show_default=False)
    ] = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Hide some answers, predict each from the rest of its row, and compare with simpler ways to guess."""
    if output is not None:
        tables.settle(output)
    fitted, frame = _open(model, data, quiet)
    found = fitted.evaluate(frame, hide=hide, random_state=seed, logistic=regressions)
    if output is not None:
        tables.write(found.frame, output)
    typer.echo(str(found))


@app.command()
def sample(
    model: options.Model,
    output: options.Output,
    n: Annotated[int, typer.Option("-n", "--rows", min=1, help="Number of rows.")] = 1000,
    given: options.Given = None,
    method: Annotated[
        options.Sampling, typer.Option(help="Draws from the model, or its most typical rows without noise.")
    ] = options.Sampling.GIBBS,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Write new rows from the model, in the data's own labels and units."""
    tables.settle(output)
    fitted = tables.load(model, lists=False)
    if fitted.frame_kind_ in {"numpy", "dict"}:  # a file has named columns, whatever the model learned from
        fitted.frame_kind_ = "pandas"
    drawn = fitted.sample(n, given=given, method=method.value, random_state=seed)
    tables.write(drawn, output, fitted.schema_)
    if not quiet:
        say(f"{counted(n, 'row')} written to {output}")
