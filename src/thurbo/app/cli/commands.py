"""The commands: `check` and `fit`; those that use a fitted model; `report`, `demo` and `explore`.

Most read a model and a table, and write a table with one line per row; answers about lists have one line per item.
Value labels are kept.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import thurbo
from thurbo.app.cli import options
from thurbo.app.cli.app import CommandInterrupted, command, counted, lazy, say
from thurbo.app.cli.options import LongNames, Request, Work, Written
from thurbo.errors import ThurboError

if TYPE_CHECKING:
    from thurbo.app.cli import results, tables
else:  # read when a command runs: they load dataframe libraries
    results, tables = lazy("thurbo.app.cli.results"), lazy("thurbo.app.cli.tables")


@command
def check(
    data: Path,
    *,
    schema: Path | None = None,
    output: Path | None = None,
    missing: str | None = None,
    details: bool = False,
    edit: bool = False,
    port: int = 0,
    browser: bool = True,
    names: LongNames,
) -> None:
    """Show how a file is read: what is modelled, what to check and why, what is left out, and all problems.

    With --edit, correct it in the browser.
    """
    if edit and output is None:
        output = schema or data.with_suffix(".toml")
        if schema is None and output.exists():
            raise ThurboError(f"{output} exists; give -s {output} to go on with it, or -o for another file")
    if output is not None:
        tables.check_output(output, ".toml")
    read, found = with_schema(data, schema, names, missing, in_parts=True)
    frame = read.typical() if isinstance(read, thurbo.Scan) else read
    if not tables.n_rows(frame):
        raise ThurboError(f'"{data}" has no rows; give at least one row')
    if edit and output is not None:
        from thurbo.app.editor import Editor

        editor = Editor(found, frame, output, title=data.name, is_saved=output == schema, data=data)
        serve(editor, port=port, browser=browser)
        follows = f" Next: thurbo fit {data} -s {output} -o {data.with_suffix('.thurbo').name}"
        say(f"The schema is in {output}.{follows}" if editor.is_saved else "The last changes were not saved.")
        return
    errors = results.problems(found, frame)
    if isinstance(read, thurbo.Scan):
        say(f"shown: a sample of {counted(tables.n_rows(frame), 'row')} of {read.n_rows:,}; checked: all of them")
        tables.check_rows(read, found.fit(frame))
    results.show_summary(found, frame, data, errors)
    if schema is None and names.row is None and (advice := tables.hint(frame)):
        typer.echo(advice)
    if details:
        results.show_details(found, frame, errors, is_inferred=schema is None)
    if output is not None:
        found.to_toml(output)
        typer.echo(f"\nSchema written to {output}")
    if errors:
        raise ThurboError(f"{results.count_problems(errors)} in {data}; correct the cells or the schema")


def with_schema(
    data: Path, path: Path | None, names: LongNames, missing: str | None = None, in_parts: bool = False
) -> tuple[Any, Any]:
    """A table with its schema, from the schema file if there is one; `missing` are codes such as "-9=refused,-8"."""
    codes: dict[str, str] = {}
    for part in filter(None, map(str.strip, (missing or "").split(","))):
        value, _, name = (word.strip() for word in part.partition("="))
        if not value:
            raise ThurboError(f'--missing has no value before "={name}"; write for example --missing -9=refused,-8')
        codes[value] = name or value
    if missing is not None and not codes:
        raise ThurboError("--missing names no value; write for example --missing -9,-8")
    # First, because reading a large table takes longer.
    chosen = None if path is None else thurbo.Schema.from_toml(path)
    return tables.read_long(data, names, chosen, codes, in_parts)


@command
def fit(
    data: Path,
    output: Path,
    *,
    schema: Path | None = None,
    missing: str | None = None,
    names: LongNames,
    hidden: int | None = None,
    factors: int | None = None,
    epochs: int | None = None,
    max_time: float | None = None,
    objective: options.Objective = options.Objective.AUTO,
    unobserved: options.Unobserved = options.Unobserved.MARGINALIZE,
    ordinals: options.Ordinals | None = None,
    masking: options.Masking | None = None,
    hold_out: float | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    seed: int = 0,
    devices: int | None = None,
    distributed: bool = False,
    coordinator: str | None = None,
    processes: int | None = None,
    process: int | None = None,
    run: Work,
) -> None:
    """Fit a model to a table and save it."""
    began = time.perf_counter()
    is_first = _joined(distributed, coordinator, processes, process)
    tables.destination(output)
    state = checkpoint or (_beside(output) if resume else None)
    if state is not None and state.absolute() == output.absolute():
        raise ThurboError("--checkpoint and --output name the same file; give --checkpoint another name")
    frame, found = with_schema(data, schema, names, missing, in_parts=True)
    is_table = schema is None and names.row is None
    if is_first and not run.quiet and is_table and (advice := tables.hint(frame)):
        say(advice)
    how = _given(validation_fraction=hold_out, devices=devices)
    if masking is not None:
        how["masking"] = masking.value
    learning = thurbo.Learning if masking is None else thurbo.Prediction
    model = thurbo.TBM(
        found if ordinals is None else found.read_ordinals(ordinals.value),
        objective=objective.value,
        unobserved=unobserved.value,
        learning=learning(**how) if how else None,
        max_time=max_time,
        checkpoint=state,
        random_state=seed,
        verbose=not run.quiet,
        **_given(n_hidden=hidden, n_factors=factors, max_epochs=epochs),
    )
    before = time.perf_counter() - began  # reading the file
    model.fit(frame)
    model.time_spent_ = {name: s + before * (name in ("reading", "total")) for name, s in model.time_spent_.items()}
    if not is_first:
        return
    if model._unfinished is not None:
        raise _interrupted(model, output, state)
    model.save(output)
    if state is not None and (not model.history_ or "settled" in model.history_[-1]):
        for each in (state, *state.parent.glob(f"{state.name}.[0-9]")):  # of all members
            each.unlink(missing_ok=True)  # kept if the fit did not run to its end, so that it can be resumed
    for line in _summary(model, frame, output):
        typer.echo(line)


def _given(**settings: Any) -> dict[str, Any]:
    """The settings that were given; the others have their defaults."""
    return {name: value for name, value in settings.items() if value is not None}


def _joined(distributed: bool, *place: Any) -> bool:
    """Join the other processes of this job, if there are any; whether this is the one that writes files."""
    if not distributed:
        if any(each is not None for each in place):
            raise ThurboError("--coordinator, --processes and --process are for --distributed; give that, too")
        return True
    thurbo.distributed.initialize(*place)
    return thurbo.distributed.is_first()


def _interrupted(model: Any, output: Path, state: Path | None) -> CommandInterrupted:
    """Save the state of an interrupted fit; the model itself is not written, because it is not what was asked for."""
    done = f"interrupted after {counted(len(model.history_), 'epoch')}; {output} was not written"
    if not model._unfinished.run.number:
        return CommandInterrupted(f"{done}, and there is nothing to continue from")
    path = state or _beside(output)
    model._unfinished.save(path)
    command = "the same command" if state is not None else "the same command with --resume"
    return CommandInterrupted(f"{done}. The state of training is in {path}: give {command} to continue from it")


def _beside(output: Path) -> Path:
    return output.with_name(f"{output.name}.checkpoint")


def _summary(model: Any, frame: Any, output: Path) -> list[str]:
    from thurbo.app.report.wording import time_words

    schema, history = model.schema_, model.history_
    units = counted(model.weights_.shape[1], "hidden unit")
    if model.loadings_.shape[1]:
        units += f" and {counted(model.loadings_.shape[1], 'factor')}"
    missing = "exclude" if schema.listed else model.unobserved
    held_out = [record["held_out"] for record in history if "held_out" in record]
    lines = [
        f"rows        {tables.n_rows(frame):,}",
        f"columns     {len(schema.modelled)} of {len(schema)} modelled, {schema.n_sites} sites",
        f"model       {units}, objective {model.objective_}, missing cells {missing}d",
        f"predictions {'exact' if model.method_ == 'exact' else 'approximate (mean-field)'}",
        f"objective   {history[-1]['objective']:.4f} nats per answer" if history else "objective   none",
        f"held out    {max(held_out):.4f} nats per answer" if held_out else "held out    no rows (see --hold-out)",
        f"time        {time_words(model.time_spent_)}, {counted(len(history), 'epoch')}",
    ]
    if not model.converged_:
        lines.append("settled     no: see the warning")
    return [*lines, f"saved       {output}"]


def _open(request: Request, output: Path | None, is_by_row: bool = False) -> tuple[Any, Any]:
    """A model and a table, if the output can be written.

    If an answer `is_by_row`, a table of several files, or a large one, is read in pieces.
    """
    in_parts = is_by_row and tables.in_parts(request.data, output)
    if output is not None:
        (tables.check_parts if in_parts else tables.check_output)(output)
    fitted = thurbo.TBM.load(request.model)
    frame, _ = tables.read_long(request.data, request, fitted.schema_, in_parts=in_parts)
    if isinstance(frame, thurbo.Scan):
        fitted.verbose = not request.quiet
    elif tables.as_table(frame).owner is None:
        frame, declared = tables.with_file_texts(request.data, frame, fitted.schema_)
        fitted.model_ = fitted.model_.with_missing(declared)
    if not request.quiet:
        say(f"{request.data}: {counted(tables.n_rows(frame), 'row')}")
    return fitted, frame


@command
def transform(request: Request, output: Path, *, kind: options.Hidden = options.Hidden.PROBABILITY) -> None:
    """Write the hidden units of each row, then the factors if the model has any."""
    fitted, frame = _open(request, output, is_by_row=True)

    def answer(rows: Any) -> Any:
        found = fitted.transform(rows, output=kind.value)
        units = dict(zip(map(str, fitted.get_feature_names_out()), found.T, strict=True))
        return results.about(fitted.schema_, rows, units)

    tables.write_rows(fitted, frame, output, request, answer, f"transform {kind.value}")


@command
def rank(
    request: Request,
    output: Path,
    *,
    top: int = 10,
    items: Path | None = None,
    item_list: str | None = None,
    include_seen: bool = False,
    ranking: str | None = None,
    by: options.Ranked = options.Ranked.RATING,
) -> None:
    """Write the best items of each row, best first: row, item, utility (or probability of choice) and place."""
    if items is not None and item_list is not None:
        raise ThurboError("--items and --item-list cannot be combined; give one of them")
    fitted, frame = _open(request, output, is_by_row=items is None)
    chosen = results.items_to_rank(fitted.schema_, frame, items, item_list)
    how = {"top": top, "items": chosen, "exclude_seen": not include_seen, "column": ranking, "by": by.value}
    tables.write_rows(fitted, frame, output, request, lambda rows: fitted.rank(rows, **how), f"rank {how!r}")


@command
def impute(
    request: Request,
    output: Path,
    *,
    draws: int = 0,
    fill: list[str] | None = None,
    flag: bool = False,
    item_list: str | None = None,
    seed: int = 0,
) -> None:
    """Write the table with its empty cells imputed; all other cells stay as they are in the file, byte for byte.

    Declared missing values ("refused"), n/a and questions that were not asked are kept; --fill imputes them too. --flag
    adds two columns for each column with imputed cells: NAME_imputed (true or false) and NAME_probability, the
    probability of the imputed answer; for a number NAME_margin, half of the width of its 90 % interval.

    A long table stays long: the items of --item-list are added to each row that lacks them, column "filled" marks the
    new lines, and the columns of the second table repeat on each line.
    """
    fitted, frame = _open(request, output, is_by_row=not draws)
    items, kinds = tables.items_named(fitted.schema_, item_list), tuple(fill or ())
    if isinstance(frame, thurbo.Scan):
        fitted.impute(frame, items=items, fill=kinds, flag=flag, out=output)
        return
    is_long = bool(tables.as_table(frame).lists)
    if flag and (draws or is_long):
        what = "--draws" if draws else "a long table"
        raise ThurboError(f"--flag cannot be combined with {what}; leave it out")
    if is_long:
        found = results.imputed(fitted, frame, items, kinds, draws, seed)
        tables.write(found, output, request, results.ordinary(fitted.schema_))
        return
    if draws:
        found = thurbo.stack(fitted.impute_draws(frame, draws, random_state=seed, items=items, fill=kinds), frame)
    else:
        found = fitted.impute(frame, items=items, fill=kinds, flag=flag)
    tables.write(found, output, request, fitted.schema_, like=request.data)


@command
def score(request: Request, output: Path) -> None:
    """Write the log-likelihood of each row (nats, in the units of the data); low values are unusual rows."""
    fitted, frame = _open(request, output, is_by_row=True)
    import numpy as np

    if isinstance(frame, thurbo.Scan):
        fitted.score_samples(frame, return_se=True, out=output)
        return
    value, error = fitted.score_samples(frame, return_se=True)
    found = {"log_probability": value, **({"standard_error": error} if error.any() else {})}
    tables.write(results.about(fitted.schema_, frame, found), output, request)
    weight, what = fitted.schema_.weights(frame, missing_columns="ignore"), "mean"
    if weight is not None:  # a row with weight zero must not matter, even if its value is −∞
        value, weight, what = value[weight > 0], weight[weight > 0], "weighted mean"
    mean = f"{what} log-likelihood of {counted(len(error), 'row')}: {np.average(value, weights=weight):.4f}"
    typer.echo(f"{mean} nats ({f'mean standard error {error.mean():.4f}' if error.any() else 'exact'})")


@command
def predict(
    request: Request,
    output: Path,
    *,
    column: str,
    given: list[str] | None = None,
    level: float = 0.9,
    item_list: str | None = None,
) -> None:
    """Write the most probable answer to one question and all probabilities; for a number, an interval.

    For lists of items, the predicted score (of orders, the place) of each item that a row lists, or of --item-list.
    """
    fitted, frame = _open(request, output, is_by_row=True)
    column = fitted.schema_.named(column)
    asked, items = fitted.schema_[column], tables.items_named(fitted.schema_, item_list, column)
    if asked.kind == "ratings":
        tables.write(results.predicted(fitted, frame, column, given, items), output, request)
        return
    if not asked.labels and asked.family != "measured":
        raise ThurboError(f'column "{column}": type {type(asked).__name__} cannot be predicted; name another column')

    def answer(rows: Any) -> Any:
        if asked.is_listed:  # a ranking of many items
            cells = tables.as_table(fitted.predict(rows, column, "auto", given=given, items=items))
            found = {name: cells.cells(name).values for name in cells.names}
        elif asked.labels:
            found = results.probabilities(fitted, rows, column, given)
        else:
            found = results.interval(fitted, rows, column, given, level)
        return results.about(fitted.schema_, rows, found)

    tables.write_rows(fitted, frame, output, request, answer, f"predict {column!r} {given!r} {level!r}")


@command
def evaluate(
    model: Path,
    *,
    data: Path | None = None,
    schema: Path | None = None,
    missing: str | None = None,
    folds: int | None = None,
    hide: float | None = None,
    repeats: int = 1,
    regressions: bool = True,
    boosting: bool | None = None,
    output: Path | None = None,
    names: LongNames,
    seed: int = 0,
    run: Written,
) -> None:
    """Hide some answers, predict each from the rest of its row, and compare with baselines.

    With MODEL and DATA, the answers of other respondents than those of the fit are masked. With DATA alone, a model is
    fitted anew for each of --folds parts of the answers, which are hidden before fitting; --hide with --repeats is
    quicker. No model is saved.
    """
    if data is not None:
        if schema is not None or missing is not None or folds is not None or repeats != 1:
            problem = "--schema, --missing, --folds and --repeats are for a fit anew"
            raise ThurboError(f"{problem}; leave them out, or give DATA without MODEL")
        fitted, frame = _open(Request(model=model, data=data, **vars(names), **vars(run)), output)
        how = {"random_state": seed, "logistic": regressions, "boosting": bool(boosting)}
        found = fitted.evaluate(frame, **how, **_given(hide=hide))
    else:
        if model.suffix.lower() == ".thurbo":
            raise ThurboError(f'"{model}" is a model; give a table too: thurbo evaluate {model} DATA')
        if hide is not None and folds is not None:
            raise ThurboError("--folds and --hide cannot be combined; give one of them")
        if hide is None and repeats != 1:
            raise ThurboError("--repeats needs --hide; give for example --hide 0.1 --repeats 3")
        if output is not None:
            tables.check_output(output)
        frame, types = with_schema(model, schema, names, missing)
        found = thurbo.evaluate(
            thurbo.TBM(types, random_state=seed),
            frame,
            repeats=repeats,
            logistic=regressions,
            random_state=seed,
            verbose=not run.quiet,
            **_given(folds=folds, hide=hide, boosting=boosting),
        )
    if output is not None:
        tables.write(found.frame, output, run)
    typer.echo(str(found))
    if data is not None:
        typer.echo(f"method of predictions: {fitted.method_}")


@command
def segments(request: Request, *, number: int | None = None, output: Path | None = None, seed: int = 0) -> None:
    """Divide the rows into segments, say whether these stand apart, and show the typical answers of each."""
    fitted, frame = _open(request, output)
    found = fitted.segments(frame, n="auto" if number is None else number, random_state=seed)
    if output is not None:
        tables.write(results.about(fitted.schema_, frame, {"segment": found.labels}), output, request)
    typer.echo(str(found))


@command
def sample(
    model: Path,
    output: Path,
    *,
    n: int = 1000,
    given: list[str] | None = None,
    item_list: str | None = None,
    method: options.Sampling = options.Sampling.AUTO,
    seed: int = 0,
    run: Written,
) -> None:
    """Write new rows drawn from the model, in the labels and units of the data.

    With a list of items the table is long: one line per item of each row; rows are numbered from 0. By default all
    items of a small catalogue are drawn.
    """
    tables.check_output(output)
    fitted = thurbo.TBM.load(model)
    if fitted.frame_kind_ in {"numpy", "dict"}:  # files need named columns
        fitted.frame_kind_ = "pandas"
    items = tables.items_named(fitted.schema_, item_list)
    drawn = fitted.sample(n, given=given, method=method.value, random_state=seed, items=items)
    tables.write(results.sampled(fitted.schema_, drawn, items), output, run, results.ordinary(fitted.schema_))
    if not run.quiet:
        say(f"{counted(n, 'row')} written to {output}")


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
    names: LongNames,
    seed: int = 0,
    run: Work,
) -> None:
    """Write a page about a model and a table: findings, warnings, segments, accuracy, questions, relations, map."""
    tables.check_output(output, ".html", ".htm")
    fitted = thurbo.TBM.load(model)
    frame, _ = tables.read_long(data, names, fitted.schema_)
    if not run.quiet:
        say("Summarising" if test is False else "Summarising, and testing the accuracy (--no-test leaves it out)")
    thurbo.report.write(
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
    run: Work,
) -> None:
    """Fit the bundled Star Wars survey, print the results, and write a report page."""
    from thurbo.app import demo as survey

    chosen = _given(n_hidden=hidden, max_epochs=epochs)
    survey.print_results(survey.run(**chosen, seed=seed, output=output, progress=None if run.quiet else say))


@command
def explore(
    model: Path,
    data: Path,
    *,
    port: int = 0,
    host: str = "127.0.0.1",
    points: int = 10_000,
    browser: bool = True,
    names: LongNames,
    seed: int = 0,
    run: Work,
) -> None:
    """Explore a model and a table in the browser: select groups on the map, pin answers, name and export segments."""
    fitted = thurbo.TBM.load(model)
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
