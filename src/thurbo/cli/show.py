"""`thurbo report` and `thurbo demo`: one self-contained page for people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thurbo.cli import options, tables
from thurbo.cli.app import app, say


@app.command()
def report(
    model: options.Model,
    data: options.Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default=False)] = None,
    rows_are: Annotated[str, typer.Option(help="What rows are called.")] = "rows",
    colour_by: Annotated[
        list[str] | None,
        typer.Option(help="A question that colours the map; may be repeated.", show_default=False),
    ] = None,
    points: Annotated[int, typer.Option(min=10, help="Most rows on the map; more are drawn at random.")] = 3000,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Write one page about a model and a table: columns, gaps, training, hidden units and a map of the rows."""
    tables.settle_as(output, ".html", ".htm")
    fitted = tables.load(model, lists=False)
    frame, _ = tables.read(data)
    from thurbo import report as page
    from thurbo.io.files import write_atomically

    if not quiet:
        say("Drawing the map")
    summary = page.summary(
        fitted,
        frame,
        title=title or f"What {data.stem} says",
        rows_are=rows_are,
        colour_by=colour_by,
        seed=seed,
        max_points=points,
    )
    write_atomically(output, page.render(summary))
    typer.echo(f"The page: {output}")


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the page goes.")] = Path("report.html"),
    hidden: Annotated[int, typer.Option(min=1, help="Number of hidden units.")] = 6,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the data.")] = 30,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Fit the bundled Star Wars survey, say what was found, and write it as one page."""
    from thurbo import demo as story

    found = story.run(n_hidden=hidden, max_epochs=epochs, seed=seed, output=output, progress=None if quiet else say)
    story.tell(found)
