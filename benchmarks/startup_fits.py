"""One process of `benchmarks.startup`: a first fit with every default, its compiled programs, and a first query.

    python -m benchmarks.startup_fits starwars [thanksgiving]      the second table after the first, in one process
    python -m benchmarks.startup_fits starwars --peers             scikit-learn on the same table

Every figure is counted from the start of the interpreter: imports are part of the wait. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

BEGAN, CPU_BEGAN = time.perf_counter(), time.process_time()

FILES = {
    "starwars": "starwars/StarWars.csv",
    "thanksgiving": "small-surveys/thanksgiving-2015.csv",
    "flying": "small-surveys/flying-etiquette.csv",
    "comma": "small-surveys/comma-survey.csv",
    "steak": "small-surveys/steak-risk-survey.csv",
    "weather": "small-surveys/weather-check.csv",
    "r4-raw": "afrobarometer-r4/afrobarometer_r4.zsav",
}
LABELLED = ("binary", "ordinal", "categorical")
STAGES = {
    "jaxpr_trace_duration": "trace_s",
    "jaxpr_to_mlir_module_duration": "lower_s",
    "backend_compile_duration": "compile_s",
}


class Programs:
    """Programs that JAX compiled, or loaded from its cache, since this was made: (name, stage, seconds) of each step.

    Only events of this process are seen, in the order in which they end.
    """

    def __init__(self) -> None:
        from jax import monitoring

        self.events: list[tuple[str, str, float]] = []
        monitoring.register_event_duration_secs_listener(self._told)

    def _told(self, event: str, seconds: float, **about: Any) -> None:
        stage = STAGES.get(event.rpartition("/")[2])
        if stage is not None:
            self.events.append((str(about.get("fun_name")), stage, seconds))

    @property
    def n(self) -> int:
        """Number of programs."""
        return len(self.names())

    def names(self, since: int = 0) -> list[str]:
        """Programs compiled after so many events."""
        return [name.removeprefix("jit(").removesuffix(")") for name, s, _ in self.events[since:] if s == "compile_s"]

    def seconds(self, since: int = 0) -> dict[str, float]:
        """Number of programs, and seconds of tracing, lowering and compiling (loading, if they were in the cache)."""
        found: dict[str, float] = {"programs": len(self.names(since)), **dict.fromkeys(STAGES.values(), 0.0)}
        for _, stage, seconds in self.events[since:]:
            found[stage] = round(found[stage] + seconds, 3)
        return found


class Now(NamedTuple):
    """Wall-clock and processor seconds since the interpreter began."""

    wall: float
    cpu: float

    @classmethod
    def read(cls) -> Now:
        return cls(time.perf_counter() - BEGAN, time.process_time() - CPU_BEGAN)

    def since(self, before: Now) -> dict[str, float]:
        """Differences, rounded for JSON."""
        return {"wall_s": round(self.wall - before.wall, 2), "cpu_s": round(self.cpu - before.cpu, 2)}


def table(name: str) -> tuple[Any, Any]:
    """A table by name, and its schema; None where the model infers it."""
    import thurbo as tb

    if name == "40x3":
        import numpy as np
        import pandas as pd

        rng = np.random.default_rng(0)
        mood = rng.normal(size=40)
        news = np.where(mood + rng.normal(size=40) > 0, "paper", rng.choice(["radio", "web"], 40))
        trust = np.clip(np.round(3 + mood + rng.normal(size=40)), 1, 5).astype(int)
        return pd.DataFrame({"news": news, "trust": trust, "income": np.exp(mood + 0.5 * rng.normal(size=40))}), None
    if name == "ml-1m":
        from benchmarks import movielens_data

        frame = movielens_data.read_ratings(Path(os.environ["THURBO_DATA"]) / "movielens-1m")
        return tb.from_long(frame, "user_id", "movie_id", "rating"), None
    frame, schema = tb.read(Path(os.environ["THURBO_DATA"]) / FILES[name])
    return frame, schema


@contextmanager
def _first_epoch(found: dict[str, Now]) -> Any:
    """Note when the first epoch of a fit has ended."""
    from thurbo.fit import course

    quiet = course.progress

    @contextmanager
    def noting(*arguments: Any, **options: Any) -> Any:
        with quiet(*arguments, **options) as told:

            def note(record: dict[str, Any]) -> None:
                if "epoch" in record or record.get("done"):
                    found.setdefault("first epoch", Now.read())
                told(record)

            yield note

    course.progress = noting
    try:
        yield
    finally:
        course.progress = quiet


def fit(name: str, programs: Programs, before: Now) -> dict[str, Any]:
    """Read a table, fit it with every default, predict one column; times since `before`."""
    import thurbo as tb

    first = len(programs.events)
    frame, schema = table(name)
    marks = {"read": Now.read()}
    with _first_epoch(marks):
        model = tb.TBM(schema, random_state=0).fit(frame)
    marks["fitted"] = Now.read()
    fitted = programs.seconds(first)
    asked = len(programs.events)
    schema = model.schema_
    column = next((each for each in schema.modelled if schema[each].kind in LABELLED), None)
    if column is None:
        model.transform(frame)
    else:
        model.predict_proba(frame, column)
    marks["asked"] = Now.read()
    return {
        "table": name,
        "rows": len(frame) if hasattr(frame, "__len__") else None,
        "columns": len(schema.modelled),
        **{stage: mark.since(before) for stage, mark in marks.items()},
        "fit": fitted,
        "query": programs.seconds(asked),
        "programs_of_fit": programs.names(first)[: int(fitted["programs"])],
        "programs_of_query": programs.names(asked),
    }


def peers(name: str) -> dict[str, Any]:
    """Chained regressions, and a logistic regression of each column of labels on all others, on the same table."""
    import pandas as pd

    frame, _ = table(name)
    read = Now.read()
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    coded = frame.apply(
        lambda c: c if pd.api.types.is_numeric_dtype(c) else pd.Series(pd.factorize(c)[0]).where(c.notna().to_numpy())
    )
    coded = coded.loc[:, coded.notna().any()].astype(float)
    wide = coded.shape[1] > 100
    IterativeImputer(random_state=0, n_nearest_features=20 if wide else None, max_iter=3 if wide else 10).fit_transform(
        coded
    )
    imputed, start = Now.read(), Now.read()
    labels = [c for c in coded if 2 <= coded[c].nunique() <= 30]
    texts = coded.astype(object).where(coded.notna(), "none")
    for column in labels:
        known = coded[column].notna().to_numpy()
        features = StandardScaler().fit_transform(pd.get_dummies(texts[[c for c in labels if c != column]].astype(str)))
        LogisticRegression(max_iter=200).fit(features[known], coded[column][known])
    return {
        "table": name,
        "IterativeImputer": imputed.since(read),
        "logistic regressions": {**Now.read().since(start), "columns": len(labels)},
    }


def main() -> None:
    """Run one case and print it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--peers", action="store_true")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore")
    if chosen.peers:
        print(json.dumps([peers(name) for name in chosen.tables]))
        return
    import thurbo as tb

    _ = tb.TBM  # imports as a script does; only then what counts programs, which needs JAX
    programs, found, before = Programs(), [], Now(0.0, 0.0)
    for name in chosen.tables:
        found.append(fit(name, programs, before))
        before = Now.read()
    print(json.dumps(found))


if __name__ == "__main__":
    main()
