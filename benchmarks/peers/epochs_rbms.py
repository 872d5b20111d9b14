"""rbms: persistent chains, as many as rows in a batch, one step per update, float32, centred gradient.

An update has six products of matrices: hidden units of the data; of the chains hidden, visible and hidden units again;
both halves of the gradient. The gradient is divided by its norm. "train" is its own function, which draws every batch
from a new permutation of all rows and writes the learning rates to a file after every update. "update" calls what
`train` calls for one update, and nothing else.
"""

from __future__ import annotations

from importlib.metadata import version

import numpy as np
import torch
from epochs_worker import Task, claim_output, read, serve
from rbms.bernoulli_bernoulli.classes import BBRBM
from rbms.dataset.dataset_class import RBMDataset
from rbms.training.pcd import fit_batch_pcd, train

RATE = 0.01


def main() -> None:
    """One epoch in random order."""
    answers, task = claim_output(), read()
    torch.set_num_threads(task.threads)
    torch.manual_seed(0)
    n = len(task.table)
    table = task.table.astype(np.float32)
    data = RBMDataset(table, np.zeros(n), np.ones(n, np.float32), np.arange(n), "table", True, device="cpu")
    epoch = _by_update(data, task) if task.how == "update" else _by_train(data, task)
    serve(answers, epoch, {"rbms": version("rbms"), "torch": torch.__version__})


def _by_update(data: RBMDataset, task: Task):
    model = BBRBM.init_parameters(task.n_hidden, data, device=torch.device("cpu"), dtype=torch.float32)
    model.init_grad()
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE, maximize=True)
    chains = model.init_chains(task.batch)

    @torch.no_grad()
    def epoch() -> None:
        nonlocal chains
        for index in torch.randperm(len(data)).split(task.batch):
            optimiser.zero_grad(set_to_none=False)
            batch = data.data[index], data.weights[index]
            chains, _ = fit_batch_pcd(batch, chains, model, gibbs_steps=1, beta=1.0)
            optimiser.step()

    return epoch


def _by_train(data: RBMDataset, task: Task):
    n_updates = -(-len(data) // task.batch)
    settings = {
        "filename": str(task.folder / "rbms.h5"),
        "overwrite": True,
        "restore": False,
        "log": False,
        "num_hiddens": task.n_hidden,
        "batch_size": task.batch,
        "num_chains": task.batch,
        "gibbs_steps": 1,
        "learning_rate": RATE,
        "num_updates": n_updates + 1,  # the new model counts as one
        "training_type": "pcd",
        "beta": 1.0,
        "no_center": False,
        "L1": 0.0,
        "L2": 0.0,
        "seed": 0,
        "train_size": 1.0,
        "test_size": 0.0,
        "device": torch.device("cpu"),
        "dtype": torch.float32,
    }

    def epoch() -> None:
        train(data, data, "BBRBM", dict(settings), torch.float32, np.array([n_updates + 1]))

    return epoch


if __name__ == "__main__":
    main()
