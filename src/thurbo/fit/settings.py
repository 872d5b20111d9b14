"""§5, §6 Settings of each training objective, as users give them (`TBM(learning=Prediction(...))`), and of a fit.

Plain frozen values without JAX. `planning.flat` merges them with the estimator's own parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Settings that every objective has; `TBM(objective=...)` chooses the objective.

    Use it where the objective should stay "auto". `Prediction`, `Likelihood` and `Exact` have these settings too.

    Parameters
    ----------
    sparsity_target : float, default=0.1
        ρ of §6: the target probability that a hidden unit is on.
    sparsity_weight : float or "auto", default="auto"
        λ of §6: weight of the penalty that moves each row's hidden probabilities towards `sparsity_target`. 0 turns
        it off. "auto" is 0, unless you choose more than 100 hidden units for a table, without factors, and leave the
        objective "auto": then it is 0.1 times one minus 100 over their number.
    latent_bound : float, optional
        Clip x to this many standard deviations around its mean before hidden units see it during training (§6).
        None does not clip.
    max_norm : float, optional
        Largest Euclidean norm of the weights of one hidden unit. None sets no limit.
    posterior_smoothing : float, optional
        η of A.2.3, between 0 and 1: keep an exponential average of the hidden probabilities of each training row.
        `TBM.fit` then sets `posteriors_`. None keeps no average.
    learn_cuts : bool, default=True
        Learn the cut points between ordered levels (§5.2), or keep them at the observed frequencies.
    optimizer : {"auto", "adam", "sgd"}, default="auto"
        Gradient method; "sgd" are plain steps. "auto" is "sgd" for the likelihood by chains, otherwise "adam". With
        momentum or Adam, noise of the chains drives the model away from the data.
    validation_fraction : float or "auto", default="auto"
        Share of rows held out from training. The parameters with the best held-out score are kept, and training ends
        when this score stops improving. "auto" holds out a tenth of the rows (at most 2,000) of tables with at least
        5,000 rows, and none of smaller tables.
    devices : int or "auto", default="auto"
        Number of devices that training uses, of each process. "auto" is all GPUs or TPUs, if there are several, and one
        device of a CPU; all devices of all processes after `tb.distributed.initialize()`. Members that are fitted to a
        sample or to a small table are each on one device; all rows of a large table, and a single model, have batches
        that are divided by rows. Parameters differ by rounding only.

    Examples
    --------
    >>> import thurbo as tb
    >>> tb.TBM(n_hidden=4, learning=tb.Learning(validation_fraction=0.2)).objective
    'auto'
    """

    sparsity_target: float = 0.1
    sparsity_weight: float | Literal["auto"] = "auto"
    latent_bound: float | None = None
    max_norm: float | None = None
    posterior_smoothing: float | None = None
    learn_cuts: bool = True
    optimizer: Literal["auto", "adam", "sgd"] = "auto"
    validation_fraction: float | Literal["auto"] = "auto"
    devices: int | Literal["auto"] = "auto"


@dataclass(frozen=True, kw_only=True)
class _WithChains(Learning):
    """Settings of the chains without evidence, which estimate expectations under the model in Eq. (8)."""

    n_negative_steps: int = 5
    n_chains: int | Literal["auto"] = "auto"


@dataclass(frozen=True, kw_only=True)
class Prediction(_WithChains):
    """Train by multi-prediction: maximise log P(masked cells | the other cells of the row).

    Each update masks some cells of each row and predicts them by a few mean-field steps from the others. A share of
    the likelihood can be added.

    Parameters
    ----------
    likelihood_weight : float or "auto", default="auto"
        Weight of the likelihood that is added to the prediction objective. It makes the model a better generative
        model. "auto" is 0.1 if `TBM(objective="auto")` and there are no factors, otherwise 0; with more than 100
        hidden units it is 0.1 times 100 over their number.
    marginal_weight : float or "auto", default="auto"
        Weight of log P(cell | no other cell), which is added to the prediction objective, so that predictions for
        an empty row are the frequencies of the answers. "auto" is 0.3 with `unobserved="marginalize"`, less for more
        than 100 hidden units as above; with "exclude" it must be 0.
    masking : {"auto", "cells", "neighbours"} or object, default="auto"
        Which cells are masked. "cells": a random share of the cells of each row, best for imputation. "neighbours":
        runs of neighbouring columns, best for features of respondents (maps, segments). Or an object of
        `thurbo.fit.masking`, such as `Rectangles(28, 28)` for images. "auto" is "cells".
    active_share : float, optional
        Enforced sparsity, for features: in each batch, a hidden unit is on only in this share of the rows, those where
        it is most probable, and off in the others when masked cells are predicted. `sparsity_weight` is a penalty
        instead. None does not enforce it. Queries are not changed.
    experts : {"auto", "none"}, default="auto"
        "auto" adds boosted trees for each question to a model of several members, weighed by held-out answers: see
        `TBM.experts_`. "none" leaves predictions to the members.
    n_negative_steps, n_chains
        As in `Likelihood`, with 1,000 chains by default; used if `likelihood_weight` is above 0, where the expectations
        given a row are by mean-field.
    sparsity_target, sparsity_weight, latent_bound, max_norm, posterior_smoothing, learn_cuts, optimizer, \
validation_fraction, devices
        As in `Learning`.

    Examples
    --------
    >>> import thurbo as tb
    >>> model = tb.TBM(n_hidden=50, learning=tb.Prediction(masking="neighbours", likelihood_weight=0.0))
    >>> model.set_params(learning__sparsity_weight=0.02).learning.sparsity_weight
    0.02
    """

    likelihood_weight: float | Literal["auto"] = "auto"
    marginal_weight: float | Literal["auto"] = "auto"
    masking: Any = "auto"
    active_share: float | None = None
    experts: Literal["auto", "none"] = "auto"


