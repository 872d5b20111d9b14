"""§5, §6 From the parameters of the estimator to the plan of a fit: checks each value, and resolves every "auto".

The default rules are in this file; the training loop only sees the resulting `Plan`, which is frozen and hashable, so
that each plan compiles once. Quantities that change during training (parameters, chains, rates) are in the state.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from thurbo.errors import ThurboError, check_choice
from thurbo.fit.masking import NAMED, Masking, RandomCells
from thurbo.fit.settings import OBJECTIVE_OF, FitSettings
from thurbo.latent.evidence import Unobserved
from thurbo.latent.inference.meanfield import PREDICTION_STEPS
from thurbo.latent.inference.posterior import MAX_QUADRATURE_FACTORS

Objective = Literal["likelihood", "multi-prediction", "exact"]


@dataclass(frozen=True)
class Plan:
    """Static settings of a fit.

    objective           what is maximised: the likelihood of the evidence (§5) by two phases, the log-probability of
                        masked cells, or the likelihood by enumeration
    unobserved          whether a missing cell is integrated over ("marginalize"), or not a variable ("exclude")
    masking             which cells multi-prediction masks, to predict them from the others
    marginal_weight     weight of the log-probability of each cell given no other cell, in multi-prediction
    sparsity_*          ρ and λ of §6, A.2.2
    active_share        share of a batch in which each unit may be on when masked cells are predicted; None is all
    posterior_smoothing η of A.2.3: weight of the old value in each row's running posterior; 0 turns it off
    presence            use which items a row lists as a signal
    latent_bound        bound on the distance of x from its mean as input of hidden units in the data phase (§6)
    in_order            whether the rows of a batch are in the order of the table: a part of them is then every fourth
    """

    objective: Objective = "multi-prediction"
    unobserved: Unobserved = "marginalize"
    likelihood_weight: float = 0.0
    marginal_weight: float = 0.0
    masking: Masking = field(default_factory=RandomCells)
    n_mean_field_steps: int = 5
    n_positive_steps: int = 2
    n_negative_steps: int = 5
    damping: float = 0.5
    sparsity_target: float = 0.1
    sparsity_weight: float = 0.0
    active_share: float | None = None
    posterior_smoothing: float = 0.0
    latent_bound: float | None = None
    weight_decay: float = 1e-3
    presence: bool = False
    max_norm: float | None = None
    learn_cuts: bool = True
    optimizer: Literal["adam", "sgd"] = "adam"
    centring_rate: float = 0.05
    in_order: bool = False

    @property
    def uses_chains(self) -> bool:
        """Whether there is a negative phase."""
        return self.objective == "likelihood" or self.likelihood_weight > 0

    @property
    def keeps_chains(self) -> bool:
        """Whether the chains persist from update to update."""
        return self.uses_chains and self.unobserved != "exclude"


Settings = Mapping[str, Any]  # parameters by name, as they are given
EXACT_OBJECTIVE = 8  # largest number of hidden units for which "auto" enumerates
LEAST_WATCHED, MOST_WATCHED = 5000, 2000  # minimum rows to hold some out; maximum held out
UPDATES_OF_MANY_UNITS = 8000  # instead of AUTO_UPDATES
LIST_UNITS, LIST_CELLS, LIST_UPDATES = (30, 9), (512, 1 << 15), 600  # lists: units and factors, cells, steps
MOST_AS_A_WHOLE = 200_000  # rows of a table in memory to which a single model is fitted as a whole
LEAST_MEAN_WEIGHT = 0.1  # of rows, for weights to be numbers of rows
AUTO_MARGINAL_WEIGHT = 0.3
# Above so many hidden units, shares of other objectives and the rate are lower. Of a table without factors, training is
# longer and units are sparse: a linear classifier of images was wrong in 2.2 %, and in 2.5 % without this.
MANY_UNITS, AUTO_SPARSITY = 100, 0.1
MOST_ENUMERATED = {"objective": 20, "method": 16}  # hidden units; a factor counts as five (its quadrature nodes)
_FIELDS = {item.name: item.default for item in fields(FitSettings)}
_TYPES = get_type_hints(FitSettings)
CHOICES = {name: get_args(kind) for name, kind in _TYPES.items() if get_origin(kind) is Literal}
MAY_BE_AUTO = {name for name, kind in _TYPES.items() if Literal["auto"] in get_args(kind)}
SMALLEST = {"n_hidden": 0, "n_factors": 0, "n_positive_steps": 1, "n_negative_steps": 1, "n_chains": 1}
SMALLEST |= {"batch_size": 1, "max_epochs": 0, "members": 1, "devices": 1}
# Each unit needs numbers for every site and for every row of a batch: of 100 sites and 500 rows, about 6 kB.
LARGEST, BYTES_PER_UNIT = {"n_hidden": 10_000, "n_factors": 1_000}, 6_400
NOT_NEGATIVE = ("weight_decay", "sparsity_weight", "sparsity_target", "likelihood_weight", "marginal_weight")
MAY_BE_NONE = ("max_norm", "latent_bound", "max_time")
AUTO = {"weight_decay": 1e-3, "learning_rate": 1e-2}
AUTO_EXACT = {"weight_decay": 1e-2, "learning_rate": 2e-2}  # of a table with one column


def flat(parameters: Settings) -> FitSettings:
    """The estimator's parameters merged with those of `learning`; the type of `learning` decides the objective."""
    learning, objective = parameters["learning"], parameters["objective"]
    check_choice("objective", objective, CHOICES["objective"])
    if learning is not None and type(learning) not in OBJECTIVE_OF:
        kinds = ", ".join(f"tb.{kind.__name__}(...)" for kind in OBJECTIVE_OF)
        raise ThurboError(f"learning={learning!r} is not one of None, {kinds}")
    found = {**_FIELDS, **{name: value for name, value in parameters.items() if name in _FIELDS}}
    found["objective_is_auto"] = objective == "auto"
    found |= {f"{name}_is_auto": found[name] == "auto" for name in ("learning_rate", "weight_decay")}
    if learning is not None:
        implied = OBJECTIVE_OF[type(learning)]
        if "auto" not in (objective, implied) and objective != implied:
            kind = type(learning).__name__
            raise ThurboError(
                f'objective="{objective}" contradicts learning={kind}(...), which is for objective="{implied}"; '
                "remove one of them"
            )
        found |= {item.name: getattr(learning, item.name) for item in fields(learning)}
        found["objective"] = objective if implied == "auto" else implied
    found |= {name: value for name, value in AUTO.items() if isinstance(found[name], str) and found[name] == "auto"}
    check(found)
    if found["learning_rate_is_auto"] and found["n_hidden"] != "auto":
        found["learning_rate"] *= _thinned(int(found["n_hidden"])) ** 0.5
    return FitSettings(**found)


