"""§5, §6 All settings of a fit in one frozen, hashable record, so that each plan compiles once.

Quantities that change during training (parameters, chains, rates) are in the state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from thurbo.evidence import Unobserved
from thurbo.learning.masking import Cells, Masking

Objective = Literal["likelihood", "multi-prediction", "exact"]


@dataclass(frozen=True)
class Plan:
    """Static settings of a fit.

    objective           what is maximised: the likelihood of the evidence (§5) by two phases, the log-probability of
                        masked cells, or the likelihood by enumeration
    unobserved          whether a missing cell is integrated over ("marginalize"), or not a variable ("exclude")
    positive_phase      data-dependent statistics by mean-field or by Gibbs sampling started from it (§5.1)
    negative_phase      data-independent statistics by persistent chains, by persistent chains with parallel
                        tempering, or by contrastive divergence (§5.1)
    integrate           the layer that is integrated out of the statistics x hᵀ of the likelihood's gradient
    masking             which cells multi-prediction masks, to predict them from the others
    marginal_weight     weight of the log-probability of each cell given no other cell, in multi-prediction
    sparsity_*          ρ and λ of §6, A.2.2, at the average x of a row or averaged over its samples
    active_share        share of a batch in which each unit may be on when masked cells are predicted; None is all
    posterior_smoothing η of A.2.3: weight of the old value in each row's running posterior; 0 turns it off
    presence            use which items a row lists as a signal
    latent_bound        bound on the distance of x from its mean as input of hidden units in the data phase (§6)
    """

    objective: Objective = "multi-prediction"
    unobserved: Unobserved = "marginalize"
    positive_phase: Literal["mean-field", "gibbs"] = "mean-field"
    negative_phase: Literal["persistent", "contrastive", "tempered"] = "persistent"
    integrate: Literal["latent", "hidden"] = "latent"
    likelihood_weight: float = 0.0
    marginal_weight: float = 0.0
    masking: Masking = field(default_factory=Cells)
    n_mean_field_steps: int = 5
    n_positive_steps: int = 5
    n_negative_steps: int = 5
    n_temperatures: int = 10
    damping: float = 0.5
    sparsity_target: float = 0.1
    sparsity_weight: float = 0.0
    sparsity_form: Literal["average", "samples"] = "average"
    active_share: float | None = None
    posterior_smoothing: float = 0.0
    latent_bound: float | None = None
    weight_decay: float = 1e-3
    presence: bool = False
    max_norm: float | None = None
    learn_cuts: bool = True
    optimizer: Literal["adam", "sgd"] = "adam"
    centring_rate: float = 0.05

    @property
    def uses_chains(self) -> bool:
        """Whether there is a negative phase."""
        return self.objective == "likelihood" or self.likelihood_weight > 0

    @property
    def keeps_chains(self) -> bool:
        """Whether the chains persist from update to update."""
        return self.uses_chains and self.negative_phase != "contrastive"
