"""§4, A.2.4 Can this model's chains be trusted, and do its hidden units still tell rows apart?

Several Gibbs chains from dispersed starts on some rows, and several of the model alone, are held against each other;
what all rows say about a hidden unit shows whether it is stuck or saturated. The answer is plain numbers, and words.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import partial
from html import escape
from numbers import Integral
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from thurbo import rbm
from thurbo._typing import Array, Float, PRNGKey
from thurbo.errors import ConvergenceWarning, ThurboError
from thurbo.evidence import Evidence
from thurbo.evidence.pack import by_chunks
from thurbo.inference import diagnostics, gibbs
from thurbo.queries import predict
from thurbo.rbm import Params

MOST_RHAT = 1.05
LEAST_ESS = 100.0


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """How chains mix, and how hidden units fare; `print` it, or read its attributes.

    R-hat and effective sample size are those of the log-odds of each hidden unit along the chains. They are
    rank-normalised, so those of its probability are the same.
    """

    rows: np.ndarray  # [row] labels of the rows whose chains were watched
    rhat: np.ndarray  # [row, hidden] of P(h_k = 1 | x) along the chains of a row
    ess: np.ndarray  # [row, hidden]
    prior_rhat: np.ndarray  # [hidden] of the chains of the model alone
    prior_ess: np.ndarray  # [hidden]
    stuck: np.ndarray  # hidden units, from 0, that are on, or off, for all rows
    saturated: np.ndarray  # hidden units that are on or off for nearly every row, and never in between
    converged: bool  # whether the fit went well
    n_chains: int
    n_draws: int

    @property
    def mixes(self) -> np.ndarray:
        """[hidden] whether the unit's chains agree, R-hat ≤ 1.05 and effective sample size ≥ 100, in every row."""
        return np.all(_good(self.rhat, self.ess), axis=0)

    @property
    def prior_mixes(self) -> np.ndarray:
        """[hidden] whether the unit's chains of the model alone agree."""
        return _good(self.prior_rhat, self.prior_ess)

    @property
    def healthy(self) -> bool:
        """Whether all is as it should be: fit, chains and hidden units."""
        return self.converged and bool(self.mixes.all() and self.prior_mixes.all() and not len(self.stuck))

    def worst(self) -> str:
        """The hidden unit and row whose chains mix least, in words; empty without hidden units."""
        if not self.rhat.size:
            return ""
        row, unit = np.unravel_index(_badness(self.rhat, self.ess).argmax(), self.rhat.shape)
        return f"hidden{unit} in row {self.rows[row]}, {_figures(self.rhat[row, unit], self.ess[row, unit])}"

    def prior_worst(self) -> str:
        """The hidden unit whose chains of the model alone mix least, in words; empty without hidden units."""
        if not self.prior_rhat.size:
            return ""
        unit = _badness(self.prior_rhat, self.prior_ess).argmax()
        return f"hidden{unit}, {_figures(self.prior_rhat[unit], self.prior_ess[unit])}"

    def _lines(self) -> list[tuple[str, str]]:
        return [
            ("fit", "went well" if self.converged else "did not converge"),
            ("chains", f"{self.n_chains} of {self.n_draws} draws in each of {len(self.rows)} rows"),
            ("given a row", _verdict(self.mixes, self.worst())),
            ("model alone", _verdict(self.prior_mixes, self.prior_worst())),
            ("stuck units", _units(self.stuck)),
            ("saturated units", _units(self.saturated)),
        ]

    def __str__(self) -> str:
        lines = self._lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name.ljust(width)}  {text}" for name, text in lines)

    def _repr_html_(self) -> str:
        body = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in self._lines())
        return f"<table><tbody>{body}</tbody></table>"


def _good(rhat: np.ndarray, ess: np.ndarray) -> np.ndarray:
    """Not a number is not good."""
    return (rhat <= MOST_RHAT) & (ess >= LEAST_ESS)


def _badness(rhat: np.ndarray, ess: np.ndarray) -> np.ndarray:
    """Above 1 where one of the two limits is broken."""
    with np.errstate(divide="ignore"):
        value = np.maximum((rhat - 1.0) / (MOST_RHAT - 1.0), LEAST_ESS / ess)
    return np.where(np.isnan(value), np.inf, value)


def _figures(rhat: float, ess: float) -> str:
    return f"R-hat {rhat:.2f}, effective sample size {ess:.0f}"


