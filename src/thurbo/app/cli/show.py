"""`thurbo report`, `thurbo demo` and `thurbo explore`: a self-contained HTML page, or a model live in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from thurbo.app.cli import options, tables
from thurbo.app.cli.app import command, say


@command
def report(
    model: options.Model,
    data: options.Data,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    title: Annotated[str | None, typer.Option(help="Title of the page.", show_default=False)] = None,
    rows_are: Annotated[str, typer.Option(help="Name of the rows on the page, for example respondents.")] = "rows",
    colour_by: Annotated[
        list[str] | None,
        typer.Option(help="A column that colours the map; may be repeated.", show_default=False),
    ] = None,
    points: Annotated[
        int, typer.Option(min=10, help="Maximum number of rows on the map; a random sample if there are more.")
    ] = 3000,
    test: Annotated[
        bool | None,
        typer.Option(
            "--test/--no-test",
            help="Test the accuracy on hidden answers; on the rows of the fit, this fits once more without them. By "
            "default if the fit took up to three minutes.",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Let the map tell the answers of single rows. Respondents are people.")
    ] = False,
    names: options.LongNames,
    seed: options.Seed = 0,
    run: options.Work,
) -> None:
    """Write a page about a model and a table: findings, warnings, segments, accuracy, questions, relations, map."""
    tables.check_output_as(output, ".html", ".htm")
    fitted = tables.load(model)
    frame, _ = tables.read_long(data, names, fitted.schema_)
    from thurbo.app import report as page

    if not run.quiet:
        say("Summarising" if test is False else "Summarising, and testing the accuracy (--no-test leaves it out)")
    page.write(
        fitted,
        frame,
        output,
        test="auto" if test is None else test,
        title=title or f"Report on {data.stem}",
        rows_are=rows_are,
        colour_by=colour_by,
        seed=seed,
        max_points=points,
        rows=rows,
    )
    typer.echo(f"Report written to {output}")


@command
def demo(
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    hidden: Annotated[
        int | None, typer.Option(min=1, help="Number of hidden units; by default four models are averaged.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Number of passes over the data.")] = None,
    seed: options.Seed = 0,
    run: options.Work,
) -> None:
    """Fit the bundled Star Wars survey, print the results, and write a report page."""
    from thurbo.app import demo as survey

    chosen = {"n_hidden": hidden or "auto", "max_epochs": epochs or "auto"}
    found = survey.run(**chosen, seed=seed, output=output, progress=None if run.quiet else say)  # type: ignore[arg-type]
    survey.print_results(found)


@command
def explore(
    model: options.Model,
    data: options.Data,
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the server; 0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Others than 127.0.0.1 let other machines see the answers.")
    ] = "127.0.0.1",
    points: Annotated[int, typer.Option(min=10, max=30_000, help="Maximum number of rows on the map.")] = 10_000,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    names: options.LongNames,
    seed: options.Seed = 0,
    run: options.Work,
) -> None:
    """Explore a model and a table in the browser: select groups on the map, pin answers, name and export segments."""
    fitted = tables.load(model)
    frame, _ = tables.read_long(data, names, fitted.schema_)
    from thurbo.app import explorer

    if not run.quiet:
        say("Drawing the map")
    session = explorer.Session(fitted, frame, title=data.stem, seed=seed, max_points=points)
    session.pinned([])  # compiles what the first question would wait for
    server = explorer.Server(session, host, port)
    typer.echo(f"Open {server.address}\nEnd with Ctrl+C.")
    if browser:
        import webbrowser

        webbrowser.open(server.address)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        say("Ended.")
    finally:
        server.server_close()
