"""§5 The objectives, as functions whose gradient by JAX is the gradient of the paper.

`likelihood`: a surrogate with the gradient of Eq. (8), §5.2 (cuts), A.2.2 (sparsity), given the states of both phases.
`multi_prediction`: log-probability of masked cells after a few mean-field steps from the others. `exact`: log P(e).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from thurbo import rbm
from thurbo._typing import Array, Chains, Float, Hidden, PerRow, Rows, RowsMask
from thurbo.constraints import Region
from thurbo.evidence import Evidence
from thurbo.inference.likelihood import log_evidence_exact
from thurbo.inference.meanfield import MeanField, factor_variance, mean_field, predictive
from thurbo.learning.phases import Positive
from thurbo.learning.plan import Plan
from thurbo.rbm import Params


def positive_part(params: Params, evidence: Evidence, state: Positive) -> PerRow:
    """E[log Ω(h) + log P(e | h, z)] at fixed q: its gradient is the data-dependent half of Eq. (8), and §5.2.

    γᵀq + ½‖m_o(q)‖² + log P(x_o ∈ Ω | m(q) + Vz) + E_q ½‖m_f(h)‖² − ½ Σ_o V_i Cov(z) V_iᵀ, o observed, f free. By the
    envelope theorem this is the gradient of the mean-field bound; for a draw of h it is Eq. (8) with x integrated out.
    """
    seen = evidence.seen(params)
    observed = evidence.observed
    mean = rbm.latent_mean(seen, state.hidden)
    value = rbm.prior_of_hidden(seen, state.hidden)
    value = value + 0.5 * (rbm.only(mean, observed) ** 2).sum(-1)
    value = value + rbm.expected_log_omega(seen, state.hidden, evidence.free, mean)
    region = evidence.region(seen.gauge)
    value = value + region.log_mass(mean + rbm.factor_shift(seen, state.factors))
    if seen.factor_prior is not None:  # the parameters of the prior of z are learned, too
        value = value - 0.5 * ((state.factors - seen.factor_prior) ** 2).sum(-1)
    if state.whitener is not None:
        spread = factor_variance(seen, jax.lax.stop_gradient(state.whitener))
        value = value - 0.5 * rbm.only(spread, observed).sum(-1)
    return value


def negative_part(params: Params, evidence: Evidence, h: Chains, plan: Plan) -> Float[Array, " chain"]:
    """log Ω(h) at the states of the chains: its gradient is the data-independent half of Eq. (8)."""
    if plan.negative_phase != "contrastive":
        return rbm.log_omega(params, h)
    return rbm.log_omega(evidence.seen(params), h, evidence.present)


def sparsity(params: Params, evidence: Evidence, state: Positive, target: float) -> PerRow:
    """Penalty on the log-odds g_k(x) = γ_k + Σ_i W_ik x_i of each unit, with target ρ, in either form of the paper.

    §6: Σ_k (ρ − σ(g_k)) g_k at the mean x̂ of a row, from mean-field or from the recent samples.
    A.2.2: the average of the same over the draws themselves. Its slope in g_k is that of Σ_k ρ log P(h_k) + ….
    """
    seen = evidence.seen(params)
    units = seen
    if state.draws is None:
        mean, shift = rbm.latent_mean(seen, state.hidden), rbm.factor_shift(seen, state.factors)
        x = evidence.region(seen.gauge).mean(mean + shift) - shift
        return _pull(units, rbm.only(x, evidence.present), state.hidden, target)
    pulls = [_pull(units, rbm.only(x, evidence.present), None, target) for x in state.draws]
    return jnp.stack(pulls).mean(axis=0)


def _pull(params: Params, x: Rows, hidden: Hidden | None, target: float) -> PerRow:
    logits = rbm.hidden_logits(params, jax.lax.stop_gradient(x))
    hidden = jax.nn.sigmoid(logits) if hidden is None else hidden
    return ((target - jax.lax.stop_gradient(hidden)) * logits).sum(-1)


def multi_prediction(params: Params, evidence: Evidence, masked: RowsMask, plan: Plan) -> tuple[PerRow, MeanField]:
    """log P(masked cells | the others) of each row at the mean-field prediction, and that mean-field.

    `masked` are the slots that the plan's masking returns.
    """
    region, q = _predict(params, evidence, masked, evidence.n_rows, plan)
    shown = _most_active(params, q, evidence, evidence.n_rows, plan)
    return _of_masked(region, evidence, *predictive(params, shown, evidence), masked, plan), q


def prediction_and_marginal(
    params: Params, evidence: Evidence, masked: RowsMask, plan: Plan
) -> tuple[PerRow, Float[Array, " some"], MeanField]:
    """`multi_prediction` of all rows; and of the first quarter, Σ log P(each cell | no other cell).

    An empty row is the same for all rows, so its mean-field is computed once, as one more row of the batch: one program
    computes both. It needs a row's missing cells to be variables of the model ("marginalize").
    """
    n, some = evidence.n_rows, -(-evidence.n_rows // 4)
    every = evidence.rows(np.r_[:n, :some])
    hidden = jnp.concatenate([masked, jnp.ones((some, masked.shape[1]), bool)])
    region, q = _predict(params, every, hidden, n, plan, n_more=1)
    # The rows of the batch, and the empty row for each of the others.
    some_rows = every.rows(slice(n + 1))
    moments = predictive(params, _most_active(params, q, some_rows, n, plan), some_rows)
    mean, deviation = (jnp.concatenate([each, jnp.tile(each[n:], (some - 1, 1))]) for each in moments)
    value = _of_masked(region, every, mean, deviation, hidden, plan)
    own = MeanField(q.hidden[:n], q.log_odds[:n], q.factors[:n], None, q.felt, q.mean[:n])
    return value[:n], value[n:], own


def _predict(
    params: Params, evidence: Evidence, masked: RowsMask, n_rows: int, plan: Plan, n_more: int = 0
) -> tuple[Region, MeanField]:
    """The region of all rows, and the mean-field of the first ones without what is masked: `n_rows` and `n_more`."""
    region = evidence.region(evidence.seen(params).gauge)
    first = slice(n_rows + n_more)
    shown = evidence.rows(first).hide(masked[first], plan.unobserved)
    known = None  # inequalities between cells without some of them are a region of their own
    if not evidence.spans_cells:
        known = jax.tree.map(lambda leaf: leaf[first], region).release(masked[first])
    steps, bound = (plan.n_mean_field_steps, plan.damping), plan.latent_bound
    return region, mean_field(params, shown, *steps, latent_bound=bound, n_felt=n_rows, known=known)


def _most_active(params: Params, q: MeanField, evidence: Evidence, n_rows: int, plan: Plan) -> MeanField:
    """Each unit is off in the first `n_rows` rows, except for a share of them where it is most probable."""
    if plan.active_share is None or not n_rows:
        return q
    own, n_active = q.hidden[:n_rows], max(1, round(plan.active_share * n_rows))
    least = jax.lax.stop_gradient(jnp.sort(own, axis=0)[n_rows - n_active])
    hidden = jnp.concatenate([jnp.where(own >= least[None, :], own, 0.0), q.hidden[n_rows:]])
    return q._replace(hidden=hidden, mean=rbm.latent_mean(evidence.seen(params), hidden))


def _of_masked(region: Region, evidence: Evidence, mean: Rows, deviation: Rows, masked: RowsMask, plan: Plan) -> PerRow:
    whole = evidence.cells is not None and getattr(plan.masking, "whole_cells", False)
    return region.mass_of_masked(mean, deviation, masked, whole)


def exact(params: Params, evidence: Evidence) -> PerRow:
    """log P(e) of each row, by enumeration of h."""
    return log_evidence_exact(params, evidence)


def reconstruction(params: Params, evidence: Evidence, state: Positive) -> PerRow:
    """log P(e | q) of each row at its own posteriors (simpler than A.2.4): for monitoring, not maximised."""
    seen = evidence.seen(params)
    mean = rbm.latent_mean(seen, state.hidden) + rbm.factor_shift(seen, state.factors)
    return evidence.region(seen.gauge).log_mass(mean)
