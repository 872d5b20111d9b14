"""§5: data simulated from a known model, learned back: held-out log P(e), exact, as good as the true model's.

For each column type alone and for all of them together; by every objective for the mixture.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from thurbo import TBM, Binary, Continuous, Ordinal, Schema, rbm
from thurbo.constraints import Gauge
from thurbo.inference.likelihood import hidden_states, log_evidence_exact
from thurbo.packing import by_chunks, pack
from thurbo.rbm import Params

N_HIDDEN, N_TRAIN, N_TEST = 3, 4000, 4000
KINDS = {
    "binary": ["binary"] * 12,
    "ordinal": ["ordinal"] * 8,
    "continuous": ["continuous"] * 8,
    "mixed": ["binary", "ordinal", "continuous"] * 4,
}
COLUMNS = {"binary": Binary(), "ordinal": Ordinal([0, 1, 2, 3]), "continuous": Continuous()}
N_CUTS = {"binary": 1, "ordinal": 3, "continuous": 0}


def true_model(kinds, rng):
    n = len(kinds)
    cuts = np.full((n, 3), np.inf)
    for i, kind in enumerate(kinds):
        cuts[i, : N_CUTS[kind]] = {"binary": [0.2], "ordinal": [-1.0, 0.1, 1.1], "continuous": []}[kind]
    weights = rng.normal(size=(n, N_HIDDEN)) * 1.2
    scale = np.array([0.7 if kind == "continuous" else 1.0 for kind in kinds])
    # Centred, so that each hidden unit is on in about half of the rows.
    bias = -weights @ np.full(N_HIDDEN, 0.5)
    to = lambda a: jnp.asarray(a, jnp.float64)  # noqa: E731
    gauge = Gauge(to(cuts), to(scale))
    return Params(
        to(bias), to(weights), to(np.zeros(N_HIDDEN)), to(np.zeros((n, 0))), gauge, to(np.full(N_HIDDEN, 0.5))
    )


def simulate(params, kinds, n_rows, rng):
    """A table of dict columns with a tenth of the cells missing."""
    states = np.asarray(hidden_states(N_HIDDEN, 0, np.dtype(float)).h)
    omega = np.asarray(rbm.log_omega(params, jnp.asarray(states)))
    chance = np.exp(omega - np.logaddexp.reduce(omega))
    h = states[rng.choice(len(states), n_rows, p=chance)]
    x = np.asarray(params.site_bias) + h @ np.asarray(params.weights).T + rng.normal(size=(n_rows, len(kinds)))
    table = {}
    for i, kind in enumerate(kinds):
        value = x[:, i] * float(params.gauge.scale[i])
        if kind != "continuous":
            value = (x[:, i, None] > np.asarray(params.gauge.cuts)[i]).sum(axis=1).astype(float)
        table[f"q{i}"] = np.where(rng.random(n_rows) < 0.1, np.nan, value)
    return table


def true_score(params, kinds, table):
    """Exact log P(e) per observed cell of the model that made the data."""
    schema = Schema({
        name: Continuous(location=0.0, scale=1.0) if kind == "continuous" else COLUMNS[kind]
        for name, kind in zip(table, kinds, strict=True)
    })  # fmt: skip
    schema = Schema(
        {
            n: c if kind == "continuous" else c.fit(_cells(table, n))
            for (n, c), kind in zip(schema.items(), kinds, strict=True)
        }
    )
    evidence = pack(schema.compile(table).values(), schema.families, "marginalize", np.float64)
    return by_chunks(lambda rows: jax.jit(log_evidence_exact)(params, rows), evidence).sum() / float(
        evidence.observed.sum()
    )


def _cells(table, name):
    from thurbo.io.frames import table as read

    return read(table).cells(name)


CASES = [(name, "exact", {}) for name in KINDS] + [
    ("mixed", "likelihood", {}),
    ("mixed", "likelihood", {"positive_phase": "gibbs"}),
    ("mixed", "multi-prediction", {}),
    ("mixed", "multi-prediction", {"likelihood_weight": 0.1}),
]


@pytest.mark.parametrize(("name", "objective", "options"), CASES)
def test_held_out_log_evidence_is_the_true_models(name, objective, options):
    rng = np.random.default_rng(7)
    kinds = KINDS[name]
    params = true_model(kinds, rng)
    train, test = simulate(params, kinds, N_TRAIN, rng), simulate(params, kinds, N_TEST, rng)
    schema = {f"q{i}": COLUMNS[kind] for i, kind in enumerate(kinds)}
    model = TBM(
        schema, n_hidden=N_HIDDEN, objective=objective, max_epochs=60, batch_size=200, random_state=0, **options
    ).fit(train)
    assert model.converged_
    cells = sum(np.isfinite(column).sum() for column in test.values())
    ours = model.score_samples(test).sum() / cells
    independent = TBM(schema, n_hidden=0, objective="exact", max_epochs=20, random_state=0).fit(train)
    baseline = independent.score_samples(test).sum() / cells
    best = true_score(params, kinds, test)
    assert baseline < best - 0.04, "the case is too easy to tell anything"
    assert ours > best - 0.02
