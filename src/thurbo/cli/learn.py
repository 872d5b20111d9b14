"""`thurbo check` and `thurbo fit`: from a file to a schema, and from a schema to a model."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from thurbo.cli import lists as long
from thurbo.cli import options, tables
from thurbo.cli.app import app, counted, say
from thurbo.errors import ThurboError

MOST_SHOWN = 50  # problems that are printed


@app.command()
def check(
    data: options.Data,
    schema: options.SchemaFile = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write the schema as TOML, to read and to edit.", show_default=False),
    ] = None,
    row: options.Row = None,
    item: options.Item = None,
    score: options.Score = None,
    columns: options.Columns = None,
) -> None:
    """Say what each column is taken for and why, and what cannot be read, by row and column."""
    from thurbo.cli.problems import MOST, problems
    from thurbo.io import frames

    if output is not None:
        tables.settle_as(output, ".toml")
    frame, found = _schema(data, schema, long.Said(row, item, score, columns))
    if not frames.table(frame).n_rows:
        raise ThurboError(f'"{data}" has no rows; give at least one row')
    errors = problems(found, frame)
    _show(found, frame, data)
    if schema is None and row is None and (advice := long.hint(frame)):
        typer.echo(advice)
    if output is not None:
        found.to_toml(output)
        typer.echo(f"\nSchema written to {output}")
    if errors:
        listed = [error for each in errors.values() for error in each]
        typer.echo(f"\n{_problems(errors, MOST)}:")
        for error in listed[:MOST_SHOWN]:
            typer.echo(f"  {' '.join(str(error).split())}")
        if len(listed) > MOST_SHOWN:
            typer.echo(f"  ... and {len(listed) - MOST_SHOWN} more")
        raise ThurboError(f"{_problems(errors, MOST)} in {data}; correct the cells, or the schema")


def _problems(errors: Mapping[str, list[Any]], most: int) -> str:
    count = sum(map(len, errors.values()))
    more = "at least " if any(len(each) == most for each in errors.values()) else ""
    return f"{more}{counted(count, 'problem')} in {counted(len(errors), 'column')}"


def _schema(data: Path, path: Path | None, said: long.Said) -> tuple[Any, Any]:
    """A table with its schema: from a file of its own where there is one."""
    from thurbo.schema import Schema

    chosen = None if path is None else Schema.from_toml(path)  # first: reading a large table takes longer
    return long.read(data, said, chosen)


def _show(schema: Any, frame: Any, data: Path) -> None:
    """The schema as a table, with the share of cells that are missing, by kind."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from thurbo.io import frames
    from thurbo.report.missing import missing_kinds, missing_words

    source = frames.table(frame)
    missing = missing_kinds(schema, source)
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 160  # a file has no edge to wrap at
    sizes = f"{counted(source.n_rows, 'row')}, {counted(len(source.names), 'column')}"
    console.print(f"{data}: {sizes}", markup=False)
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("column", "taken for", "a cell is", "missing", "why"):
        grid.add_column(heading, overflow="fold", max_width=60)
    for name, column in schema.items():
        title = schema.titles.get(name, name)
        words = (name if title == name else f"{name}: {title}", type(column).__name__, column.describe())
        grid.add_row(*map(_plain, (*words, missing_words(missing.get(name, {})), schema.reasons.get(name, ""))))
    console.print(grid)
    unread = [name for name in source.names if not _is_read(schema, name)]
    if unread:
        console.print(f"Not in the schema: {', '.join(unread)}", markup=False)


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(" ".join(text.split()))


def _is_read(schema: Any, name: str) -> bool:
    return name in schema or any(name in sources for sources in schema.source_columns.values())


