"""scikit-learn's BernoulliRBM: persistent chains, as many as rows in a batch, one step per update.

An update has five products of matrices: hidden probabilities of the data; visible units of the chains, then their
hidden probabilities; both halves of the gradient. Plain gradient ascent. Rows are not shuffled. Parameters and products
are of the type of the table: "float32", or "float64", to which `fit` converts whole numbers and booleans. Random
numbers are drawn as float64.
"""

from __future__ import annotations

import numpy as np
import sklearn
from epochs_worker import claim_output, read, serve
from sklearn.neural_network import BernoulliRBM


def main() -> None:
    """One epoch is `fit` with one iteration, from new parameters."""
    answers, task = claim_output(), read()
    table = task.table.astype(task.how)
    model = BernoulliRBM(task.n_hidden, learning_rate=0.01, batch_size=task.batch, n_iter=1, random_state=0)
    serve(answers, lambda: model.fit(table), {"scikit-learn": sklearn.__version__, "numpy": np.__version__})


if __name__ == "__main__":
    main()
