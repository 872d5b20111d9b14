"""How many programs a first fit and each query compile: most of a newcomer's wait is compilation.

Counted in a process of its own, in which nothing has been compiled before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

MOST_OF_FIT, MOST_OF_QUERY = 20, 3
SURVEY = """
import json, sys, warnings
import numpy as np, pandas as pd
import thurbo as tb
from benchmarks.startup_fits import Programs

warnings.simplefilter("ignore")
programs = Programs()
rng, n = np.random.default_rng(0), 220
mood = rng.normal(size=n)
frame = pd.DataFrame({
    "fan": np.where(mood + rng.normal(size=n) > 0, "yes", "no"),
    "trust": np.clip(np.round(3 + mood + rng.normal(size=n)), 1, 5),
    "news": np.where(mood > 0.5, "paper", rng.choice(["radio", "web"], n)),
    "party": rng.choice(["red", "green", "blue", "none"], n),
    "income": np.exp(mood + 0.5 * rng.normal(size=n)).round(3),
})
for name in frame:
    frame.loc[rng.random(n) < 0.1, name] = None
schema = {
    "fan": tb.Binary(), "trust": tb.Ordinal([1, 2, 3, 4, 5]), "news": tb.Categorical(), "party": tb.Categorical(),
    "income": tb.Continuous(),
}
found = {}

def count(name, ask):
    before = len(programs.events)
    ask()
    found[name] = programs.names(before)

model = tb.TBM(schema, max_epochs=2, random_state=0)
count("fit", lambda: model.fit(frame))
assert len(model.members_) > 1
count("predict_proba of a choice", lambda: model.predict_proba(frame, "news"))
count("predict_proba of levels", lambda: model.predict_proba(frame, "trust"))
count("predict_proba of few rows", lambda: model.predict_proba(frame[:3], "party"))
count("predict", lambda: model.predict(frame))
count("impute", lambda: model.impute(frame))
count("transform", lambda: model.transform(frame))
count("evaluate", lambda: model.evaluate(frame, random_state=0))
count("predict_proba of a longer table", lambda: model.predict_proba(pd.concat([frame] * 3), "fan"))
count("impute_draws", lambda: model.impute_draws(frame, 2, random_state=0))
count("impute_draws again", lambda: model.impute_draws(frame[:50], 2, random_state=1))
count("score_samples", lambda: model.score_samples(frame[:50]))

n, words = 300, ["never", "rarely", "sometimes", "often"]
second = pd.DataFrame({
    "region": rng.choice(list("ABCDEFGH"), n),
    "gender": rng.choice(["m", "f", "other"], n),
    "age": rng.normal(40, 10, n).round(2),
    "height": rng.normal(170, 9, n).round(2),
    "owns": rng.choice(["yes", "no"], n),
    **{name: rng.choice(words, n) for name in ("reads", "walks", "cooks")},
})
for name in second:
    second.loc[rng.random(n) < 0.2, name] = None
schema = {
    "region": tb.Categorical(), "gender": tb.Categorical(), "age": tb.Continuous(), "height": tb.Continuous(),
    "owns": tb.Binary(), **{name: tb.Ordinal(words) for name in ("reads", "walks", "cooks")},
}
other = tb.TBM(schema, max_epochs=2, random_state=1)
count("a fit of another survey", lambda: other.fit(second))
assert len(other.members_) > 1
count("predict_proba of another survey", lambda: other.predict_proba(second, "region"))
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def compiled() -> dict[str, list[str]]:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", SURVEY], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_first_fit_compiles_few_programs(compiled):
    assert compiled["fit"].count("_epoch_of_one") == 1  # both readings of a small table have one shape
    assert len(compiled["fit"]) <= MOST_OF_FIT, compiled["fit"]


def test_each_query_compiles_few_programs(compiled):
    for name, programs in compiled.items():
        if "fit" not in name:
            assert len(programs) <= MOST_OF_QUERY, (name, programs)


def test_what_is_compiled_serves_all_columns_and_other_tables(compiled):
    for name in ("predict_proba of levels", "predict_proba of few rows", "predict_proba of a longer table"):
        assert compiled[name] == []
    assert compiled["impute_draws again"] == []


def test_another_survey_of_similar_size_compiles_nothing(compiled):
    """With another seed, too."""
    assert compiled["a fit of another survey"] == []
    assert compiled["predict_proba of another survey"] == []
