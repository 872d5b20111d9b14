"""A fitted estimator as a model file, and back: settings, schema and history as JSON, parameters as arrays.

Files of earlier versions lack what was added later. Whatever no fit can have given is refused.
"""

from __future__ import annotations

from dataclasses import fields
from os import PathLike
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from thurbo.errors import NotTrusted
from thurbo.fit.masking import Neighbours, RandomCells, Rectangles
from thurbo.fit.settings import OBJECTIVE_OF
from thurbo.latent.constraints import Context, Gauge
from thurbo.latent.rbm import Params, Presence
from thurbo.predict.correction import Anchor, Conditional, Correction, Expert, Route, Routes, Source, Trees
from thurbo.predict.model import LEAST_ANSWERS, Member, MemberSettings, Model, Pair
from thurbo.table.columns.values import plain
from thurbo.table.io import files
from thurbo.table.schema.schema import Schema

Arrays = dict[str, np.ndarray]
State = dict[str, Any]  # a record as JSON holds it

# Attributes of a fitted model that a file holds as they are.
PLAIN = {"objective": str, "history": list, "converged": bool, "n_features_in": int, "frame_kind": str}
NEWER = ("shrinkage", "is_draw")  # settings of members that older files lack
_SETTINGS: dict[str, Any] = {kind.__name__: kind for kind in (*OBJECTIVE_OF, RandomCells, Neighbours, Rectangles)}
_SETTINGS["Cells"] = RandomCells  # its name in earlier files


def save(model: Any, path: str | PathLike[str]) -> None:
    """Write the fitted model to one file: no code, no rows of the data."""
    fitted: Model = model.model_
    learned = fitted.correction
    members = fitted.members if not fitted.is_single or any(vars(learned).values()) else ()
    chosen = {name: _described(value) for name, value in model.get_params(deep=False).items() if name != "schema"}
    chosen["checkpoint"] = None  # the file of a training run is no part of the model
    if not isinstance(chosen["random_state"], int):
        chosen["random_state"] = None  # nor is the state of a generator
    arrays = {"seen_rows": model._seen_rows, **_arrays(fitted.params)}
    for number, member in enumerate(members):
        arrays |= {f"member{number}.{name}": array for name, array in _arrays(member.params).items()}
    for number, each in enumerate(each for own in fitted.presence.values() for each in own):
        arrays |= {f"presence{number}.{part}": np.asarray(array) for part, array in each._asdict().items()}
    informed = [each for each in members if each.settings.is_informed]
    description = {
        "settings": chosen,
        "schema": fitted.schema.to_dict(),
        **{name: getattr(model, f"{name}_") for name in PLAIN},
        "time_spent": model.time_spent_,
        "n_ratings": {name: counts.tolist() for name, counts in model.n_ratings_.items()},
        "feature_names_in": None if not hasattr(model, "feature_names_in_") else list(model.feature_names_in_),
        "least_answers": fitted.least_answers,
        "order_shapes": dict(fitted.order_shapes),
        "presence": {name: len(own) for name, own in fitted.presence.items()},
        "pairs": fitted.pairs,
        "members": [{**m.settings._asdict(), "weight": m.weight, "held_out": m.held_out} for m in members],
        "exponents": dict(learned.exponents),
        "column_weights": {name: weights.tolist() for name, weights in learned.weights.items()},
        "anchors": {name: _state(anchor) for name, anchor in learned.anchors.items()},
        "routes": {gate: [_state(each) for each in own] for gate, own in learned.routes.items()},
        "experts": _save_experts(learned, arrays),
        "follows": {name: [_state(each) for each in own] for name, own in learned.follows.items()},
        "informed": min(informed, key=lambda each: each.settings.reading).schema.to_dict() if informed else None,
    }
    files.save(path, arrays, description)


def _arrays(params: Params) -> Arrays:
    gauge = params.gauge
    every = params._asdict() | gauge._asdict() | ({} if gauge.context is None else gauge.context._asdict())
    apart = ("gauge", "context")
    return {name: np.asarray(value) for name, value in every.items() if value is not None and name not in apart}


def _state(record: NamedTuple) -> State:
    """A record as JSON holds it, its arrays as lists."""
    values = record._asdict().items()
    return {part: value.tolist() if isinstance(value, np.ndarray) else value for part, value in values}