def _thinned(n_hidden: int) -> float:
    """1 for up to 100 hidden units, then in inverse proportion to their number."""
    return min(1.0, MANY_UNITS / max(n_hidden, 1))


def can_enumerate(n_hidden: int, n_factors: int, by: str) -> bool:
    """Whether so many hidden units and factors can be enumerated: by an objective, or by a method of a query."""
    return n_factors <= MAX_QUADRATURE_FACTORS and n_hidden + 5 * n_factors <= MOST_ENUMERATED[by]


def check(settings: Settings) -> None:
    """Check every setting by name, before training starts."""
    for name, known in CHOICES.items():
        check_choice(name, settings[name], known)
    for name, smallest in SMALLEST.items():
        value = settings[name]
        if isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= smallest:
            if name in LARGEST and int(value) > LARGEST[name]:
                memory = int(value) * BYTES_PER_UNIT / 1e9
                problem = f"{name}={value} is more than {LARGEST[name]:,}; for a table with 100 columns, training would"
                remedy = 'tables rarely need more than 100, give fewer or "auto"'
                raise ThurboError(f"{problem} need about {memory:,.0f} GB of memory; {remedy}")
            continue
        if name not in MAY_BE_AUTO or value != "auto":
            auto = ' or "auto"' if name in MAY_BE_AUTO else ""
            raise ThurboError(f"{name}={value!r} is not a whole number of at least {smallest}{auto}")
    share = settings["validation_fraction"]
    if share != "auto" and not (isinstance(share, (int, float)) and 0 <= share < 1):
        raise ThurboError(f'validation_fraction={share!r} is not a number from 0 to below 1, nor "auto"')
    if not callable(settings["masking"]) and settings["masking"] not in list(NAMED):
        named = ", ".join(NAMED)
        raise ThurboError(f"masking={settings['masking']!r} is not one of {named} or an object like Rectangles(28, 28)")
    for name in ("posterior_smoothing", "active_share"):
        value = settings[name]
        if value is not None and not (isinstance(value, (int, float)) and 0 < value < 1):
            raise ThurboError(f"{name}={value!r} is neither None nor a number between 0 and 1")
    for name in ("learning_rate", *MAY_BE_NONE, *NOT_NEGATIVE):
        value = settings[name]
        if (name in MAY_BE_NONE and value is None) or (name in MAY_BE_AUTO and value == "auto"):
            continue
        may_be_zero = name in NOT_NEGATIVE
        if not isinstance(value, Real) or not math.isfinite(value) or value < 0 or (value == 0 and not may_be_zero):
            raise ThurboError(f"{name}={value!r} is not a number {'of at least' if may_be_zero else 'above'} 0")


