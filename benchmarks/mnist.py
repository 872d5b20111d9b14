"""The paper's first application: features of handwritten digits, learned without labels, then a linear classifier.

    python -m benchmarks.mnist [--quick] [--validate] [--figures DIR]

Binary pixels (above 127), hidden units by `TBM`, multinomial logistic regression on the tanh of a quarter of their
log-odds: the posterior at twice the temperature, less saturated. Beside it: raw pixels, a binary RBM by CD-1 written
here, and scikit-learn's BernoulliRBM. Settings, the strength of the classifier's penalty among them, are chosen on the
last 10,000 training images (`--validate` prints only those figures);
the 10,000 test images are looked at once. Needs THURBO_DATA. The last line is JSON.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks.flat_settings import grouped
from thurbo import TBM
from thurbo.fit.masking import Rectangles

N_HIDDEN = 500
PENALTIES = (3e-5, 1e-4, 3e-4, 1e-3)


def load() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Binary training images and labels, then those of the test set."""
    folder = Path(os.environ["THURBO_DATA"]) / "mnist"

    def read(name: str, header: int) -> np.ndarray:
        with gzip.open(folder / f"{name}.gz") as file:
            return np.frombuffer(file.read(), np.uint8, offset=header)

    images = [read(f"{part}-images-idx3-ubyte", 16).reshape(-1, 784) > 127 for part in ("train", "t10k")]
    labels = [read(f"{part}-labels-idx1-ubyte", 8).astype(np.int32) for part in ("train", "t10k")]
    return images[0], labels[0], images[1], labels[1]


# ---- the classifier, the same for all features


@partial(jax.jit, static_argnames=("n_steps",))
def _logistic(x: Any, y: Any, start: Any, penalty: Any, n_steps: int) -> Any:
    """Multinomial logistic regression with a ridge, by L-BFGS on all rows at once."""

    def loss(p: Any) -> Any:
        logits = x @ p[0] + p[1][None, :]
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean() + penalty * (p[0] ** 2).sum()

    solver = optax.lbfgs(memory_size=20)
    value_and_grad = optax.value_and_grad_from_state(loss)

    def step(carry: Any, _: None) -> Any:
        p, state = carry
        value, grad = value_and_grad(p, state=state)
        change, state = solver.update(grad, state, p, value=value, grad=grad, value_fn=loss)
        return (optax.apply_updates(p, change), state), None

    (p, _), _ = jax.lax.scan(step, (start, solver.init(start)), None, length=n_steps)
    return p


def classify(train: np.ndarray, labels: np.ndarray, others: list[np.ndarray], penalty: float) -> list[np.ndarray]:
    """Predicted digits of `others` by a classifier fitted to `train`, features standardised by its means."""
    mean, spread = train.mean(axis=0), train.std(axis=0)
    scale = lambda f: jnp.asarray((f - mean) / np.where(spread > 1e-6, spread, 1.0), jnp.float32)  # noqa: E731
    start = jnp.zeros((train.shape[1], 10), jnp.float32), jnp.zeros(10, jnp.float32)
    w, b = _logistic(scale(train), jnp.asarray(labels), start, jnp.float32(penalty), 300)
    return [np.asarray((scale(f) @ w + b[None, :]).argmax(axis=1)) for f in others]


