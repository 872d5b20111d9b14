"""The paper's pictures of handwritten digits, for our model and for the RBM beside it.

Weights of hidden units as images, representative samples of the model (A.1.3), a map of the posteriors by t-SNE, and
4s and 9s that the classifier confuses. Needs matplotlib and openTSNE (the extra `thurbo[report]`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

SIDE = 28


def tiles(images: np.ndarray, n_across: int) -> np.ndarray:
    """Images [n, 784] side by side with a gap of one pixel; what lacks of the last line is empty."""
    n_down = -(-len(images) // n_across)
    low = float(images.min()) if len(images) else 0.0
    sheet = np.full((n_down * (SIDE + 1) - 1, n_across * (SIDE + 1) - 1), low)
    for place, image in enumerate(images):
        top, left = (place // n_across) * (SIDE + 1), (place % n_across) * (SIDE + 1)
        sheet[top : top + SIDE, left : left + SIDE] = image.reshape(SIDE, SIDE)
    return sheet


def weights_of(model: Any) -> np.ndarray:
    """[unit, pixel]."""
    return np.asarray(model.weights_ if hasattr(model, "weights_") else model.params[0]).T


def samples_of(model: Any, n: int, seed: int = 0) -> np.ndarray:
    """Probability of every pixel at representative states: mode seeking for ours, Gibbs then mean-field for the RBM."""
    if hasattr(model, "params_"):
        from thurbo.predict.joint import draw_modes

        x = draw_modes(jax.random.key(seed), model.params_, None, n)
        return np.asarray(jax.scipy.stats.norm.cdf(x - np.asarray(model.params_.gauge.cuts)[None, :, 0]))
    w, b, c = model.params
    key = jax.random.key(seed)
    v = jax.random.bernoulli(key, 0.2, (n, 784)).astype(jnp.float32)
    for step, temperature in enumerate(np.geomspace(10, 1, 200)):
        key_h, key_v = jax.random.split(jax.random.fold_in(key, step))
        h = jax.random.bernoulli(key_h, jax.nn.sigmoid((v @ w + c[None, :]) / temperature)).astype(jnp.float32)
        chance = jax.nn.sigmoid((h @ w.T + b[None, :]) / temperature)
        v = jax.random.bernoulli(key_v, chance).astype(jnp.float32)
    for _ in range(10):  # then downhill without noise: colder sampling would end in the same blank page everywhere
        v = jax.nn.sigmoid(jax.nn.sigmoid(v @ w + c[None, :]) @ w.T + b[None, :])
    return np.asarray(v)


def draw(folder: Path, models: dict[str, Any], data: tuple, guesses: dict[str, np.ndarray | None]) -> None:
    """Write the pictures of every model that was fitted."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from openTSNE import TSNE

    folder.mkdir(parents=True, exist_ok=True)
    _, _, test_x, test_y = data

    def save(name: str, sheet: np.ndarray, colours: str = "gray") -> None:
        plt.imsave(folder / f"{name}.png", sheet, cmap=colours)

    for name, model in models.items():
        w = weights_of(model)
        strongest = np.argsort(-np.linalg.norm(w, axis=1))[:100]
        scaled = w[strongest] / np.abs(w[strongest]).max(axis=1, keepdims=True)
        save(f"{name}-weights", tiles(scaled, 10), "RdBu_r")
        save(f"{name}-samples", tiles(samples_of(model, 100), 10))
        features = model.transform(test_x[:2000])
        places = TSNE(random_state=0, n_jobs=-1).fit(np.asarray(features, np.float64))
        figure, axes = plt.subplots(figsize=(6, 6))
        axes.scatter(places[:, 0], places[:, 1], c=test_y[:2000], cmap="tab10", s=4)
        axes.set_axis_off()
        figure.savefig(folder / f"{name}-map.png", dpi=150, bbox_inches="tight")
        plt.close(figure)
    for name, guess in guesses.items():
        if guess is not None:
            wrong = ((test_y == 4) & (guess == 9)) | ((test_y == 9) & (guess == 4))
            if wrong.any():
                save(f"{name}-confused-4-9", tiles(test_x[wrong][:50].astype(float), 10))