def _save_experts(learned: Correction, arrays: Arrays) -> dict[str, dict[str, State]]:
    """The trees of each question and site; their splits and values go to `arrays`."""
    found: dict[str, dict[str, State]] = {}
    for name, own in learned.experts.items():
        for site, (trees, weight, power) in own.items():
            prefix = f"expert{len(arrays)}"
            arrays[f"{prefix}.split"], arrays[f"{prefix}.value"] = trees.split, trees.value
            about: State = {"arrays": prefix, "weight": weight, "power": power, "sources": trees.sources}
            about |= {"base": trees.base.tolist(), "gain": trees.gain.tolist()}
            about["tables"] = [_state(each) for each in trees.tables]
            found.setdefault(name, {})[str(site)] = about
    return found


def _described(value: Any) -> Any:
    """A setting as JSON: a dataclass by its class and fields. A foreign masking object is "auto"."""
    if type(value) in _SETTINGS.values():
        own = {item.name: _described(getattr(value, item.name)) for item in fields(value)}
        return {"class": type(value).__name__, **own}
    found = plain(value)
    return found if isinstance(found, (str, int, float, type(None))) else "auto"


def _restored(state: Any) -> Any:
    """The setting that `_described` wrote."""
    if not isinstance(state, dict):
        return state
    return _SETTINGS[state["class"]](**{name: _restored(own) for name, own in state.items() if name != "class"})


def load(cls: Any, path: str | PathLike[str]) -> Any:
    """Read a model that `save` wrote."""
    arrays, description = files.load(path)
    try:
        return _rebuilt(cls, arrays, description)
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # whole, but not what `save` writes
        raise NotTrusted(f'"{path}" does not hold a model that this thurbo knows ({error}); fit again') from error