@app.command()
def fit(
    data: options.Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the model goes.", show_default=False)],
    schema: options.SchemaFile = None,
    row: options.Row = None,
    item: options.Item = None,
    score: options.Score = None,
    columns: options.Columns = None,
    hidden: Annotated[
        int | None, typer.Option(min=0, help="Number of hidden units; chosen by the size of the data otherwise.")
    ] = None,
    factors: Annotated[int | None, typer.Option(min=0, help="Number of Gaussian factors.")] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Passes over the data.")] = None,
    objective: Annotated[options.Objective, typer.Option(help="What is maximised.")] = options.Objective.AUTO,
    unobserved: Annotated[
        options.Unobserved,
        typer.Option(help="A missing cell is integrated over, or is no variable of its row's model at all."),
    ] = options.Unobserved.MARGINALIZE,
    ordinals: Annotated[
        options.Ordinals | None,
        typer.Option(
            help="Ordered levels by a utility each (for thousands of answers to a question), or by cuts of one scale; "
            "auto lets hidden answers decide for each question, by two more fits. As the schema says otherwise.",
            show_default=False,
        ),
    ] = None,
    hiding: Annotated[
        options.Hiding,
        typer.Option(
            help="What training hides from itself: single cells, best to fill in by, or runs of neighbouring columns, "
            "whose features say most of who respondents are."
        ),
    ] = options.Hiding.CELLS,
    hold_out: Annotated[
        float | None,
        typer.Option(min=0.0, max=0.9, help="Share of rows kept apart to watch training by; 0.1 of large tables."),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Keep the state of training in this file; a file that is there is gone on from."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="The same, in a file beside the model, named OUTPUT.checkpoint.")
    ] = False,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Learn a model from a table and write it to one file."""
    tables.settle_as(output)
    notes = checkpoint or (output.with_name(f"{output.name}.checkpoint") if resume else None)
    if notes is not None and notes.absolute() == output.absolute():
        raise ThurboError("--checkpoint names the file of the model; give it a name of its own")
    frame, found = _schema(data, schema, long.Said(row, item, score, columns))
    if not quiet and schema is None and row is None and (advice := long.hint(frame)):
        say(advice)
    from thurbo.estimators.tbm import TBM

    model = TBM(
        found if ordinals in (None, options.Ordinals.AUTO) else found.read_ordinals(ordinals.value),
        n_hidden="auto" if hidden is None else hidden,
        n_factors="auto" if factors is None else factors,
        max_epochs="auto" if epochs is None else epochs,
        objective=objective.value,
        unobserved=unobserved.value,
        hiding=hiding.value,
        validation_fraction="auto" if hold_out is None else hold_out,
        checkpoint=notes,
        random_state=seed,
        verbose=not quiet,
    )
    if ordinals is options.Ordinals.AUTO:
        from thurbo.estimators.ordinals import choose_ordinals

        model.schema = choose_ordinals(frame, model, random_state=seed)
        if not quiet:
            for name, why in model.schema.reasons.items():
                if why.startswith("read by"):
                    say(f"{name}: {why}")
    model.fit(frame)
    model.save(output)
    if notes is not None and model.converged_:
        notes.unlink(missing_ok=True)  # the model is the result; of what was interrupted more may be wanted
    for line in _told(model, frame, output):
        typer.echo(line)


def _told(model: Any, frame: Any, output: Path) -> list[str]:
    """What was learned from what, for people."""
    from thurbo.io import frames

    n_rows, schema, history = frames.table(frame).n_rows, model.schema_, model.history_
    units = counted(model.weights_.shape[1], "hidden unit")
    if model.loadings_.shape[1]:
        units += f" and {counted(model.loadings_.shape[1], 'factor')}"
    missing = "exclude" if schema.has_lists else model.unobserved
    watched = [record["held_out"] for record in history if "held_out" in record]
    lines = [
        f"rows        {n_rows:,}",
        f"columns     {len(schema.modelled)} of {len(schema)} modelled, by {schema.n_sites} sites",
        f"model       {units}, by {model.objective_}, unobserved cells {missing}d",
        f"objective   {history[-1]['objective']:.4f} nats a cell" if history else "objective   none",
        f"held out    {max(watched):.4f} nats a cell" if watched else "held out    no rows (see --hold-out)",
        f"time        {history[-1]['seconds']:.1f} s, {len(history)} epochs" if history else "time        0 epochs",
    ]
    if not model.converged_:
        lines.append("converged   no: see the warning")
    return [*lines, f"saved       {output}"]
