"""The paper's pictures for docs/boltzmann.md: features, samples and a map of digits, and a map of respondents.

    python docs/make_paper_images.py [--model FILE] [--only digits|survey] [--arrays DIR | --draw DIR] [--quick]

Digits come from a model of binary MNIST images that was trained by likelihood: one that is saved, or one that is fitted
here. Respondents are those of Afrobarometer round 4, if it can be read. With `--arrays`, what the pictures show is
written to DIR, which needs no matplotlib; `--draw` makes the pictures of such a folder, without data and models.
Pictures go to docs/images, at most 150 kB each. Data: $THURBO_DATA.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

IMAGES = Path(__file__).parent / "images"
MOST_BYTES, N_COLOURS = 150_000, 64
N_ACROSS, N_DIGITS_ON_MAP, N_PEOPLE = 12, 3000, 6000
# As in `benchmarks.survey`: features by which countries differ.
COUNTRY: dict[str, Any] = {"n_hidden": 100, "n_factors": 0, "likelihood_weight": 0.0, "masking": "neighbours"}
COUNTRY |= {"unobserved": "exclude", "weight_decay": 0.05, "batch_size": 500, "max_epochs": 60}


def say(text: str) -> None:
    print(text, flush=True)


# ---- arrays


def places_of(features: np.ndarray) -> np.ndarray:
    """t-SNE of rows, by openTSNE if it is installed and by scikit-learn otherwise: [row, 2]."""
    if importlib.util.find_spec("openTSNE") is None:
        from sklearn.manifold import TSNE

        return np.asarray(TSNE(random_state=0, n_jobs=-1).fit_transform(features.astype(np.float32)))
    import openTSNE

    return np.asarray(openTSNE.TSNE(random_state=0, n_jobs=-1).fit(features.astype(np.float64)))


def digits(saved: Path | None, quick: bool) -> dict[str, np.ndarray]:
    """Columns of W, samples of free chains, modes, and a map of posteriors of test images."""
    from benchmarks import generative, mnist

    import thurbo as tb

    images, _, test, labels = mnist.load()
    if saved is not None:
        model = tb.TBM.load(saved)
    else:
        size = generative.QUICK if quick else generative.Size()
        settings = generative.settings_of_digits(size)
        model = generative.fit(images[: size.n_images], random_state=0, **settings).model
    weights, n = np.asarray(model.weights_).T, N_ACROSS**2
    strongest = np.argsort(-np.linalg.norm(weights, axis=1))[:n]
    found = {"features": weights[strongest].astype(np.float16)}
    for method in ("gibbs", "modes"):
        found[method] = np.asarray(model.sample(n, method=method, random_state=0)).astype(bool)
    shown = slice(0, 500 if quick else N_DIGITS_ON_MAP)
    return found | {"places": places_of(model.transform(test[shown])), "labels": labels[shown]}


def survey(quick: bool) -> dict[str, np.ndarray] | None:
    """A map of respondents by the log-odds of hidden units, which never saw their country; None without data."""
    from benchmarks import afrobarometer, generative
    from benchmarks.flat_settings import grouped

    import thurbo as tb

    try:
        people = afrobarometer.load()
    except (OSError, tb.ThurboError) as problem:
        say(f"the Afrobarometer cannot be read here: {problem}")
        return None
    chosen = np.random.default_rng(0).permutation(len(people.frame))[: 1000 if quick else N_PEOPLE]
    people = people.rows(np.sort(chosen))
    schema = tb.Schema({q["name"]: afrobarometer.column(q) for q in people.questions})
    settings = grouped(COUNTRY | ({"n_hidden": 30, "max_epochs": 20} if quick else {}))
    model = generative.fit(people.frame, schema, random_state=0, **settings).model
    features = model.transform(people.frame, output="log_odds")
    features = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-6)
    names = [people.country_names.get(int(code), f"country {code}") for code in people.country]
    return {"places": places_of(features), "names": np.asarray(names)}


# ---- pictures


def write(name: str, drawn: Any) -> None:
    """A picture, given as PNG bytes or as an array, with few colours."""
    from PIL import Image

    image = Image.open(io.BytesIO(drawn)) if isinstance(drawn, bytes) else Image.fromarray(drawn)
    image = image.convert("RGB").quantize(N_COLOURS)
    path = IMAGES / f"paper-{name}.png"
    image.save(path, optimize=True)
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise SystemExit(f"{path} has {size:,} bytes; show fewer points or use fewer colours")
    say(f"{path.name}: {image.width} × {image.height}, {size // 1000} kB")


def draw_map(name: str, places: np.ndarray, groups: np.ndarray, colours: str) -> None:
    """Points by group, with a legend."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 5.4))
    for number, group in enumerate(np.unique(groups)):
        own = groups == group
        axes.scatter(*places[own].T, s=3, linewidths=0, color=plt.get_cmap(colours)(number), label=str(group))
    axes.set_axis_off()
    axes.legend(markerscale=4, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    file = io.BytesIO()
    figure.savefig(file, dpi=100, bbox_inches="tight")
    plt.close(figure)
    write(name, file.getvalue())


def draw_sheet(name: str, images: np.ndarray, colours: str) -> None:
    """Small images side by side, each pixel twice as large; values from 0 to 1."""
    import matplotlib as mpl
    from benchmarks.mnist_figures import tiles

    sheet = np.kron(tiles(images, N_ACROSS), np.ones((2, 2)))
    write(name, (255 * mpl.colormaps[colours](sheet)[..., :3]).astype(np.uint8))


def draw(folder: Path) -> None:
    """Every picture whose arrays are in a folder."""
    IMAGES.mkdir(exist_ok=True)
    if (folder / "digits.npz").exists():
        with np.load(folder / "digits.npz") as found:
            w = found["features"].astype(float)
            draw_sheet("features", 0.5 + 0.5 * w / np.abs(w).max(axis=1, keepdims=True), "RdBu_r")
            draw_sheet("samples", found["gibbs"].astype(float), "gray")
            draw_sheet("modes", found["modes"].astype(float), "gray")
            draw_map("digits", found["places"], found["labels"], "tab10")
    if (folder / "survey.npz").exists():
        with np.load(folder / "survey.npz") as found:
            draw_map("survey", found["places"], found["names"], "tab20")


def main() -> None:
    """Compute arrays, draw them, or both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, help="a saved model of binary MNIST images; otherwise one is fitted")
    parser.add_argument("--only", choices=("digits", "survey"))
    parser.add_argument("--arrays", type=Path, metavar="DIR", help="write arrays to this folder, and draw nothing")
    parser.add_argument("--draw", type=Path, metavar="DIR", help="draw the arrays of this folder, and compute nothing")
    parser.add_argument("--quick", action="store_true", help="small models and few points, to try it out")
    chosen = parser.parse_args()
    if chosen.draw:
        draw(chosen.draw)
        return
    with tempfile.TemporaryDirectory() as place:
        folder = chosen.arrays or Path(place)
        folder.mkdir(parents=True, exist_ok=True)
        makers = {"digits": lambda: digits(chosen.model, chosen.quick), "survey": lambda: survey(chosen.quick)}
        for name, make in makers.items():
            if chosen.only in (None, name):
                started, found = time.perf_counter(), make()
                if found is not None:
                    np.savez_compressed(folder / f"{name}.npz", **found)
                    say(f"{name}: {time.perf_counter() - started:.0f} s")
        if not chosen.arrays:
            draw(folder)


if __name__ == "__main__":
    main()