def row_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """How many rows each row stands for: half a row twice is the row once.

    Other than that the unit of weights is arbitrary (shares of a population, people of a country): they are scaled to
    mean one if their mean is above one, so that weights do not make more rows than there are, or below a tenth.
    """
    if sample_weight is None:
        return np.ones(n_rows)
    try:
        weight = np.asarray(sample_weight, np.float64)
    except (TypeError, ValueError):
        raise ThurboError("sample_weight has a value that is not a number; give one number for each row") from None
    if weight.shape != (n_rows,):
        raise ThurboError(f"sample_weight has shape {weight.shape}; give one number for each of the {n_rows} rows")
    bad = np.flatnonzero(~(np.isfinite(weight) & (weight >= 0)))
    if len(bad):
        raise ThurboError(f"row {bad[0]}: sample_weight {weight[bad[0]]} is not a number of zero or more")
    if weight.sum() == 0:
        raise ThurboError("sample_weight is zero for every row; give at least one row a positive weight")
    mean = weight[weight > 0].mean()
    return weight if LEAST_MEAN_WEIGHT <= mean <= 1.0 else weight / mean


def plan(settings: FitSettings, n_hidden: int, n_factors: int) -> Plan:
    """The plan of a fit, with every "auto" resolved."""
    objective = settings.objective
    if objective == "auto":
        objective = "exact" if n_hidden <= EXACT_OBJECTIVE and n_factors == 0 else "multi-prediction"
    if objective == "exact" and not can_enumerate(n_hidden, n_factors, "objective"):
        raise ThurboError(
            f'{n_hidden} hidden units and {n_factors} factors are too many to enumerate; use objective="auto"'
        )
    share = settings.likelihood_weight
    if share == "auto":
        # With factors it reduced the log-likelihood per masked answer of a survey by 0.03 nats.
        mixed = settings.objective_is_auto and objective == "multi-prediction" and n_factors == 0
        share = 0.1 * _thinned(n_hidden) if mixed else 0.0
    excludes, marginal = settings.unobserved == "exclude", settings.marginal_weight
    if marginal == "auto":
        marginal = 0.0 if excludes else AUTO_MARGINAL_WEIGHT * _thinned(n_hidden)
    if marginal and excludes:
        problem = f'marginal_weight={marginal} needs cells that are variables of every row, and unobserved="exclude"'
        raise ThurboError(f'{problem} has none in an empty row; use marginal_weight=0, or unobserved="marginalize"')
    resolved = {item.name: getattr(settings, item.name) for item in fields(Plan) if item.name in _FIELDS}
    resolved |= {"objective": objective, "likelihood_weight": share, "marginal_weight": marginal}
    resolved["n_mean_field_steps"] = PREDICTION_STEPS if objective == "multi-prediction" else 10
    resolved["posterior_smoothing"] = settings.posterior_smoothing or 0.0
    if isinstance(settings.masking, str):
        resolved["masking"] = NAMED[settings.masking]
    if settings.sparsity_weight == "auto":
        resolved["sparsity_weight"] = 0.0
    if settings.optimizer == "auto":
        resolved["optimizer"] = "sgd" if objective == "likelihood" else "adam"
    # Numbers of NumPy as plain ones, whose text says all about a plan.
    return Plan(**{name: each.item() if isinstance(each, np.generic) else each for name, each in resolved.items()})


