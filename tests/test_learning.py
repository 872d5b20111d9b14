"""§5: gradients of every objective against enumeration and differences; centring; the training loop."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from tests.small import (
    EITHER,
    RUNS_LONG,
    as_ragged,
    ask,
    log_evidence_exact,
    make_evidence,
    make_params,
    mean_field,
    n_cuts_of,
    one_table,
)
from thurbo.fit import course, objective, trainer
from thurbo.fit.masking import Neighbours, RandomCells
from thurbo.fit.objective import DataPhase, RowChains
from thurbo.fit.planning import Plan
from thurbo.latent import rbm
from thurbo.latent.constraints import Gauge, Levels
from thurbo.latent.evidence import Evidence
from thurbo.latent.inference.meanfield import predictive
from thurbo.latent.inference.posterior import hidden_states, state_weights
from thurbo.table.columns.forms.levels import starting_cuts

LAYOUT = trainer.Layout(jnp.asarray(n_cuts_of(6)), jnp.asarray(n_cuts_of(6) == 0))


def trainable(params):
    """The parts of Params that learning moves, as a flat vector and back; cuts that do not exist are left out."""
    cuts = np.asarray(params.gauge.cuts)
    real = np.isfinite(cuts)
    shapes = [params.site_bias, params.weights, params.hidden_bias, params.loadings]
    sizes = np.cumsum([leaf.size for leaf in shapes] + [int(real.sum())])

    def pack(p):
        parts = [p.site_bias, p.weights, p.hidden_bias, p.loadings, p.gauge.cuts[real], p.gauge.scale]
        return jnp.concatenate([part.ravel() for part in parts])

    def unpack(flat):
        a, w, g, v, c, s = jnp.split(flat, sizes)
        gauge = Gauge(jnp.full(cuts.shape, jnp.inf).at[real].set(c), s)
        return params._replace(
            site_bias=a, weights=w.reshape(params.weights.shape), hidden_bias=g, gauge=gauge,
            loadings=v.reshape(params.loadings.shape),
        )  # fmt: skip

    return pack(params), unpack


def by_differences(function, at, step=1e-6):
    """Central differences, one coordinate at a time."""
    function = jax.jit(function)
    steps = np.eye(len(at)) * step
    return np.array([(float(function(at + s)) - float(function(at - s))) / (2 * step) for s in steps])


@pytest.mark.parametrize(
    ("unobserved", "ragged"),
    [
        pytest.param("marginalize", False, id="marginalize-dense"),
        pytest.param("exclude", True, id="exclude-ragged"),
        pytest.param("marginalize", True, id="marginalize-ragged", marks=pytest.mark.slow),
        pytest.param("exclude", False, id="exclude-dense", marks=pytest.mark.slow),
    ],
)
def test_exact_objective_has_the_gradient_of_log_evidence(unobserved, ragged):
    params = make_params(n_factors=1)
    evidence = make_evidence(params, unobserved=unobserved)
    if ragged:
        evidence = as_ragged(evidence, np.random.default_rng(0), 6, extra=2)
    at, unpack = trainable(params)
    value = lambda flat: objective.exact(unpack(flat), evidence).sum()  # noqa: E731
    np.testing.assert_allclose(jax.jit(jax.grad(value))(at), by_differences(value, at), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("unobserved", EITHER)
def test_likelihood_surrogate_at_exact_states_has_the_exact_gradient(unobserved):
    """Eq. (8), §5.2: Σ_h P(h|e) ∂positive(h) − Σ_h P(h) ∂negative(h) = ∂ log P(e), to rounding."""
    params = make_params()
    evidence = make_evidence(params, unobserved=unobserved)
    states = hidden_states(3, 0, np.dtype(float)).h
    weights = jax.jit(state_weights)(params, evidence)
    blank = evidence.release(jnp.ones((5, 6), bool))
    prior = jax.jit(state_weights)(params, blank)  # P(h) of each row's own model
    at, unpack = trainable(params)

    def surrogate(flat):
        p, total = unpack(flat), 0.0
        for s, h in enumerate(states):
            rows = jnp.broadcast_to(h, (5, 3))
            total = (
                total
                + (
                    weights[s]
                    * objective.positive_part(p, evidence, DataPhase(rows, jnp.zeros((5, 0)), None, jnp.zeros(0)))
                ).sum()
            )
            total = total - (prior[s] * rbm.log_omega(evidence.seen(p), rows, evidence.present)).sum()
        return total

    ours = jax.jit(jax.grad(surrogate))(at)
    exact = jax.jit(jax.grad(lambda flat: log_evidence_exact(unpack(flat), evidence).sum()))(at)
    np.testing.assert_allclose(ours, exact, rtol=1e-8, atol=1e-10)


def crossed(n_factors):
    """Either reading of a missing cell without and with factors; the other two pairs where there is more time."""
    slow = [("exclude", 0), ("marginalize", n_factors)]
    return [("marginalize", 0), ("exclude", n_factors), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in slow)]


@pytest.mark.slow
@pytest.mark.parametrize(("unobserved", "n_factors"), crossed(1))
def test_chains_of_both_phases_give_the_gradient_on_average(unobserved, n_factors):
    """Chains of rows and of the model, long enough to forget their start: z-scores of the mean gradient."""
    params = make_params(n_factors=n_factors, size=0.5)
    evidence = make_evidence(params, n_rows=3, unobserved=unobserved)
    plan = Plan(objective="likelihood", unobserved=unobserved, n_positive_steps=30, n_negative_steps=30)
    copies, repeats = 100, 150
    many = evidence.rows(jnp.tile(jnp.arange(3), copies))
    at, unpack = trainable(params)
    n, none = 3 * copies, jnp.zeros((3 * copies, 0))
    off = jnp.zeros((n, 3), bool)
    rows = RowChains(off, jnp.zeros((n, n_factors)), none, off if unobserved == "exclude" else none.astype(bool))

    def one(key):
        def value(flat):
            chains = jnp.zeros((n, 3))
            total, phases = objective.two_phases(key, unpack(flat), many, jnp.ones(n), chains, rows, plan)
            return total / n, phases.gap

        return jax.grad(value, has_aux=True)(at)

    every = jax.jit(lambda keys: jax.lax.map(one, keys), compiler_options=RUNS_LONG)
    draws, gaps = map(np.asarray, every(jax.random.split(jax.random.key(0), repeats)))
    exact = jax.jit(jax.grad(lambda flat: log_evidence_exact(unpack(flat), evidence).mean()))(at)
    error = draws.std(axis=0) / np.sqrt(repeats)
    moves = error > 1e-9
    z = (draws.mean(axis=0) - np.asarray(exact))[moves] / error[moves]
    assert 2 * norm.sf(np.abs(z)).min() * z.size > 2e-5
    np.testing.assert_allclose(draws.mean(axis=0)[~moves], np.asarray(exact)[~moves], atol=1e-8)
    assert np.isfinite(gaps).all()


@pytest.mark.parametrize("unobserved", EITHER)
def test_an_update_of_the_likelihood_moves_only_the_chains_of_its_rows(unobserved):
    plan = Plan(objective="likelihood", optimizer="sgd", unobserved=unobserved)
    params = make_params(dtype=np.float32)
    evidence = make_evidence(params, n_rows=50, unobserved=unobserved)
    off = jnp.zeros((60, 3), bool)
    own = off if unobserved == "exclude" else off[:, :0]
    rows = RowChains(off, jnp.zeros((60, 0), jnp.float32), jnp.zeros((60, 0), jnp.float32), own)
    state = _started(plan)._replace(rows=rows)
    rate, one = jnp.asarray(0.01, jnp.float32), jnp.ones((), jnp.float32)
    places = jnp.arange(50).at[-1].set(60)  # the last row only pads the batch
    update = jax.jit(trainer.update, static_argnames="plan")
    weight, own = jnp.ones(50, jnp.float32), rows.at(jnp.arange(50))
    after, info = update(jax.random.key(0), state, evidence, weight, LAYOUT, rate, one, plan, places, own)
    moved = np.asarray(after.rows.h).any(axis=1)
    assert moved[:49].any()
    assert not moved[49:].any()
    if unobserved == "exclude":
        assert np.asarray(after.rows.free)[:49].any()
        assert not np.asarray(after.rows.free)[49:].any()
    assert np.isfinite([float(info.density_gap), float(info.flips)]).all()


@pytest.mark.parametrize("n_factors", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_mean_field_phase_has_the_gradient_of_its_bound(n_factors):
    """Envelope theorem: ∂positive at the fixed point is the total derivative of the bound through mean-field."""
    params = make_params(n_factors=n_factors)
    evidence = make_evidence(params)
    at, unpack = trainable(params)

    def bound(flat):
        p = unpack(flat)
        q = mean_field(p, evidence, 200)
        state = DataPhase(q.hidden, q.factors, q.whitener, q.felt)
        entropy = -(q.hidden * jnp.log(q.hidden) + (1 - q.hidden) * jnp.log1p(-q.hidden)).sum()
        value = objective.positive_part(p, evidence, state).sum() + entropy
        if q.whitener is not None:  # entropy of q(z), and the prior's share of it
            covariance = jnp.swapaxes(q.whitener, 1, 2) @ q.whitener
            value = value + jnp.log(jnp.diagonal(q.whitener, axis1=1, axis2=2)).sum()
            value = value - 0.5 * ((q.factors**2).sum() + jnp.trace(covariance, axis1=1, axis2=2).sum())
        return value

    q = jax.lax.stop_gradient(mean_field(params, evidence, 200))
    state = DataPhase(q.hidden, q.factors, q.whitener, q.felt)
    ours = jax.jit(jax.grad(lambda flat: objective.positive_part(unpack(flat), evidence, state).sum()))(at)
    np.testing.assert_allclose(ours, by_differences(bound, at), rtol=2e-4, atol=2e-6)


@pytest.mark.parametrize(("unobserved", "n_factors"), crossed(2))
def test_multi_prediction_has_the_gradient_of_its_value(unobserved, n_factors):
    params = make_params(n_factors=n_factors)
    evidence = make_evidence(params, unobserved=unobserved)
    hidden = RandomCells()(jax.random.key(0), evidence)
    plan = Plan(unobserved=unobserved)
    at, unpack = trainable(params)
    value = lambda flat: objective.multi_prediction(unpack(flat), evidence, hidden, plan)[0].sum()  # noqa: E731
    np.testing.assert_allclose(jax.jit(jax.grad(value))(at), by_differences(value, at), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("unobserved", EITHER)
def test_multi_prediction_is_exact_for_one_hidden_unit_up_to_its_normal_prediction(unobserved):
    """K = 1, one cell hidden at a time: the converged prediction of a cell against enumeration.

    What remains is that a mixture of two normals is read as one normal: small where the two are close.
    """
    params = make_params(n_hidden=1, size=0.4)
    evidence = make_evidence(params, unobserved=unobserved, missing=0.2, n_rows=8)
    plan = Plan(unobserved=unobserved, n_mean_field_steps=60)
    observed = np.asarray(evidence.observed)
    predicted = jax.jit(lambda hidden: objective.multi_prediction(params, evidence, hidden, plan)[0])
    weights_of = jax.jit(state_weights)
    for i in range(6):
        hidden = jnp.asarray(observed & (np.arange(6)[None, :] == i))
        ours = predicted(hidden)
        rest = evidence.hide(hidden, unobserved)
        # P(cell | rest) by enumeration: Σ_h P(h | rest) P(cell | h)
        weights = weights_of(params, rest)
        own = evidence.region(params.gauge).release(~hidden)
        means = params.site_bias[None, :] + hidden_states(1, 0, np.dtype(float)).h @ params.weights.T
        mass = jnp.stack([ask(own, "log_mass", mean[None, :]) for mean in means])
        exact = jnp.log((weights * jnp.exp(mass)).sum(axis=0))
        np.testing.assert_allclose(ours, exact, atol=0.02)


def test_hidden_cells_are_observed_cells_and_at_least_one():
    rng = np.random.default_rng(0)
    code = jnp.asarray(np.where(rng.random((500, 7)) < 0.4, 0, -1), jnp.int32)
    observed = np.asarray(code) >= 0
    some = observed.any(axis=1)
    for cells in (None, jnp.asarray([0, 1, 2, 2, 2, 5, 6])):
        for masking in (RandomCells(), Neighbours(), Neighbours(2)):
            hidden = np.asarray(jax.jit(masking)(jax.random.key(1), Evidence((Levels(code),), cells=cells)))
            assert not (hidden & ~observed).any()
            assert hidden[some].any(axis=1).all()
            if cells is not None:
                together = observed[:, 2:5].all(axis=1)
                assert (hidden[together, 2:5].std(axis=1) == 0).all()


@pytest.mark.parametrize("with_cells", [pytest.param(False, marks=pytest.mark.slow), True])
def test_neighbours_are_hidden_in_runs_that_begin_anywhere(with_cells):
    """All is told, so that what is hidden shows the runs: within one, no row tells columns apart."""
    width = 3 if with_cells else 1  # slots of a cell
    n_columns, length = 60, 10
    code = jnp.zeros((2000, n_columns * width), jnp.int32)
    cells = jnp.repeat(jnp.arange(n_columns, dtype=jnp.int32) * width, width) if with_cells else None
    evidence = Evidence((Levels(code),), cells=cells)
    starts = set()
    masking = jax.jit(Neighbours(length, 0.2, 0.6))
    for seed in range(30):
        hidden = np.asarray(masking(jax.random.key(seed), evidence))
        columns = hidden[:, ::width]
        assert (hidden.reshape(len(hidden), n_columns, width) == columns[:, :, None]).all()
        borders = 1 + np.flatnonzero((columns[:, 1:] != columns[:, :-1]).any(axis=0))
        assert (np.diff(borders) == length).all()
        assert len(borders) >= n_columns // length - 1
        starts.add(borders[0] % length)
        assert 0.36 < columns.mean() < 0.44  # six runs of 2,000 rows: a deviation of .005
    assert len(starts) > 5


def test_a_run_of_neighbours_is_at_most_a_quarter_of_the_columns():
    evidence = Evidence((Levels(jnp.zeros((400, 8), jnp.int32)),))
    share = np.asarray(jax.jit(Neighbours(40))(jax.random.key(0), evidence)).mean(axis=1)
    assert (share < 1.0).mean() > 0.8
    assert len(np.unique(share)) >= 4


def test_sparsity_pulls_log_odds_towards_the_target():
    """A.2.2: the gradient with respect to γ_k is Σ_rows (ρ − q_k)."""
    params = make_params()
    evidence = make_evidence(params)
    q = mean_field(params, evidence, 30)
    state = DataPhase(q.hidden, q.factors, None, q.felt)
    slope = jax.jit(jax.grad(lambda p: objective.sparsity(p, evidence, state, 0.1).sum()))(params)
    np.testing.assert_allclose(slope.hidden_bias, (0.1 - q.hidden).sum(axis=0), rtol=1e-10)


def test_units_are_on_in_their_share_of_a_batch():
    """Enforced sparsity: masked cells are predicted with each unit on in the rows where it is most probable only."""
    params = make_params()
    evidence = make_evidence(params, n_rows=12)
    masked, plan = RandomCells()(jax.random.key(0), evidence), Plan(active_share=0.25)
    prediction = jax.jit(objective.multi_prediction, static_argnums=3)
    with_marginal = jax.jit(objective.prediction_and_marginal, static_argnums=3)
    value, q = prediction(params, evidence, masked, plan)
    dense, _ = prediction(params, evidence, masked, Plan())
    rank = np.argsort(np.argsort(-np.asarray(q.hidden), axis=0), axis=0)
    on = np.where(rank < 3, q.hidden, 0.0)
    mean = params.site_bias[None, :] + on @ params.weights.T
    deviation = jnp.sqrt(1.0 + (on * (1.0 - on)) @ (params.weights**2).T)
    region = evidence.region(params.gauge)
    expected = jax.jit(lambda *moments: region.mass_of_masked(*moments, masked, True))(mean, deviation)
    np.testing.assert_allclose(value, expected, rtol=1e-10)
    assert np.abs(value - dense).max() > 1e-3
    at, unpack = trainable(params)
    total = lambda flat: objective.multi_prediction(unpack(flat), evidence, masked, plan)[0].sum()  # noqa: E731
    np.testing.assert_allclose(jax.jit(jax.grad(total))(at), by_differences(total, at), rtol=1e-5, atol=1e-7)
    empty = with_marginal(params, evidence, masked, plan)
    np.testing.assert_allclose(empty[0], value, rtol=1e-10)
    np.testing.assert_allclose(empty[1], with_marginal(params, evidence, masked, Plan())[1])


def _started(plan, n_hidden=3, n_factors=0, dtype=np.float32, n_chains=64, seed=0):
    rng = np.random.default_rng(seed)
    code = np.where(n_cuts_of(6) > 0, rng.integers(0, n_cuts_of(6) + 1, (50, 6)), -1)
    cuts = np.full((6, max(n_cuts_of(6))), np.inf)
    for site, n_cuts in enumerate(n_cuts_of(6)):
        cuts[site, :n_cuts] = starting_cuts(code[:, [site]], int(n_cuts), np.ones(50))[0]
    learnable, centre = trainer.initial_coordinates(
        jax.random.key(seed), trainer.initial_values(cuts, np.dtype(dtype)), n_hidden, n_factors
    )
    chains = jnp.zeros((n_chains, n_hidden), dtype)
    return trainer.initial_state(learnable, centre, chains, plan)


def test_starting_cuts_give_the_answers_own_frequencies():
    code = np.array([[0], [0], [1], [2]])
    cuts = starting_cuts(code, 2, np.ones(4))
    shares = np.diff(np.concatenate([[0], norm.cdf(cuts[0]), [1]]))
    np.testing.assert_allclose(shares, (np.array([2, 1, 1]) + 0.5) / 5.5, rtol=1e-10)
    weighted = starting_cuts(code, 2, np.array([1.0, 1.0, 2.0, 4.0]))
    assert norm.cdf(weighted[0, 0]) == pytest.approx(2.5 / 9.5)


def test_folding_gives_increasing_cuts_and_recentring_moves_nothing():
    state = _started(Plan(), dtype=np.float64)
    params = trainer.fold(state.learnable, state.centre, LAYOUT)
    cuts = np.asarray(params.gauge.cuts)
    for row, count in zip(cuts, n_cuts_of(6), strict=True):
        assert (np.diff(row[:count]) > 0).all()
        assert np.isinf(row[count:]).all()
    rng = np.random.default_rng(0)
    new = trainer.Centre(jnp.asarray(rng.random(3)), jnp.asarray(rng.normal(size=6)))
    moved = trainer.fold(trainer.recentre(state.learnable, state.centre, new), new, LAYOUT)
    np.testing.assert_allclose(moved.site_bias, params.site_bias, atol=1e-12)
    np.testing.assert_allclose(moved.hidden_bias, params.hidden_bias, atol=1e-12)


@pytest.mark.parametrize("learn_cuts", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_one_of_bias_and_cuts_stays_where_it_was(learn_cuts):
    plan = Plan(learn_cuts=learn_cuts, weight_decay=0.0)
    state = _started(plan)
    params = make_params(dtype=np.float32)
    evidence = make_evidence(params, n_rows=50)
    rate = jnp.asarray(0.01, jnp.float32)
    update = jax.jit(trainer.update, static_argnames="plan")
    after, _ = update(
        jax.random.key(0), state, evidence, jnp.ones(50, jnp.float32), LAYOUT, rate, jnp.ones((), jnp.float32), plan
    )
    centred = after.learnable.site_bias - after.learnable.weights @ (after.centre.hidden - state.centre.hidden)
    level = n_cuts_of(6) > 0
    moved = np.abs(np.asarray(after.learnable.first_cut - state.learnable.first_cut)) > 0
    np.testing.assert_array_equal(moved, level & learn_cuts)
    shifted = np.abs(np.asarray(centred - state.learnable.site_bias)) > 1e-7
    np.testing.assert_array_equal(shifted, ~level | (not learn_cuts))
    scaled = np.abs(np.asarray(after.learnable.log_scale)) > 0
    np.testing.assert_array_equal(scaled, ~level)


def test_rows_of_weight_zero_and_the_last_short_batch_change_nothing():
    """A batch filled up with rows of weight zero has the gradient of the batch without them."""
    plan = Plan(objective="exact")
    state = _started(plan, dtype=np.float64)
    evidence = make_evidence(make_params(), n_rows=8)
    args = (state.learnable, state.centre, LAYOUT)
    grad = jax.jit(jax.grad(trainer._loss, has_aux=True), static_argnames="plan")
    padded, _ = grad(
        *args,
        evidence,
        jnp.asarray([1.0] * 5 + [0.0] * 3),
        state.chains.astype(float),
        state.rows,
        jax.random.key(0),
        plan=plan,
    )
    short, _ = grad(
        *args,
        evidence.rows(jnp.arange(5)),
        jnp.ones(5),
        state.chains.astype(float),
        state.rows,
        jax.random.key(0),
        plan=plan,
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), padded, short)


def test_an_epoch_compiles_once():
    plan = Plan(n_mean_field_steps=2)
    evidence = make_evidence(make_params(dtype=np.float32), n_rows=50)
    before = trainer._epoch_of_one.n_compiled
    for seed in range(3):
        rows = course.WeightedRows(one_table(evidence), jnp.ones(50, jnp.float32))
        length = course.Length(20 * 6, 2 + seed, 10.0 ** -(2 + seed))
        fitted = course.fit(jax.random.key(seed), _started(plan, seed=seed), rows, LAYOUT, plan, length)
        assert fitted.history[-1]["settled"] is False  # so few epochs cannot tell
    assert trainer._epoch_of_one.n_compiled == before + 1


def test_a_fit_that_diverges_keeps_its_last_good_parameters_and_says_so():
    plan = Plan(objective="multi-prediction", optimizer="sgd", n_mean_field_steps=2)
    evidence = make_evidence(make_params(dtype=np.float32), n_rows=50)
    rows = course.WeightedRows(one_table(evidence), jnp.ones(50, jnp.float32))
    fitted = course.fit(jax.random.key(0), _started(plan), rows, LAYOUT, plan, course.Length(25 * 6, 8, 1e30))
    assert not fitted.converged
    assert sum("event" in record for record in fitted.history) == course.MOST_RECOVERIES
    assert "finite" in fitted.problem
    assert all(np.isfinite(leaf).all() for leaf in (fitted.params.weights, fitted.params.site_bias))


@pytest.mark.parametrize("n_factors", [0, 1])
def test_answers_alone_and_given_others_are_computed_together(n_factors):
    """One batch with an empty row more gives what two separate computations give, and the same gradient."""
    plan = Plan(n_mean_field_steps=3)
    params = make_params(n_factors=n_factors)
    evidence = make_evidence(params, n_rows=9)
    masked = plan.masking(jax.random.key(0), evidence)

    def apart(params):
        nobody = evidence.rows(np.zeros(1, int))
        q = mean_field(params, nobody.release(jnp.ones_like(nobody.observed)), 3)
        some = evidence.rows(np.arange(3))
        moments = (jnp.broadcast_to(each, some.observed.shape) for each in predictive(params, q, nobody))
        alone = some.region(params.gauge).log_mass(*moments)
        value, given = objective.multi_prediction(params, evidence, masked, plan)
        return value, alone, given.hidden, given.felt

    def together(params):
        value, alone, q = objective.prediction_and_marginal(params, evidence, masked, plan)
        return value, alone, q.hidden, q.felt

    @partial(jax.jit, static_argnums=0)
    def with_slopes(of, params):
        def total(params):
            values = of(params)
            return values[0].sum() + values[1].sum(), values

        return jax.grad(total, has_aux=True)(params)

    (slopes, values), (others_slopes, others) = (with_slopes(of, params) for of in (together, apart))
    for one, other in zip(values, others, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)
    for one, other in zip(*map(jax.tree.leaves, (slopes, others_slopes)), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
