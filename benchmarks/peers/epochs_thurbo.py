"""thurbo on the same rows. Each column is a yes or no; every update is float32. All settings are public.

"update": one step of one chain per row given its data and of as many chains without evidence as a batch has rows, then
a plain gradient step. An update has six products of matrices: of rows and of chains, the means of x, the hidden
probabilities, and half of the gradient. Per cell it needs a normal draw, where a binary RBM needs a uniform one.
"likelihood": as many steps as by default, two and five, 16 products.
"default": TBM(n_hidden=...) with every other setting left alone. Cells are masked and predicted by five steps of
mean-field, through which the gradient goes; a share of the likelihood is added by 1,000 chains of five steps.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from epochs_worker import Task, claim_output, read, serve

import thurbo as tb
from thurbo.fit import fitting, planning, trainer
from thurbo.latent import packing

HOW: dict[str, dict[str, Any]] = {
    "update": {"n_positive_steps": 1, "n_negative_steps": 1},
    "likelihood": {},
}


class Epochs:
    """Epochs of a model whose rows are on the device; each call is one in random order."""

    def __init__(self, model: tb.TBM, rows: Any, columns: dict[str, Any]) -> None:
        schema = tb.Schema(columns).fit(rows)
        blocks = schema.compile(rows)
        own = {name: value for column in schema.values() for name, value in column.learning_settings.items()}
        chosen = planning.of_columns(planning.flat(model.get_params(deep=False)), own, is_exact=False)
        evidence = packing.pack(blocks.values(), chosen.unobserved, most_widths=0).on_device()
        self.data = fitting.Data(schema, blocks, evidence, np.ones(evidence.n_rows))
        self.layout, self.weight = self.data.layout, jnp.ones(evidence.n_rows, jnp.float32)
        size = fitting.sizes(chosen, self.data.n_counted, schema.n_sites, bool(schema.listed))
        self.plan = planning.plan(chosen, *size)
        self.cells, n_epochs = fitting.lengths(chosen, self.data)
        self.work = float(evidence.n_cells * n_epochs)  # programs are compiled for that of a whole fit
        self.rate = jnp.float32(chosen.learning_rate)
        self.state = fitting.start(jax.random.key(0), self.data, size, fitting.chains_of(chosen), self.plan)
        self.number = 0

    def __call__(self) -> None:
        self.number += 1
        key = jax.random.key(self.number)
        schedule = trainer.Schedule(self.rate, jnp.float32(1e9), jnp.float32(2e9))
        how = (self.layout, schedule, self.plan, self.cells, self.work)
        self.state, _ = trainer.epoch(key, self.state, self.data.evidence, self.weight, *how)
        jax.block_until_ready(self.state)


def main() -> None:
    """Serve epochs of a table or of lists."""
    answers, task = claim_output(), read()
    epochs = of_lists(task) if task.how == "lists" else of_table(task)
    serve(answers, epochs, {name: version(name) for name in ("thurbo", "jax", "jaxlib")})


def of_table(task: Task) -> Epochs:
    """A table of yes or no."""
    frame = pd.DataFrame(task.table.astype(bool)).rename(columns="c{}".format)
    columns = dict.fromkeys(frame, tb.Binary())
    if task.how == "default":
        return Epochs(tb.TBM(n_hidden=task.n_hidden), frame, columns)
    size = {"n_hidden": task.n_hidden, "n_factors": 0, "batch_size": task.batch}
    chains = {"n_chains": task.batch, "sparsity_weight": 0.0}
    learning = tb.Likelihood(**chains, **HOW[task.how], optimizer="sgd", validation_fraction=0.0)
    return Epochs(tb.TBM(**size, weight_decay=0.0, learning=learning), frame, columns)


def of_lists(task: Task) -> Epochs:
    """Lists with every setting left alone; the table has a row for each rating: user, movie, and 1 to 5 stars."""
    long = pd.DataFrame(task.table, columns=["user", "item", "rating"])
    users = tb.from_long(long, row="user", item="item", score="rating")
    return Epochs(tb.TBM(), users, {"item": tb.Ratings()})


if __name__ == "__main__":
    main()