def _verdict(mixes: np.ndarray, worst: str) -> str:
    if not len(mixes):
        return "no hidden units"
    return f"{int(mixes.sum())} of {len(mixes)} hidden units mix; the least: {worst}"


def _units(units: np.ndarray) -> str:
    return ", ".join(f"hidden{unit}" for unit in units) or "none"


def _starts(n_chains: int, dtype: np.dtype) -> Float[Array, "chain one"]:
    """Dispersed: every unit off in the first chain, on in the last, and at random, more and more often, in between."""
    return jnp.linspace(0.0, 1.0, n_chains, dtype=dtype)[:, None]


@partial(jax.jit, static_argnames=("n_chains", "n_draws"))
def _row_chains(
    key: PRNGKey, params: Params, evidence: Evidence, n_chains: int, n_draws: int
) -> Float[Array, "row chain draw hidden"]:
    """Log-odds of each hidden unit given x, Eq. (3), along `n_chains` chains a row, after as many rounds unheard."""
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
    """Log-odds of each hidden unit at the mean of x given h, along chains of the model alone, §5.1.

    A function of the state of the chain that, unlike the state itself, does not stand still where a unit is rarely on.
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
    evidence: Evidence,
    how: predict.How,
    *,
    labels: np.ndarray,
    converged: bool,
    n_chains: int,
    n_draws: int,
    rows: Any,
    random: np.random.RandomState,
) -> Diagnostics:
    """Run chains on some rows and of the model alone, and look at every row's hidden probabilities."""
    for name, value, least in (("n_chains", n_chains, 2), ("n_draws", n_draws, 4)):
        if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
            raise ThurboError(f"{name}={value!r} is not a whole number of at least {least}")
    chosen = _chosen(rows, evidence.n_rows, random)
    diagnostics.require()
    key_rows, key_prior = jax.random.split(jax.random.key(int(random.randint(2**31 - 1))))
    some = jax.tree.map(np.asarray, evidence).rows(chosen)
    drawn = by_chunks(lambda part: _row_chains(key_rows, params, part, int(n_chains), int(n_draws)), some)
    drawn = np.moveaxis(drawn, 0, 2)  # [chain, draw, row, hidden]
    prior = np.asarray(_prior_chains(key_prior, params, int(n_chains), int(n_draws)))
    health = diagnostics.unit_health(by_chunks(lambda part: predict.features(params, part, how).hidden, evidence))
    return Diagnostics(
        rows=np.asarray(labels)[chosen],
        rhat=diagnostics.rhat(drawn),
        ess=diagnostics.ess(drawn),
        prior_rhat=diagnostics.rhat(prior),
        prior_ess=diagnostics.ess(prior),
        stuck=np.flatnonzero(health.stuck),
        saturated=np.flatnonzero(health.saturated),
        converged=converged,
        n_chains=int(n_chains),
        n_draws=int(n_draws),
    )


def _chosen(rows: Any, n_rows: int, random: np.random.RandomState) -> np.ndarray:
    """Positions of the rows to watch: so many at random, or those that are named."""
    if isinstance(rows, Integral) and not isinstance(rows, bool) and int(rows) >= 1:
        return np.sort(random.choice(n_rows, size=min(int(rows), n_rows), replace=False))
    named = np.asarray(rows)
    if named.ndim == 1 and named.dtype.kind in "iu" and len(named) and named.min() >= 0 and named.max() < n_rows:
        return named
    raise ThurboError(f"rows={rows!r} is neither a number of rows nor a list of positions from 0 to {n_rows - 1}")


def warn(found: Diagnostics) -> None:
    """Say which chains do not mix, if any."""
    limits = f"R-hat should be at most {MOST_RHAT}, the effective sample size at least {LEAST_ESS:.0f}"
    if not found.mixes.all():
        warnings.warn(
            f"chains of {(~found.mixes).sum()} of {len(found.mixes)} hidden units do not mix in some of the "
            f"{len(found.rows)} rows watched, the worst {found.worst()} ({limits}); see whether a larger n_draws "
            'helps, and do not rely on method="gibbs" if it does not',
            ConvergenceWarning,
            stacklevel=3,
        )
    if not found.prior_mixes.all():
        warnings.warn(
            f"chains of the model alone do not mix for {(~found.prior_mixes).sum()} of {len(found.prior_mixes)} hidden "
            f"units, the worst {found.prior_worst()} ({limits}); see whether a larger n_draws helps, and if it does "
            'not, smaller weights (weight_decay, max_norm) or objective="exact" or "multi-prediction" might',
            ConvergenceWarning,
            stacklevel=3,
        )