def held_out(settings: FitSettings, n_rows: int) -> int:
    """Rows to hold out from training; "auto" is a tenth, and none of a small table or for the likelihood.

    Held-out scores of the likelihood by chains are poor until the rate falls, so they must not end training.
    """
    share = settings.validation_fraction
    if share == "auto" and settings.objective == "likelihood":
        return 0
    if share == "auto":
        return min(n_rows // 10, MOST_WATCHED) if n_rows >= LEAST_WATCHED else 0
    return min(round(share * n_rows), n_rows - 1)


def lengths(settings: FitSettings, n_rows: int, n_cells: int, has_lists: bool = False) -> tuple[int, int]:
    """Cells in a batch, and epochs; of lists, a `batch_size` in rows is converted by their mean length."""
    settings = of_likelihood(settings, n_rows, n_cells // n_rows, 1)  # the number of units only changes the rate
    size = settings.batch_size
    if has_lists:
        cells = int(np.clip(n_cells // 8, *LIST_CELLS))
        cells = cells if size == "auto" else max(1, round(int(size) * n_cells / n_rows))
        usual = np.clip(LIST_UPDATES * cells // max(n_cells, 1), 5, 200)
    else:
        n_batch = min(int(np.clip(n_rows // 140, 100, 500)) if size == "auto" else int(size), n_rows)
        cells = n_batch * (n_cells // n_rows)
        usual = np.clip(settings.auto_updates // -(-n_rows // n_batch), 20, 300)
    return cells, int(usual) if settings.max_epochs == "auto" else int(settings.max_epochs)


# Plain steps on the likelihood: the rate for up to 30 weights, and how it falls with their number; the number of
# updates, between two limits and fewer for wide tables, and at least so many per row; rows of a batch and chains as a
# share of all rows, each between two limits. Chosen on simulated tables and images, from 10 to 784 sites.
CHAIN_RATE, FEW_WEIGHTS, RATE_POWER = 0.15, 30, 0.25
CHAIN_UPDATES, SLOTS_OF_UPDATES, UPDATES_PER_ROW = (2500, 10_000), 1_000_000, 0.3
CHAIN_BATCH, N_CHAINS = (20, 100, 500), (20, 500, 5000)
CHAINS_BESIDE_PREDICTION = 1000


def of_likelihood(settings: FitSettings, n_rows: int, n_slots: int, n_hidden: int) -> FitSettings:
    """The settings for the likelihood by chains, with "auto" resolved; weights have a standard normal prior."""
    if settings.objective != "likelihood":
        return settings
    own: dict[str, Any] = {}
    if settings.learning_rate_is_auto:
        own["learning_rate"] = CHAIN_RATE * min(1.0, FEW_WEIGHTS / max(n_slots * n_hidden, 1)) ** RATE_POWER
    if settings.weight_decay_is_auto:
        own["weight_decay"] = 1.0 / n_rows
    for name, (share, least, most) in (("batch_size", CHAIN_BATCH), ("n_chains", N_CHAINS)):
        if getattr(settings, name) == "auto":
            own[name] = int(np.clip(n_rows // share, least, most))
    n_batches = -(-n_rows // int(own.get("batch_size", settings.batch_size)))
    if settings.max_epochs == "auto":
        updates = np.clip(SLOTS_OF_UPDATES // max(n_slots, 1), *CHAIN_UPDATES)
        own["max_epochs"] = -(-max(int(updates), round(UPDATES_PER_ROW * n_rows)) // n_batches)
    return replace(settings, **own)


def of_columns(settings: FitSettings, of_items: Settings, is_exact: bool) -> FitSettings:
    """The settings for a table: with those that columns of lists bring, or with "exact" for "auto" if `is_exact`.

    Items that a row does not list are no variables of it, and "auto" uses no chains. "auto" `is_exact` for a single
    column, which no other cell predicts, and with rankings that only the exact likelihood can learn. Otherwise many
    hidden units without factors are chosen with every rule of an objective.
    """
    share, n_hidden = settings.likelihood_weight, settings.n_hidden
    if of_items:
        weight = 0.0 if share == "auto" else share
        return replace(settings, **of_items, unobserved="exclude", likelihood_weight=weight)
    no_factors, own = settings.n_factors in ("auto", 0), dict[str, Any]()
    if is_exact:
        is_possible = n_hidden == "auto" or can_enumerate(n_hidden, 0, "objective")
        if settings.objective == "auto" and no_factors and is_possible:
            own = {name: value for name, value in AUTO_EXACT.items() if getattr(settings, f"{name}_is_auto")}
            own |= {"objective": "exact", "n_factors": 0}
        return replace(settings, **own)
    is_free = settings.objective_is_auto and settings.objective in ("auto", "multi-prediction")
    thinned = _thinned(int(n_hidden)) if is_free and no_factors and n_hidden != "auto" else 1.0
    if thinned < 1.0:
        own["auto_updates"] = UPDATES_OF_MANY_UNITS
        if settings.learning_rate_is_auto:
            own["learning_rate"] = settings.learning_rate * thinned**-0.25
        if settings.sparsity_weight == "auto":
            own["sparsity_weight"] = AUTO_SPARSITY * (1.0 - thinned)
    return replace(settings, **own)