def error(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Per cent wrong."""
    return 100.0 * float((predicted != labels).mean())


def choose_penalty(features: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """The ridge that is best on the last sixth of the training images, 10,000 of all, and its error there."""
    n_train, found = len(labels) * 5 // 6, []
    for penalty in PENALTIES:
        (guess,) = classify(features[:n_train], labels[:n_train], [features[n_train:]], penalty)
        found.append((error(guess, labels[n_train:]), penalty))
    best, penalty = min(found)
    return penalty, best


# ---- features


def thurbo_model(objective: str, seed: int, epochs: int, n_hidden: int = N_HIDDEN, **changed: Any) -> TBM:
    """Our settings, chosen on the last 10,000 training images."""
    settings: dict[str, Any] = {"n_hidden": n_hidden, "n_factors": 0, "batch_size": 500}
    settings |= {"random_state": seed, "verbose": False}
    settings["validation_fraction"] = 0.0  # lengths were chosen by the classifier
    if objective == "multi-prediction":
        settings |= {"masking": Rectangles(28, 28), "learning_rate": 3e-3, "likelihood_weight": 0.02}
        settings["marginal_weight"] = 0.0  # features are wanted, not frequencies
        settings |= {"sparsity_target": 0.1, "sparsity_weight": 0.02, "weight_decay": 3e-3}
    else:
        settings |= {"n_chains": 5000, "n_negative_steps": 10, "weight_decay": 0.0}
        settings |= {"sparsity_target": 0.05, "sparsity_weight": 0.2}
    return TBM(**grouped({"objective": objective, "max_epochs": epochs} | settings | changed))


def soften(log_odds: np.ndarray) -> np.ndarray:
    """Posteriors at twice the temperature, between −1 and 1."""
    return np.tanh(log_odds / 4.0)


class RBM:
    """The paper's other model: a binary RBM by CD-1 with momentum, weight decay and 500 units."""

    def __init__(self, seed: int, epochs: int, n_hidden: int = N_HIDDEN, rate: float = 0.05, batch: int = 100):
        self.seed, self.epochs, self.n_hidden, self.rate, self.batch = seed, epochs, n_hidden, rate, batch

    def fit(self, x: np.ndarray) -> RBM:
        """Learn from binary images."""
        data = jnp.asarray(x, jnp.float32)
        n, batch = len(x) // self.batch * self.batch, self.batch
        key = jax.random.key(self.seed)
        w = 0.01 * jax.random.normal(key, (x.shape[1], self.n_hidden), jnp.float32)
        share = jnp.clip(data.mean(axis=0), 0.01, 0.99)
        params = w, jnp.log(share / (1 - share)), jnp.zeros(self.n_hidden, jnp.float32)

        def update(carry: Any, item: Any) -> Any:
            params, speed = carry
            v, key, momentum, rate = item
            w, b, c = params
            key_h, key_v = jax.random.split(key)
            p = jax.nn.sigmoid(v @ w + c[None, :])
            h = (jax.random.uniform(key_h, p.shape) < p).astype(jnp.float32)
            again = jax.nn.sigmoid(h @ w.T + b[None, :])
            again = (jax.random.uniform(key_v, again.shape) < again).astype(jnp.float32)
            q = jax.nn.sigmoid(again @ w + c[None, :])
            grads = (v.T @ p - again.T @ q) / batch - 2e-4 * w, (v - again).mean(axis=0), (p - q).mean(axis=0)
            speed = jax.tree.map(lambda s, g: momentum * s + rate * g, speed, grads)
            return (jax.tree.map(jnp.add, params, speed), speed), None

        @jax.jit
        def epoch(params: Any, speed: Any, key: Any, momentum: Any, rate: Any) -> Any:
            key_order, key_step = jax.random.split(key)
            order = jax.random.permutation(key_order, len(x))[:n].reshape(-1, batch)
            steps = order.shape[0]

            def body(carry: Any, item: Any) -> Any:
                index, k = item
                return update(carry, (data[index], k, momentum, rate))

            (params, speed), _ = jax.lax.scan(body, (params, speed), (order, jax.random.split(key_step, steps)))
            return params, speed

        speed = jax.tree.map(jnp.zeros_like, params)
        for number in range(self.epochs):
            momentum = 0.5 if number < 5 else 0.9
            rate = self.rate * min(1.0, 2.0 * (1.0 - number / self.epochs))
            params, speed = epoch(params, speed, jax.random.fold_in(key, number), momentum, rate)
        self.params = jax.block_until_ready(params)
        return self

    def transform(self, x: np.ndarray) -> np.ndarray:
        """The same features of its hidden units."""
        w, _, c = self.params
        return soften(np.asarray(jnp.asarray(x, jnp.float32) @ w + c[None, :]))


def bernoulli_rbm(x: np.ndarray, seed: int, epochs: int) -> Callable[[np.ndarray], np.ndarray]:
    """scikit-learn's, with the probabilities that its `transform` gives as features."""
    from sklearn.neural_network import BernoulliRBM

    model = BernoulliRBM(N_HIDDEN, learning_rate=0.05, batch_size=500, n_iter=epochs, random_state=seed)
    model.fit(x.astype(np.float32))
    return lambda images: model.transform(images.astype(np.float32))


# ---- the tables


def assess(
    name: str,
    make: Callable[[int], tuple[Callable[[np.ndarray], np.ndarray], float]],
    seeds: range,
    data: tuple,
    only: bool,
) -> dict[str, Any]:
    """Errors over seeds: of the last 10,000 training images with features learned from all, and of the test images."""
    x, y, test_x, test_y = data
    validation, test, seconds, guess = [], [], [], None
    for seed in seeds:
        transform, took = make(seed)
        features = transform(x)
        penalty, best = choose_penalty(features, y)
        validation.append(best)
        seconds.append(took)
        if not only:
            (guess,) = classify(features, y, [transform(test_x)], penalty)
            test.append(error(guess, test_y))
        print(f"  {name}, seed {seed}: validation {best:.2f} %, test {test[-1] if test else float('nan'):.2f} %, "
              f"penalty {penalty:g}, {took:.0f} s to train", flush=True)  # fmt: skip
    return {"validation": validation, "test": test, "seconds": seconds, "guess": guess}


def report(found: dict[str, dict[str, Any]], titles: dict[str, str]) -> None:
    """The table and the JSON line."""
    print(f"\n{'features':28s} {'validation %':>12s} {'test %':>8s} {'sd':>6s} {'s':>6s}")
    for key, result in found.items():
        test = np.mean(result["test"]) if result["test"] else np.nan
        spread, took = np.std(result["test"] or 0), np.mean(result["seconds"])
        print(f"{titles[key]:28s} {np.mean(result['validation']):12.2f} {test:8.2f} {spread:6.2f} {took:6.0f}")

    def mean(key: str) -> float | None:
        return float(np.mean(found[key]["test"])) if key in found and found[key]["test"] else None

    best = found.get("mp") or next(iter(found.values()))
    print(
        json.dumps(
            {
                "error": mean("mp"),
                "error_sd": float(np.std(best["test"])) if best["test"] else None,
                "validation": {key: float(np.mean(result["validation"])) for key, result in found.items()},
                "likelihood_error": mean("likelihood"),
                "rbm_cd1_error": mean("rbm"),
                "bernoulli_rbm_error": mean("bernoulli"),
                "raw_error": mean("raw"),
                "seconds": float(np.mean(best["seconds"])),
            }
        )
    )


def asked() -> argparse.Namespace:
    """The command's arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed and fewer epochs, for two cores")
    parser.add_argument("--validate", action="store_true", help="leave the test set alone")
    parser.add_argument("--figures", type=Path, help="write the paper's figures to this folder")
    parser.add_argument("--only", help="some of mp,rbm,raw,likelihood,bernoulli")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--hidden", type=int, default=N_HIDDEN)
    parser.add_argument("--seeds", type=int, help="how many (default 3)")
    parser.add_argument("--seed", type=int, default=0, help="the first of them")
    parser.add_argument("--rows", type=int, help="learn from so many training images, the first")
    parser.add_argument("--set", default="{}", help="JSON of TBM parameters to change")
    return parser.parse_args()


def main() -> None:
    """Print a table for people and one JSON line."""
    arguments, data = asked(), load()
    data = (*(part[: arguments.rows] for part in data[:2]), *data[2:])
    x, first = data[0], arguments.seed
    seeds = range(first, first + (arguments.seeds or (1 if arguments.quick else 3)))
    one = range(first, first + 1)
    changed = json.loads(arguments.set)
    if "masking" in changed:
        changed["masking"] = Rectangles(28, 28, *changed["masking"])
    models: dict[str, Any] = {}

    def ours(objective: str, epochs: int) -> Any:
        def make(seed: int) -> Any:
            is_light = arguments.quick and objective == "multi-prediction"
            lighter = {"likelihood_weight": 0.0} if is_light else {}  # chains double the runtime on two cores
            settings = lighter | changed
            model = thurbo_model(objective, seed, arguments.epochs or epochs, arguments.hidden, **settings)
            started = time.perf_counter()
            model.fit(x)
            took = time.perf_counter() - started
            models.setdefault(objective, model)
            return lambda images: soften(model.transform(images, output="log_odds")), took

        return make

    def rbm(seed: int) -> Any:
        started = time.perf_counter()
        model = RBM(seed, arguments.epochs or (15 if arguments.quick else 60)).fit(x)
        models.setdefault("rbm", model)
        return model.transform, time.perf_counter() - started

    def bernoulli(seed: int) -> Any:
        started = time.perf_counter()
        transform = bernoulli_rbm(x, seed, 3 if arguments.quick else 10)
        return transform, time.perf_counter() - started

    runs = {
        "mp": ("thurbo, multi-prediction", ours("multi-prediction", 40 if arguments.quick else 150), seeds),
        "likelihood": ("thurbo, likelihood", ours("likelihood", 120), seeds),
        "rbm": ("RBM, CD-1", rbm, seeds),
        "bernoulli": ("BernoulliRBM", bernoulli, one),
        "raw": ("raw pixels", lambda seed: (lambda images: images.astype(np.float32), 0.0), one),
    }
    if arguments.quick:
        del runs["likelihood"]
    if arguments.only:
        runs = {name: runs[name] for name in arguments.only.split(",")}
    found = {key: assess(*run, data, arguments.validate) for key, run in runs.items()}
    report(found, {key: run[0] for key, run in runs.items()})
    if arguments.figures:
        from benchmarks.mnist_figures import draw

        draw(arguments.figures, models, data, {key: result["guess"] for key, result in found.items()})


if __name__ == "__main__":
    main()
