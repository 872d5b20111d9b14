"""Commands that use a fitted model: transform, rank, impute, score, predict, evaluate, segments, sample.

Each reads a model and a table, and writes a table with one line per row; answers about lists have one line per item.
Value labels are kept.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from thurbo.app.cli import options, tables
from thurbo.app.cli.app import command, counted, say
from thurbo.app.cli.learn import with_schema
from thurbo.errors import ThurboError


def _open(model: Path, data: Path, quiet: bool, names: options.LongNames) -> tuple[Any, Any]:
    """A model and a table; `names` are the columns of a long table."""
    from thurbo.table.io.frames import as_table

    fitted = tables.load(model)
    frame, _ = tables.read_long(data, names, fitted.schema_)
    if as_table(frame).owner is None:
        frame, declared = tables.with_texts(data, frame, fitted.schema_)
        fitted.model_ = fitted.model_.with_missing(declared)
    if not quiet:
        say(f"{data}: {counted(as_table(frame).n_rows, 'row')}")
    return fitted, frame


@command
def transform(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    *,
    kind: Annotated[
        options.Hidden, typer.Option("--as", help="Write P(h = 1) of each hidden unit, or its log-odds.")
    ] = options.Hidden.PROBABILITY,
    names: options.LongNames,
    run: options.Written,
) -> None:
    """Write the hidden units of each row, then the factors if the model has any."""
    tables.check_output(output)
    fitted, frame = _open(model, data, run.quiet, names)
    from thurbo.app.cli import results

    found = fitted.transform(frame, output=kind.value)
    units = dict(zip(map(str, fitted.get_feature_names_out()), found.T, strict=True))
    tables.write(results.about(fitted.schema_, frame, units), output, escape=run.escape_formulas)


@command
def rank(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    *,
    top: Annotated[int, typer.Option(min=1, help="Number of items per row.")] = 10,
    items: Annotated[
        Path | None,
        typer.Option(
            help="Rank only these items: a table with one column of items, or with a row and an item column.",
            show_default=False,
        ),
    ] = None,
    item_list: Annotated[
        str | None, typer.Option(help="Rank only these items, separated by commas.", show_default=False)
    ] = None,
    include_seen: Annotated[
        bool, typer.Option("--include-seen", help="Include items that the row already has.")
    ] = False,
    ranking: Annotated[
        str | None, typer.Option("--column", help="Name of the ranking, if the model has several.", show_default=False)
    ] = None,
    names: options.LongNames,
    run: options.Written,
) -> None:
    """Write the best items of each row, best first: row, item, utility and place."""
    tables.check_output(output)
    if items is not None and item_list is not None:
        raise ThurboError("--items and --item-list cannot be combined; give one of them")
    fitted, frame = _open(model, data, run.quiet, names)
    from thurbo.app.cli import results

    chosen = None
    if items is not None:
        asked = tables.with_row_texts(items, tables.read(items)[0], frame, fitted.schema_)
        chosen = results.items_of(fitted.schema_, asked)
    if item_list is not None:
        chosen = results.items_named(fitted.schema_, item_list)
    best = fitted.rank(frame, top=top, items=chosen, exclude_seen=not include_seen, column=ranking)
    tables.write(results.as_frame(best), output, escape=run.escape_formulas)


@command
def impute(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    *,
    draws: Annotated[
        int,
        typer.Option(min=0, help="Number of multiple imputations, stacked below the data (.imp, .id); 0: one table."),
    ] = 0,
    fill: Annotated[
        list[str] | None,
        typer.Option(
            "--fill",
            help='Also impute this kind of missing answer, such as refused, or "not applicable" for questions that '
            "were not asked; all for every kind. May be repeated.",
            show_default=False,
        ),
    ] = None,
    flag: Annotated[
        bool,
        typer.Option(
            "--flag",
            help="Add columns that say which cells were imputed (_imputed), and their _probability or _margin.",
        ),
    ] = False,
    item_list: options.ItemList = None,
    names: options.LongNames,
    seed: options.Seed = 0,
    run: options.Written,
) -> None:
    """Write the table with its empty cells imputed; all other cells stay as they are in the file, byte for byte.

    Declared missing values ("refused"), n/a and questions that were not asked are kept; --fill imputes them too. --flag
    adds two columns for each column with imputed cells: NAME_imputed (true or false) and NAME_probability, the
    probability of the imputed answer; for a number NAME_margin, half of the width of its 90 % interval.

    A long table stays long: the items of --item-list are added to each row that lacks them, column "filled" marks the
    new lines, and the columns of the second table repeat on each line.
    """
    tables.check_output(output)
    fitted, frame = _open(model, data, run.quiet, names)
    items = tables.items_named(fitted.schema_, item_list)
    from thurbo.app.cli import results
    from thurbo.table.io.frames import as_table

    kinds = tuple(fill or ())
    if flag and (draws or as_table(frame).lists):
        what = "--draws" if draws else "a long table"
        raise ThurboError(f"--flag cannot be combined with {what}; leave it out")
    if as_table(frame).lists:
        found = results.imputed_draws(fitted, frame, items, draws, seed, kinds) if draws else None
        found = results.imputed(fitted, frame, items, kinds) if found is None else found
        tables.write(found, output, results.ordinary(fitted.schema_), escape=run.escape_formulas)
    elif draws:
        import thurbo

        completed = fitted.impute_draws(frame, draws, random_state=seed, items=items, fill=kinds)
        tables.write(thurbo.stack(completed, frame), output, fitted.schema_, like=data, escape=run.escape_formulas)
    else:
        tables.write(
            fitted.impute(frame, items=items, fill=kinds, flag=flag),
            output,
            fitted.schema_,
            like=data,
            escape=run.escape_formulas,
        )


@command
def score(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    *,
    names: options.LongNames,
    run: options.Written,
) -> None:
    """Write the log-likelihood of each row (nats, in the units of the data); low values are unusual rows."""
    tables.check_output(output)
    fitted, frame = _open(model, data, run.quiet, names)
    from thurbo.app.cli import results

    value, error = fitted.score_samples(frame, return_se=True)
    found = {"log_probability": value, **({"standard_error": error} if error.any() else {})}
    tables.write(results.about(fitted.schema_, frame, found), output, escape=run.escape_formulas)
    weight = fitted.schema_.weights(frame, missing_columns="ignore")
    what = f"log-likelihood of {counted(len(value), 'row')}"
    known = f"mean standard error {error.mean():.4f}" if error.any() else "exact"
    typer.echo(f"{results.mean_in_words(value, weight, what)} nats ({known})")


@command
def predict(
    model: options.Model,
    data: options.Data,
    output: options.Output,
    *,
    column: Annotated[str, typer.Option(help="The column to predict, from all other cells of the row.")],
    given: options.Given = None,
    level: Annotated[float, typer.Option(min=0.0, max=1.0, help="Probability of the interval of a number.")] = 0.9,
    item_list: options.ItemList = None,
    names: options.LongNames,
    run: options.Written,
) -> None:
    """Write the most probable answer to one question and all probabilities; for a number, an interval.

    For lists of items, the predicted score (of orders, the place) of each item that a row lists, or of --item-list.
    """
    tables.check_output(output)
    fitted, frame = _open(model, data, run.quiet, names)
    from thurbo.app.cli import results

    asked, items = fitted.schema_[column], tables.items_named(fitted.schema_, item_list, column)
    if asked.kind == "ratings":
        tables.write(results.predicted(fitted, frame, column, given, items), output, escape=run.escape_formulas)
        return
    if asked.is_listed:  # a ranking of many items
        found = results.cells(fitted, frame, column, given, items)
    elif asked.labels:
        found = results.probabilities(fitted, frame, column, given)
    elif asked.family == "measured":
        found = results.interval(fitted, frame, column, given, level)
    else:
        raise ThurboError(f'column "{column}": type {type(asked).__name__} cannot be predicted; name another column')
    tables.write(results.about(fitted.schema_, frame, found), output, escape=run.escape_formulas)


@command
def evaluate(
    model: options.ModelOrData,
    *,
    data: options.DataOfModel = None,
    schema: options.SchemaFile = None,
    missing: options.Missing = None,
    folds: options.Folds = None,
    hide: options.Hide = None,
    repeats: options.Repeats = 1,
    regressions: Annotated[
        bool, typer.Option(help="Compare with a regression of each column on all others (slower).")
    ] = True,
    boosting: Annotated[
        bool | None,
        typer.Option(
            help="Compare with gradient boosting of each column (slower). By default only if the model is fitted anew.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write the results as a table.", show_default=False)
    ] = None,
    names: options.LongNames,
    seed: options.Seed = 0,
    run: options.Written,
) -> None:
    """Hide some answers, predict each from the rest of its row, and compare with baselines.

    With MODEL and DATA, the answers of other respondents than those of the fit are masked. With DATA alone, a model is
    fitted anew for each of --folds parts of the answers, which are hidden before fitting; --hide with --repeats is
    quicker. No model is saved.
    """
    if output is not None:
        tables.check_output(output)
    if data is None:
        frame, types = _to_fit(model, schema, missing, names)
        chosen = {"folds": folds, "hide": hide, "repeats": repeats, "logistic": regressions, "boosting": boosting}
        found = _evaluate_anew(frame, types, seed, run.quiet, chosen)
    else:
        if schema is not None or missing is not None or folds is not None or repeats != 1:
            problem = "--schema, --missing, --folds and --repeats are for a fit anew"
            raise ThurboError(f"{problem}; leave them out, or give DATA without MODEL")
        fitted, frame = _open(model, data, run.quiet, names)
        found = fitted.evaluate(
            frame,
            hide=0.1 if hide is None else hide,
            random_state=seed,
            logistic=regressions,
            boosting=bool(boosting),
        )
    if output is not None:
        tables.write(found.frame, output, escape=run.escape_formulas)
    typer.echo(str(found))
    if data is not None:
        typer.echo(f"method of predictions: {fitted.method_}")


@command
def segments(
    model: options.Model,
    data: options.Data,
    *,
    number: Annotated[
        int | None,
        typer.Option("--number", "-n", min=1, help="Number of segments; by default it is chosen.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Also write the segment of each row.", show_default=False),
    ] = None,
    names: options.LongNames,
    seed: options.Seed = 0,
    run: options.Written,
) -> None:
    """Divide the rows into segments, say whether these stand apart, and show the typical answers of each."""
    if output is not None:
        tables.check_output(output)
    fitted, frame = _open(model, data, run.quiet, names)
    from thurbo.app.cli import results

    found = fitted.segments(frame, n="auto" if number is None else number, random_state=seed)
    if output is not None:
        own = results.about(fitted.schema_, frame, {"segment": found.labels})
        tables.write(own, output, escape=run.escape_formulas)
    typer.echo(str(found))


@command
def sample(
    model: options.Model,
    output: options.Output,
    *,
    n: Annotated[int, typer.Option("-n", "--rows", min=1, help="Number of rows.")] = 1000,
    given: options.Given = None,
    item_list: options.ItemList = None,
    method: Annotated[
        options.Sampling,
        typer.Option(
            help="Random rows: cell by cell (sequential) or by Gibbs sampling; auto takes what suits the training of "
            "the model. Or its most typical rows without noise (modes)."
        ),
    ] = options.Sampling.AUTO,
    seed: options.Seed = 0,
    run: options.Written,
) -> None:
    """Write new rows drawn from the model, in the labels and units of the data.

    With a list of items the table is long: one line per item of each row; rows are numbered from 0. By default all
    items of a small catalogue are drawn.
    """
    tables.check_output(output)
    fitted = tables.load(model)
    if fitted.frame_kind_ in {"numpy", "dict"}:  # files need named columns
        fitted.frame_kind_ = "pandas"
    from thurbo.app.cli import results

    items = tables.items_named(fitted.schema_, item_list)
    drawn = fitted.sample(n, given=given, method=method.value, random_state=seed, items=items)
    found = results.sampled(fitted.schema_, drawn, items)
    tables.write(found, output, results.ordinary(fitted.schema_), escape=run.escape_formulas)
    if not run.quiet:
        say(f"{counted(n, 'row')} written to {output}")


def _to_fit(data: Path, schema: Path | None, missing: str | None, names: options.LongNames) -> tuple[Any, Any]:
    """The table and its schema; a model file in its place is an error."""
    if data.suffix.lower() == ".thurbo":
        raise ThurboError(f'"{data}" is a model; give a table too: thurbo evaluate {data} DATA')
    return with_schema(data, schema, names, missing)


def _evaluate_anew(frame: Any, schema: Any, seed: int, quiet: bool, chosen: dict[str, Any]) -> Any:
    """The result of `tb.evaluate` with every setting of the model left alone."""
    import thurbo

    if chosen["hide"] is not None and chosen["folds"] is not None:
        raise ThurboError("--folds and --hide cannot be combined; give one of them")
    if chosen["hide"] is None and chosen["repeats"] != 1:
        raise ThurboError("--repeats needs --hide; give for example --hide 0.1 --repeats 3")
    settings = {name: value for name, value in chosen.items() if value is not None}
    return thurbo.evaluate(
        thurbo.TBM(schema, random_state=seed), frame, random_state=seed, verbose=not quiet, **settings
    )
