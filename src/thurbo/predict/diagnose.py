"""§4, A.2.4 Is the inference of a model right: mixing of the Gibbs chains, error of its approximation, and its input.

R-hat and effective sample size of several chains from dispersed starts; hidden units that are constant (stuck) or never
uncertain (saturated) over all rows; the results of "mean-field" for a few rows beside those of a better method; and the
evidence of a row as inequalities, Eq. (5): as text, and as ⟨A, b, c⟩ in latent units, with residuals of unit variance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from thurbo._typing import Array, Float, PRNGKey
from thurbo.errors import ConvergenceWarning, ThurboError, check_whole
from thurbo.latent import rbm
from thurbo.latent.evidence import Buckets, Evidence
from thurbo.latent.inference import diagnostics, gibbs
from thurbo.latent.rbm import Params
from thurbo.predict import answers
from thurbo.predict.model import Query
from thurbo.predict.moments import How, features
from thurbo.table.columns.forms import Lines
from thurbo.table.schema.schema import Schema


class Printed:
    """Text and HTML of a result from its `_lines`."""

    def _lines(self) -> list[tuple[str, str]]:
        raise NotImplementedError

    def __str__(self) -> str:
        lines = self._lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name.ljust(width)}  {text}" for name, text in lines)

    def _repr_html_(self) -> str:
        body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._lines())
        return f"<table><tbody>{body}</tbody></table>"


MOST_RHAT = 1.05
LEAST_ESS = 100.0


@dataclass(frozen=True, eq=False)
class Diagnostics(Printed):
    """Convergence diagnostics of a fitted model; `print` it, or read its attributes.

    R-hat and effective sample size (ESS) are those of the log-odds of each hidden unit along the chains. They are
    rank-normalised, so those of its probability are the same.

    Attributes
    ----------
    rows : array of shape (n_rows,)
        Labels of the rows for which chains were run.
    rhat, ess : array of shape (n_rows, n_hidden)
        R-hat and ESS of P(h_k = 1 | x), given each row.
    prior_rhat, prior_ess : array of shape (n_hidden,)
        The same for chains of the prior, without evidence.
    stuck : array
        Hidden units, from 0, that are on for all rows, or off for all rows.
    saturated : array
        Hidden units with probabilities near 0 or 1 for almost all rows.
    converged : bool
        Whether the fit converged.
    n_chains, n_draws : int
        Number of chains per row, and of draws per chain.
    """

    rows: np.ndarray
    rhat: np.ndarray
    ess: np.ndarray
    prior_rhat: np.ndarray
    prior_ess: np.ndarray
    stuck: np.ndarray
    saturated: np.ndarray
    converged: bool
    n_chains: int
    n_draws: int

    @property
    def mixes(self) -> np.ndarray:
        """Whether the chains of each hidden unit mix in every row: R-hat ≤ 1.05 and ESS ≥ 100. [hidden]"""
        return np.all(_good(self.rhat, self.ess), axis=0)

    @property
    def prior_mixes(self) -> np.ndarray:
        """Whether the prior chains of each hidden unit mix. [hidden]"""
        return _good(self.prior_rhat, self.prior_ess)

    @property
    def healthy(self) -> bool:
        """Whether the fit converged, all chains mix and no hidden unit is stuck."""
        return self.converged and bool(self.mixes.all() and self.prior_mixes.all() and not len(self.stuck))

    def worst(self) -> str:
        """The hidden unit and row with the worst mixing, as text; empty without hidden units."""
        return _worst(self.rhat, self.ess, [f" in row {row}" for row in self.rows])

    def prior_worst(self) -> str:
        """The hidden unit with the worst mixing of its prior chains, as text; empty without hidden units."""
        return _worst(self.prior_rhat[None], self.prior_ess[None], [""])

    def _lines(self) -> list[tuple[str, str]]:
        return [
            ("fit", "converged" if self.converged else "did not converge"),
            ("chains", f"{self.n_chains} chains of {self.n_draws} draws for each of {len(self.rows)} rows"),
            ("given rows", _verdict(self.mixes, self.worst())),
            ("prior", _verdict(self.prior_mixes, self.prior_worst())),
            ("stuck units", ", ".join(f"hidden{unit}" for unit in self.stuck) or "none"),
            ("saturated units", ", ".join(f"hidden{unit}" for unit in self.saturated) or "none"),
        ]


def _verdict(mixes: np.ndarray, worst: str) -> str:
    text = f"{int(mixes.sum())} of {len(mixes)} hidden units mix; worst: {worst}"
    return text if len(mixes) else "no hidden units"


def _good(rhat: np.ndarray, ess: np.ndarray) -> np.ndarray:
    """Whether both limits hold; False for NaN."""
    return (rhat <= MOST_RHAT) & (ess >= LEAST_ESS)


def _worst(rhat: np.ndarray, ess: np.ndarray, where: Sequence[str]) -> str:
    """The hidden unit that mixes worst, and where, a text for each row; both figures are [row, hidden]."""
    if not rhat.size:
        return ""
    with np.errstate(divide="ignore"):  # above 1 if one of the two limits is violated
        badness = np.maximum((rhat - 1.0) / (MOST_RHAT - 1.0), LEAST_ESS / ess)
    row, unit = np.unravel_index(np.where(np.isnan(badness), np.inf, badness).argmax(), rhat.shape)
    figures = f"R-hat {rhat[row, unit]:.2f}, effective sample size {ess[row, unit]:.0f}"
    return f"hidden{unit}{where[int(row)]}, {figures}"


def _starts(n_chains: int, dtype: np.dtype) -> Float[Array, "chain one"]:
    """Dispersed starts: P(h = 1) from 0 in the first chain to 1 in the last."""
    return jnp.linspace(0.0, 1.0, n_chains, dtype=dtype)[:, None]


@partial(jax.jit, static_argnames=("n_chains", "n_draws"))
def _row_chains(
    key: PRNGKey, params: Params, evidence: Evidence, n_chains: int, n_draws: int
) -> Float[Array, "row chain draw hidden"]:
    """Log-odds of each hidden unit given x, Eq. (3), along `n_chains` chains per row, after as many burn-in rounds."""
    key_start, key_run, key_draws = jax.random.split(key, 3)
    n_rows, n_hidden = evidence.n_rows, params.n_hidden
    given = gibbs.clamp(params, evidence.rows(jnp.repeat(jnp.arange(n_rows), n_chains)))
    probability = jnp.tile(_starts(n_chains, params.weights.dtype), (n_rows, n_hidden))
    state = gibbs.run(key_run, gibbs.start(key_start, given, probability), given, n_draws)

    def one(state: gibbs.ChainState, draw_key: PRNGKey) -> tuple[gibbs.ChainState, Array]:
        state = gibbs.step(draw_key, state, given)
        shift = rbm.factor_shift(given.params, state.z)
        return state, rbm.hidden_logits(given.params, rbm.only(state.x - shift, given.present))

    _, log_odds = jax.lax.scan(one, state, jax.random.split(key_draws, n_draws))
    return jnp.moveaxis(log_odds.reshape(n_draws, n_rows, n_chains, n_hidden), 0, 2)


@partial(jax.jit, static_argnames=("n_chains", "n_draws"))
def _prior_chains(key: PRNGKey, params: Params, n_chains: int, n_draws: int) -> Float[Array, "chain draw hidden"]:
    """Log-odds of each hidden unit at the mean of x given h, along chains of the prior, §5.1.

    Unlike the state h itself, this function of it is not constant if a unit is rarely on.
    """
    key_start, key_run, key_draws = jax.random.split(key, 3)
    dtype = params.weights.dtype
    on = jax.random.uniform(key_start, (n_chains, params.n_hidden), dtype) < _starts(n_chains, dtype)
    h = gibbs.prior_run(key_run, on.astype(dtype), params, n_draws)

    def one(h: Array, draw_key: PRNGKey) -> tuple[Array, Array]:
        h = gibbs.prior_step(draw_key, h, params)
        return h, rbm.hidden_logits(params, rbm.latent_mean(params, h))

    _, log_odds = jax.lax.scan(one, h, jax.random.split(key_draws, n_draws))
    return jnp.moveaxis(log_odds, 0, 1)


def diagnose(
    params: Params,
    evidence: Buckets,
    how: How,
    *,
    labels: np.ndarray,
    converged: bool,
    n_chains: int,
    n_draws: int,
    rows: Any,
    random: np.random.RandomState,
) -> Diagnostics:
    """Run chains given some rows and from the prior, and check the hidden probabilities of all rows."""
    check_whole("n_chains", n_chains, 2, "valid")
    check_whole("n_draws", n_draws, 4, "valid")
    chosen = chosen_rows(rows, evidence.n_rows, random)
    diagnostics.array_stats()  # refuse before long work if it is missing
    key_rows, key_prior = jax.random.split(jax.random.key(int(random.randint(2**31 - 1))))
    some = evidence.on_host().rows(chosen)
    drawn = some.by_chunks(lambda part: _row_chains(key_rows, params, part, int(n_chains), int(n_draws)))
    drawn = np.moveaxis(drawn, 0, 2)  # [chain, draw, row, hidden]
    prior = np.asarray(_prior_chains(key_prior, params, int(n_chains), int(n_draws)))
    stuck, saturated = diagnostics.unit_health(evidence.by_chunks(lambda part: features(params, part, how).hidden))
    return Diagnostics(
        rows=np.asarray(labels)[chosen],
        rhat=diagnostics.rhat(drawn),
        ess=diagnostics.ess(drawn),
        prior_rhat=diagnostics.rhat(prior),
        prior_ess=diagnostics.ess(prior),
        stuck=np.flatnonzero(stuck),
        saturated=np.flatnonzero(saturated),
        converged=converged,
        n_chains=int(n_chains),
        n_draws=int(n_draws),
    )


def chosen_rows(rows: Any, n_rows: int, random: np.random.RandomState) -> np.ndarray:
    """Positions of the rows: a number of random rows, or the given positions."""
    if isinstance(rows, Integral) and not isinstance(rows, bool) and int(rows) >= 1:
        return np.sort(random.choice(n_rows, size=min(int(rows), n_rows), replace=False))
    named = np.asarray(rows)
    if named.ndim == 1 and named.dtype.kind in "iu" and len(named) and named.min() >= 0 and named.max() < n_rows:
        return named
    remedy = f"give a number of rows, or a list of positions from 0 to {n_rows - 1}"
    raise ThurboError(f"rows={rows!r} is not valid; {remedy}")


def warn(found: Diagnostics) -> None:
    """Warn about chains that do not mix."""
    limits = f"R-hat should be at most {MOST_RHAT}, the effective sample size at least {LEAST_ESS:.0f}"
    bad, prior_bad, n = (~found.mixes).sum(), (~found.prior_mixes).sum(), len(found.mixes)
    if bad:
        text = (
            f"chains of {bad} of {n} hidden units do not mix for some of the {len(found.rows)} rows; worst: "
            f"{found.worst()} ({limits}); try a larger n_draws, and if that does not help, do not use "
            'method="gibbs"'
        )
        warnings.warn(text, ConvergenceWarning, stacklevel=3)
    if prior_bad:
        text = (
            f"chains of the prior do not mix for {prior_bad} of {n} hidden units; worst: {found.prior_worst()} "
            f"({limits}); try a larger n_draws, and if that does not help, smaller weights (weight_decay) or "
            'objective="exact" or "multi-prediction"'
        )
        warnings.warn(text, ConvergenceWarning, stacklevel=3)


LEVEL = 0.9  # of the intervals
GIBBS_DRAWS = 2000  # after as many burn-in rounds


@dataclass(frozen=True)
class Difference:
    """How far the results of one query are from those of the better method.

    Attributes
    ----------
    query : str
        "transform: hidden units", "transform: factors", "predict_proba" or "predict_interval".
    n : int
        Number of results that were compared.
    largest, mean : float
        Largest and mean absolute difference: of probabilities, of factor means, and for intervals between 0.9 and the
        probability of the 90 % interval by the better method.
    reference_error : float
        Mean standard error of the better method; 0 if it is exact.
    """

    query: str
    n: int
    largest: float
    mean: float
    reference_error: float


@dataclass(frozen=True)
class MethodCheck(Printed):
    """The method that "auto" uses, and its error for some rows; `print` it, or read its attributes.

    Attributes
    ----------
    method : str
        What `method="auto"` means in predictions of this model: "exact" or "mean-field".
    reference : str
        The better method: "exact" or "gibbs".
    rows : ndarray
        Labels of the rows that were compared; empty if the method is exact, and so has no error.
    differences : tuple of Difference
        One for each query; empty if the method is exact.
    coverage : float or None
        Mean probability of the 90 % intervals by the better method; None without columns of numbers.
    """

    method: str
    reference: str
    rows: np.ndarray
    differences: tuple[Difference, ...]
    coverage: float | None = None

    def _lines(self) -> list[tuple[str, str]]:
        if self.method == "exact":
            return [("method", "exact: sums over all states of the hidden units, so there is no error to check")]
        found = [("method", f"{self.method}; compared with {self.reference} for {len(self.rows)} rows")]
        for each in self.differences:
            known = f", reference known to {each.reference_error:.3f}" if self.reference == "gibbs" else ""
            found.append((each.query, f"largest difference {each.largest:.3f}, mean {each.mean:.3f}{known}"))
        if self.coverage is not None:
            found.append(("90 % intervals", f"contain the value with probability {self.coverage:.3f}"))
        return found


def check(query: Query, labels: np.ndarray, can_enumerate: bool) -> MethodCheck:
    """Compare the method of a query with a better one, in all of its rows."""
    if query.lead.how.method == "exact":
        return MethodCheck("exact", "exact", labels[:0], ())
    hows = [replace(query.lead.how, method="exact")]
    if not can_enumerate:
        hows = [replace(query.lead.how, method="gibbs", n_draws=GIBBS_DRAWS, seed=seed) for seed in (0, 1)]
    schema = query.schema
    better = [query.with_members(replace(each, how=how) for each in query.members) for how in hows]
    asks: dict[str, Callable[[Query], np.ndarray]] = {}
    if query.lead.params.n_hidden:
        asks["transform: hidden units"] = lambda asked: _features(asked, "hidden")
    if query.lead.params.n_factors:
        asks["transform: factors"] = lambda asked: _features(asked, "factors")
    if answers.with_labels(schema):
        asks["predict_proba"] = answers.all_probabilities
    found = [_difference(name, ask(query), [ask(each) for each in better]) for name, ask in asks.items()]
    # Both ends of the interval of every row, in standard units, of each column of numbers that all rows have.
    rows, ends = np.arange(query.evidence.n_rows), {}
    lines = Lines(rows, np.zeros_like(rows))
    for name in schema.modelled:
        if query.blocks[name].family == "measured" and not schema[name].is_listed:
            answer = query.about(name, lines).number()
            ends[name] = [answer.quantile(level) for level in (0.5 - 0.5 * LEVEL, 0.5 + 0.5 * LEVEL)]
    if not ends:
        return MethodCheck(query.lead.how.method, hows[0].method, labels, tuple(found))
    # The probability of each interval, [method, column, row].
    contents = np.asarray([[each.about(name, lines).mass(*both) for name, both in ends.items()] for each in better])
    found.append(_difference("predict_interval", np.full_like(contents[0], LEVEL), list(contents)))
    return MethodCheck(query.lead.how.method, hows[0].method, labels, tuple(found), float(np.mean(contents)))


def _difference(query: str, own: np.ndarray, better: list[np.ndarray]) -> Difference:
    distance = np.abs(own - np.mean(better, axis=0))
    error = 0.5 * np.abs(better[0] - better[-1]).mean()
    return Difference(query, distance.size, float(distance.max()), float(distance.mean()), float(error))


def _features(query: Query, which: str) -> np.ndarray:
    return query.evidence.by_chunks(lambda rows: getattr(features(query.lead.params, rows, query.lead.how), which))


@dataclass(frozen=True)
class Inequalities:
    """b ≤ A x ≤ c of one row, with the name of each column of A, and the same as text.

    `mass` is the method that computes P(e | h) of such a row. "One of these" is a union, so it is only in the text.
    """

    sites: tuple[str, ...]
    matrix: np.ndarray  # A, [inequality, site]
    lower: np.ndarray  # b
    upper: np.ndarray  # c
    words: tuple[str, ...]
    mass: str

    def __iter__(self):  # type: ignore[no-untyped-def]
        """A, b, c = model.inequalities(X, row)."""
        return iter((self.matrix, self.lower, self.upper))

    def __str__(self) -> str:
        return "\n".join([*(self.words or ("no inequalities",)), f"(probability: {self.mass})"])

    def _repr_html_(self) -> str:
        lines = "".join(f"<li>{escape(text)}</li>" for text in self.words)
        return f"<ul>{lines}</ul><p>probability: {escape(self.mass)}</p>"


def inequalities(params: Params, schema: Schema, evidence: Buckets, row: int) -> Inequalities:
    """The inequalities of one row of evidence, on the sites of that row."""
    (own,) = evidence.rows(np.array([row])).on_device().buckets
    seen = own.seen(params)
    region = own.region(seen.gauge)
    at = np.arange(schema.n_sites) if own.sites is None else np.asarray(own.sites).reshape(-1)
    names = schema.site_names
    sites = tuple(names[site] for site in at)
    scale = np.asarray(seen.gauge.scale, np.float64).reshape(-1)

    def in_units(slot: int, low: float, high: float) -> str:
        own = schema[schema.site_columns[at[slot]]].form.own_units(low, high, scale[slot])
        return f"{own} in its own units" if own else ""

    said = [(part, part.describe(0, sites, in_units)) for part in region.parts]
    masses = dict.fromkeys(part.mass for part, words in said if words)
    triples = [[np.asarray(each, np.float64) for each in part.as_linear(0)] for part, _ in said if part.is_convex]
    matrix, lower, upper = (np.concatenate(each) for each in zip(*triples, strict=True))
    if own.sites is not None:  # without padding
        real = np.asarray(own.present)[0] | (np.arange(len(at)) < int((evidence.shared >= 0).sum()))
        sites, matrix = tuple(name for name, kept in zip(sites, real, strict=True) if kept), matrix[:, real]
    words = tuple(text for _, own_words in said for text in own_words)
    return Inequalities(sites, matrix, lower, upper, words, ", ".join(masses) or "exact")