def _require(holds: Any, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _rebuilt(cls: Any, arrays: Arrays, description: State) -> Any:
    schema = Schema.from_dict(description["schema"])
    seen_rows = arrays.pop("seen_rows", np.zeros(0, np.uint32))
    _require(seen_rows.dtype == np.uint32 and seen_rows.ndim == 1, "seen_rows is not a list of numbers of rows")
    chosen = {name: _restored(own) for name, own in description["settings"].items()}
    model = cls(schema, **chosen)
    for name, kind in PLAIN.items():
        _require(isinstance(description[name], kind), f"{name} is {description[name]!r}")
    _require(all(isinstance(each, dict) for each in description["history"]), "the history is not a list of records")
    least_answers = description.get("least_answers", LEAST_ANSWERS)
    _require(isinstance(least_answers, int) and least_answers >= 1, f"least_answers is {least_answers!r}")
    presence = _presence(description.get("presence", {}), arrays, schema)
    params = _params({name: array for name, array in arrays.items() if "." not in name}, schema)
    members, correction = _members(arrays, description, schema, params)
    _require(not any("." in name for name in arrays), "it has arrays that no member has")
    shapes = description.get("order_shapes", {}).items()
    fitted = Model(
        schema,
        members,
        params,
        correction,
        description["objective"],
        chosen["unobserved"],
        least_answers,
        {str(name): (int(depth), int(width), str(form)) for name, (depth, width, form) in shapes},
        tuple(Pair(str(one), str(two), float(strength)) for one, two, strength in description.get("pairs", ())),
        presence,
    )
    model._adopt(fitted, description["history"], description["converged"])
    model._seen_rows = seen_rows
    model.time_spent_ = {str(name): float(seconds) for name, seconds in description.get("time_spent", {}).items()}
    for name in ("n_features_in", "frame_kind"):
        setattr(model, f"{name}_", description[name])
    model.n_ratings_ = {name: np.asarray(counts) for name, counts in description.get("n_ratings", {}).items()}
    for name, counts in model.n_ratings_.items():
        fits = counts.dtype.kind == "i" and counts.shape == (len(schema[name].labels),)
        _require(fits, "n_ratings does not fit its schema")
    if description["feature_names_in"] is not None:
        model.feature_names_in_ = np.asarray(description["feature_names_in"], object)
    return model


def _params(arrays: Arrays, schema: Schema) -> Params:
    """The parameters of one member; refuses those that would give wrong answers silently."""
    sites, hidden, factors = (schema.n_sites,), arrays["hidden_bias"].shape, arrays["loadings"].shape[1:2]
    shapes = {
        "site_bias": sites,
        "weights": sites + hidden,
        "hidden_bias": hidden[:1],
        "loadings": sites + factors,
        "hidden_mean": hidden,
        "cuts": (*sites, max(int(schema.n_cuts.max(initial=0)), 1)),
        "scale": sites,
    }
    if schema.context.shape[1]:
        shapes |= {"after": schema.context.shape, "log_precision": sites}
    if "presence" in arrays:
        shapes["presence"] = (*sites, hidden[0] + factors[0])
    if "effects" in arrays:
        n_features = max((own.stop for own in schema.effect_slices.values()), default=0)
        shapes["effects"] = (n_features, 1 + hidden[0] + factors[0])
    _require({name: array.shape for name, array in arrays.items()} == shapes, "its arrays do not fit its schema")
    cuts, mean = arrays["cuts"], arrays["hidden_mean"]
    is_cut = np.arange(cuts.shape[1])[None, :] < schema.n_cuts[:, None]  # the others are +∞
    for name, array in arrays.items():
        _require(array.dtype.kind == "f", f"{name} has no real numbers")
        numbers = array[is_cut] if name == "cuts" else array
        _require(np.isfinite(numbers).all(), f"{name} has numbers that are not finite")
    increase = not np.isnan(cuts).any() and (cuts[:, 1:] >= cuts[:, :-1]).all()
    _require(increase, "the cuts between levels do not increase")
    _require((arrays["scale"] > 0).all(), "a scale is not positive")
    _require(((mean >= 0) & (mean <= 1)).all(), "hidden_mean has numbers that are no probabilities")
    device = {name: jnp.asarray(value) for name, value in arrays.items()}
    context = Context(device.pop("after"), device.pop("log_precision")) if "after" in device else None
    return Params(gauge=Gauge(device.pop("cuts"), device.pop("scale"), context), **device)


def _members(
    arrays: Arrays, description: State, schema: Schema, params: Params
) -> tuple[tuple[Member, ...], Correction]:
    """The members, whose arrays are taken out of `arrays`, and what was learned about them."""
    if not description.get("members"):  # the only one has the parameters of the model
        return (Member(MemberSettings(params.n_hidden, params.n_factors, 0.0), schema, params),), Correction()
    found = []
    informed = schema if description["informed"] is None else Schema.from_dict(description["informed"])
    every = {"given": schema, "utilities": schema.read_ordinals("utilities"), "given, missing": informed}
    every["utilities, missing"] = informed.read_ordinals("utilities")
    for number, state in enumerate(description["members"]):
        known = (each for each in MemberSettings._fields if each in state or each not in NEWER)
        settings, prefix = MemberSettings(**{each: state[each] for each in known}), f"member{number}."
        own = {name.removeprefix(prefix): arrays.pop(name) for name in list(arrays) if name.startswith(prefix)}
        read = every[settings.reading]
        found.append(Member(settings, read, _params(own, read), float(state["weight"]), float(state["held_out"])))
    weights = np.asarray([each.weight for each in found])
    exponents = {str(name): float(value) for name, value in description["exponents"].items()}
    by_column = {str(name): np.asarray(own, np.float64) for name, own in description.get("column_weights", {}).items()}
    for each in (weights, *by_column.values()):
        are_weights = each.shape == weights.shape and (each > 0).all() and abs(each.sum() - 1) <= 1e-3
        _require(are_weights, "the weights of its members are not positive numbers that sum to one")
    are_positive = all(0 < value < np.inf for value in exponents.values())
    _require(are_positive, "the exponents of its probabilities are not positive numbers")
    anchors = _anchors(description.get("anchors", {}))
    follows = description.get("follows", {}).items()
    return tuple(found), Correction(
        by_column,
        exponents,
        anchors,
        _routes(description.get("routes", {}), schema),
        _experts(description.get("experts", {}), arrays, anchors, schema),
        {str(name): tuple(_table(each, schema) for each in own) for name, own in follows},
    )


def _presence(counts: dict[str, int], arrays: Arrays, schema: Schema) -> dict[str, tuple[Presence, ...]]:
    """Which items rows have, whose arrays are taken out of `arrays`."""
    problem = f"it knows which items rows have of {list(counts)}, its schema of {schema.with_presence}"
    _require(set(counts) == set(schema.with_presence), problem)
    found: dict[str, tuple[Presence, ...]] = {}
    for number, name in enumerate(name for name, count in counts.items() for _ in range(count)):
        own = [arrays.pop(f"presence{number}.{part}") for part in Presence._fields]
        own[3:] = (each.reshape(()) for each in own[3:])  # files do not keep scalar shapes
        sites, hidden = (len(schema[name].labels),), own[1].shape[1:]
        fits = [each.shape for each in own] == [sites, sites + hidden, hidden, (), ()]
        fits &= all(each.dtype.kind == "f" and np.isfinite(each).all() for each in own)
        _require(fits, f"its arrays about the items of {name!r} do not fit its schema")
        found[name] = (*found.get(name, ()), Presence(*map(jnp.asarray, own)))
    return found


def _anchors(state: dict[str, State]) -> dict[str, Anchor]:
    """Shares of labels and corrections of predictions."""
    found = {}
    for name, own in state.items():
        whole = {"credibility": np.ones(len(own["shares"])), **own}
        anchor = Anchor(*(np.asarray(whole[part], np.float64) for part in Anchor._fields))
        is_table = anchor.shares.ndim == 2 and anchor.shares.shape == anchor.tilt.shape
        _require(is_table, f"the shares of {name!r} are not a table of numbers")
        is_part = (anchor.credibility >= 0) & (anchor.credibility <= 1)
        are_parts = is_part.shape == anchor.shares.shape[:1] and is_part.all()
        _require(are_parts, f"the credibility of {name!r} is not a part of one for each of its sites")
        are_shares = (anchor.shares > 0).all() and np.isfinite(anchor.tilt).all()
        _require(are_shares, f"the shares of {name!r} are not positive")
        found[name] = anchor
    return found


def _table(state: State, schema: Schema, n_labels: int | None = None) -> Conditional:
    table = Conditional(str(state["by"]), *(np.asarray(state[part], np.float64) for part in ("edges", "chance")))
    shape = len(table.edges) + 1, n_labels or table.chance.shape[1]
    fits = table.by in schema.modelled and table.edges.ndim == 1 and table.chance.shape == shape
    increase = (table.chance > 0).all() and (np.diff(table.edges) > 0).all()
    _require(fits and increase, f"a table of answers to {table.by!r} does not fit its schema")
    return table


def _experts(
    state: dict[str, dict[str, State]], arrays: Arrays, anchors: dict[str, Anchor], schema: Schema
) -> dict[str, dict[int, Expert]]:
    """Boosted trees, whose arrays are taken out of `arrays`."""
    found: dict[str, dict[int, Expert]] = {}
    for name, own in state.items():
        column: Any = schema[name]
        n_bands = len(column.labels) if column.is_one_label or name in anchors else len(column.effect_edges) + 1
        n_sites, n_labels = anchors[name].shares.shape if name in anchors else (1, n_bands)
        for site, each in own.items():
            sources = tuple(Source(str(s[0]), int(s[1]), *map(float, s[2:])) for s in each["sources"])
            split, value = (arrays.pop(f"{each['arrays']}.{part}") for part in ("split", "value"))
            base, gain = (np.asarray(each[part], np.float64) for part in ("base", "gain"))
            tables = tuple(_table(one, schema, n_labels) for one in each["tables"])
            weight, power = float(each["weight"]), float(each["power"])
            n_trees, n_nodes = split.shape
            fits = value.shape == (n_trees, n_nodes + 1, n_labels) and base.shape == (n_labels,)
            fits &= gain.shape == (len(sources) + len(tables),) and 0 <= int(site) < n_sites
            fits &= split.dtype.kind == "i" and value.dtype == np.float32 and (n_nodes + 1) & n_nodes == 0
            fits &= bool(((split >= 0) & (split < max(len(sources), 1))).all()) and (bool(sources) or not n_trees)
            fits &= {one.column for one in sources} <= set(schema.modelled) and 0 < weight <= 1 and 0 < power < np.inf
            numbers = value, base, gain, np.asarray([one[2:] for one in sources])
            fits &= all(np.isfinite(one).all() for one in numbers)
            _require(fits, f"the trees of {name!r} do not fit its labels")
            trees = Trees(sources, split, value, base, tables, gain)
            found.setdefault(name, {})[int(site)] = Expert(trees, weight, power)
    return found


def _routes(state: dict[str, list[State]], schema: Schema) -> Routes:
    """What follow-up questions say about their gates."""
    found = {}
    for gate, own in state.items():
        found[gate] = tuple(Route(tuple(each["columns"]), tuple(map(float, each["answered"]))) for each in own)
        for columns, answered in found[gate]:
            fits = len(answered) == len(schema[gate].labels) and set(columns) <= set(schema.names)
            fits = fits and all(0 < chance < 1 for chance in answered)
            _require(fits, f"the routes of {gate!r} do not fit its schema")
    return found