@dataclass(frozen=True, kw_only=True)
class Likelihood(_WithChains):
    """Train by the likelihood of the evidence, log P(e), with the two-phase gradient of Eq. (8).

    Both expectations of the gradient are by persistent Gibbs chains (§5.1): one chain per row given its evidence, and
    chains of the model without evidence. Every update continues all of them, and then makes a plain gradient step at a
    rate that is constant for half of the epochs and then falls to zero. With `unobserved="exclude"` each row has a
    model of its own, and so a chain without evidence of its own.

    Parameters
    ----------
    n_positive_steps : int, default=2
        Rounds of Gibbs sampling per update of the chains given a row.
    n_negative_steps : int, default=5
        Rounds of Gibbs sampling per update of the chains without evidence. More rounds (10) allow longer training.
    n_chains : int or "auto", default="auto"
        Number of chains without evidence. "auto" is a twentieth of the number of rows, at least 500 and at most 5,000.
    sparsity_target, sparsity_weight, latent_bound, max_norm, posterior_smoothing, learn_cuts, optimizer, \
validation_fraction, devices
        As in `Learning`. "auto" holds out no rows: until the rate falls, held-out scores say little.

    Examples
    --------
    >>> import thurbo as tb
    >>> model = tb.TBM(n_hidden=500, learning=tb.Likelihood(n_chains=5000, n_negative_steps=10))
    """

    n_positive_steps: int = 2


@dataclass(frozen=True, kw_only=True)
class Exact(Learning):
    """Train by the exact likelihood log P(e), summed over all 2^K states of the hidden units; for few units.

    Parameters
    ----------
    sparsity_target, sparsity_weight, latent_bound, max_norm, posterior_smoothing, learn_cuts, optimizer, \
validation_fraction, devices
        As in `Learning`.

    Examples
    --------
    >>> import thurbo as tb
    >>> model = tb.TBM(n_hidden=4, learning=tb.Exact(learn_cuts=False))
    """


OBJECTIVE_OF: dict[type[Learning], str] = {
    Learning: "auto",
    Prediction: "multi-prediction",
    Likelihood: "likelihood",
    Exact: "exact",
}

AUTO_UPDATES = 3000  # target number of gradient steps of "auto" epochs


@dataclass(frozen=True, kw_only=True)
class FitSettings(Prediction, Likelihood):
    """All settings of a fit: the estimator's parameters, those of every objective, and those that lists bring.

    Settings that an objective does not have are at their defaults. What is still "auto" depends on the table.
    """

    n_hidden: int | Literal["auto"]
    n_factors: int | Literal["auto"]
    members: int | Literal["auto"]
    objective: Literal["auto", "likelihood", "multi-prediction", "exact"]
    unobserved: Literal["marginalize", "exclude"]
    missing: Literal["auto", "ignorable", "informative"]
    weight_decay: float
    learning_rate: float
    batch_size: int | Literal["auto"]
    max_epochs: int | Literal["auto"]
    max_time: float | None
    checkpoint: str | PathLike[str] | None
    objective_is_auto: bool  # whether these were left to the fit
    weight_decay_is_auto: bool
    learning_rate_is_auto: bool
    auto_updates: int = AUTO_UPDATES
    item_decay: float = 0.0
    presence: bool = False
    draws: int = 0
    item_units: int = 0
