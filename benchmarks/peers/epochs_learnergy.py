"""learnergy's RBM: contrastive divergence with one step, float32.

An update has seven products of matrices: hidden units of the data, visible units, hidden units of these; the free
energies of both, and their gradients. Plain gradient descent. "fit" is its own method, which reads rows one at a time
and estimates the pseudo-likelihood of every batch, two products more. "update" leaves both out.
"""

from __future__ import annotations

import os

import numpy as np
import torch
from epochs_worker import claim_output, read, serve


def main() -> None:
    """One epoch in random order."""
    answers, task = claim_output(), read()
    os.chdir(task.folder)  # it writes a log
    from learnergy.core import Dataset
    from learnergy.models.bernoulli import RBM

    torch.set_num_threads(task.threads)
    torch.manual_seed(0)
    table = torch.from_numpy(task.table.astype(np.float32))
    model = RBM(table.shape[1], task.n_hidden, steps=1, learning_rate=0.01)
    rows = Dataset(table, torch.zeros(len(table)), show_log=False)

    def updates() -> None:
        for index in torch.randperm(len(table)).split(task.batch):
            seen = table[index]
            drawn = model.gibbs_sampling(seen)[-1].detach()
            cost = torch.mean(model.energy(seen)) - torch.mean(model.energy(drawn))
            model.optimizer.zero_grad()
            cost.backward()
            model.optimizer.step()

    epoch = updates if task.how == "update" else lambda: model.fit(rows, batch_size=task.batch, epochs=1)
    serve(answers, epoch, {"learnergy": _version("learnergy"), "torch": torch.__version__})


def _version(name: str) -> str:
    from importlib.metadata import version

    return version(name)


if __name__ == "__main__":
    main()
