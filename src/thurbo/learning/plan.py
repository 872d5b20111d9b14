"""§5, §6 How to learn: every choice of a fit in one frozen, hashable record, so that a plan compiles once.

What changes while training runs (parameters, chains, rates) is in the state, never here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from thurbo.evidence import Unobserved
from thurbo.learning.hiding import Cells, Hiding

Objective = Literal["likelihood", "multi-prediction", "exact"]


@dataclass(frozen=True)
class Plan:
    """Static choices of a fit.

    objective           what is maximised: the evidence likelihood (§5) by two phases, the log-probability of hidden
                        cells, or the likelihood by enumeration
    unobserved          whether a missing cell is integrated over or no variable of that row at all
    positive_phase      data-dependent statistics by mean-field or by Gibbs sampling started from it (§5.1)
    negative_phase      data-independent statistics by shared persistent chains, the same with tempered copies that
                        exchange states, or contrastive divergence (§5.1)
    hiding              which cells multi-prediction hides from itself
    sparsity_*          ρ and λ of §6, A.2.2, taken at the average x of a row or averaged over its draws
    posterior_smoothing η of A.2.3: share of the old in each row's running posterior; 0 keeps none
    presence            whether it speaks which items a row lists at all
    latent_bound        how far from its mean hidden units see an x in the data phase (§6)
    """

    objective: Objective = "multi-prediction"
    unobserved: Unobserved = "marginalize"
    positive_phase: Literal["mean-field", "gibbs"] = "mean-field"
    negative_phase: Literal["persistent", "contrastive", "tempered"] = "persistent"
    likelihood_weight: float = 0.0
    hiding: Hiding = field(default_factory=Cells)
    n_mean_field_steps: int = 5
    n_positive_steps: int = 5
    n_negative_steps: int = 5
    n_temperatures: int = 10
    damping: float = 0.5
    sparsity_target: float = 0.1
    sparsity_weight: float = 0.0
    sparsity_form: Literal["average", "samples"] = "average"
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
        """Whether there is a negative phase at all."""
        return self.objective == "likelihood" or self.likelihood_weight > 0

    @property
    def keeps_chains(self) -> bool:
        """Whether chains of the model go on from update to update."""
        return self.uses_chains and self.negative_phase != "contrastive"
