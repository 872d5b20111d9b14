"""`thurbo explore`: a model and a table live in the browser."""

from __future__ import annotations

from typing import Annotated

import typer

from thurbo.cli import lists as long
from thurbo.cli import options, tables
from thurbo.cli.app import app, say


@app.command()
def explore(
    model: options.Model,
    data: options.Data,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the server; 0 takes a free one.")] = 0,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Others than 127.0.0.1 let other machines see the answers.")
    ] = "127.0.0.1",
    points: Annotated[int, typer.Option(min=10, max=30_000, help="Maximum number of rows on the map.")] = 10_000,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")] = True,
    row: options.Row = None,
    item: options.Item = None,
    score: options.Score = None,
    columns: options.Columns = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
) -> None:
    """Explore a model and a table in the browser: select groups on the map, pin answers, name and export segments."""
    fitted = tables.load(model)
    frame, _ = long.read(data, long.LongNames(row, item, score, columns), fitted.schema_)
    from thurbo import explorer

    if not quiet:
        say("Drawing the map")
    session = explorer.Session(fitted, frame, title=data.stem, seed=seed, max_points=points)
    session.pinned([])  # compiles what the first question would wait for
    server = explorer.serve(session, host, port)
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
