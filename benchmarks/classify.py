"""The linear classifier that judges features: multinomial logistic regression with a ridge.

Loss and gradient in JAX, on whatever device it has; steps by SciPy's L-BFGS, so that next to nothing is compiled.
scikit-learn's solvers take minutes where this takes seconds.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax


@jax.jit
def _loss(p: Any, x: Any, y: Any, share: Any, penalty: Any) -> Any:
    """Loss and its slope at p = coefficients [feature + 1, class], the intercepts last.

    The slope is written out: the gradient of picking each row's own class would be a scatter, slow on a CPU. Products
    are of full single precision, which a GPU would not take of itself and a line search needs.
    """
    log_chance = jax.nn.log_softmax(jnp.matmul(x, p[:-1], precision="highest") + p[-1:], axis=1)
    own = (y[:, None] == jnp.arange(p.shape[1], dtype=y.dtype)[None, :]).astype(x.dtype)
    loss = penalty * (p[:-1] ** 2).sum() - share @ (own * log_chance).sum(axis=1)
    rest = (jnp.exp(log_chance) - own) * share[:, None]
    slope = jnp.matmul(x.T, rest, precision="highest") + 2.0 * penalty * p[:-1]
    return loss, jnp.concatenate([slope, rest.sum(axis=0)[None, :]])


def logistic(
    x: Any, y: np.ndarray, n_classes: int, penalty: float, *, weight: np.ndarray | None = None, n_steps: int = 100
) -> np.ndarray:
    """Coefficients [feature + 1, class], the intercepts last: least mean loss plus `penalty` times their squares.

    Rows count by their weight; at 0 their label may be anything.
    """
    weight = np.ones(len(y)) if weight is None else np.asarray(weight, float)
    shape = (x.shape[1] + 1, n_classes)
    data = (
        jnp.asarray(x, jnp.float32),
        jnp.asarray(y, jnp.int32),
        jnp.asarray(weight / weight.sum(), jnp.float32),
        jnp.float32(penalty),
    )

    def slope(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, grad = _loss(jnp.asarray(flat.reshape(shape), jnp.float32), *data)
        return float(value), np.asarray(grad, np.float64).ravel()

    options = {"maxiter": n_steps, "maxcor": 20, "ftol": 1e-6, "gtol": 1e-6}
    found = minimize(slope, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options)
    return found.x.reshape(shape)


def chances(x: Any, coefficients: np.ndarray) -> np.ndarray:
    """P(class) of each row: [row, class]. On the host, where a new number of rows compiles nothing."""
    return softmax(np.asarray(x) @ coefficients[:-1].astype(np.float32) + coefficients[-1:], axis=1)


def classify(features: np.ndarray, labels: np.ndarray, train: np.ndarray, penalty: float, **how: Any) -> np.ndarray:
    """Predicted labels (0, 1, …) of all rows, learned from those that `train` numbers; features are standardised.

    All rows go in, the others without weight: one shape whatever the split, so one program.
    """
    spread = features.std(axis=0)
    x = jnp.asarray((features - features.mean(axis=0)) / np.where(spread > 1e-6, spread, 1.0), jnp.float32)
    weight = np.zeros(len(features))
    weight[train] = 1.0
    return chances(x, logistic(x, labels, int(labels.max()) + 1, penalty, weight=weight, **how)).argmax(axis=1)


def error(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Per cent wrong."""
    return 100.0 * float((predicted != labels).mean())
