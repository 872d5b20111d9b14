"""`thurbo report`, `thurbo demo` and `thurbo explore`: a self-contained HTML page, or a model live in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from thurbo.app.cli import options, tables
from thurbo.app.cli.app import command, say


@command
def report(
    model: Path,
    data: Path,
    *,
    output: Path = Path("report.html"),
    title: str | None = None,
    rows_are: str = "rows",
    colour_by: list[str] | None = None,
    points: int = 3000,
    test: bool | None = None,
    rows: bool = False,
    names: options.LongNames,
    seed: int = 0,
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
    output: Path = Path("report.html"),
    hidden: int | None = None,
    epochs: int | None = None,
    seed: int = 0,
    run: options.Work,
) -> None:
    """Fit the bundled Star Wars survey, print the results, and write a report page."""
    from thurbo.app import demo as survey

    chosen = {"n_hidden": hidden or "auto", "max_epochs": epochs or "auto"}
    found = survey.run(**chosen, seed=seed, output=output, progress=None if run.quiet else say)  # type: ignore[arg-type]
    survey.print_results(found)


@command
def explore(
    model: Path,
    data: Path,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    points: int = 10_000,
    browser: bool = True,
    names: options.LongNames,
    seed: int = 0,
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
    serve(session, host, port, browser)


def serve(session: Any, host: str = "127.0.0.1", port: int = 0, browser: bool = True) -> None:
    """Show a page until Ctrl+C."""
    from thurbo.app.server import Server

    server = Server(session, host, port)
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
