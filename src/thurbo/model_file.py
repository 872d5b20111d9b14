"""A fitted estimator as a model file, and back: settings, schema and history as JSON, parameters as arrays."""

from __future__ import annotations

from dataclasses import fields
from os import PathLike
from typing import Any

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

_LEARNING: dict[str, Any] = {kind.__name__: kind for kind in OBJECTIVE_OF}
_MASKINGS: dict[str, Any] = {kind.__name__: kind for kind in (RandomCells, Neighbours, Rectangles)}
_MASKINGS["Cells"] = RandomCells  # its name in earlier files


def save(model: Any, path: str | PathLike[str]) -> None:
    """Write the fitted model to one file: no code, no rows of the data."""
    chosen = {name: plain(value) for name, value in model.get_params(deep=False).items() if name != "schema"}
    chosen["learning"] = None if model.learning is None else _described(model.learning)
    if not isinstance(chosen["random_state"], (int, type(None))):
        chosen["random_state"] = None  # a generator's state is no part of the model
    chosen["checkpoint"] = None  # nor is the file of a training run
    description = {
        "settings": chosen,
        "schema": model.schema_.to_dict(),
        "objective": model.objective_,
        "history": model.history_,
        "converged": model.converged_,
        "time_spent": model.time_spent_,
        "n_features_in": model.n_features_in_,
        "frame_kind": model.frame_kind_,
        "n_ratings": {name: counts.tolist() for name, counts in model.n_ratings_.items()},
        "feature_names_in": None if not hasattr(model, "feature_names_in_") else list(model.feature_names_in_),
    }
    fitted: Model = model.model_
    arrays = _arrays(fitted.params)
    description["least_answers"] = fitted.least_answers
    description["order_shapes"] = {name: list(shape) for name, shape in fitted.order_shapes.items()}
    if fitted.presence:
        description["presence"] = {name: len(own) for name, own in fitted.presence.items()}
        for number, own in enumerate(each for members in fitted.presence.values() for each in members):
            arrays |= {f"{PRESENCE}{number}.{part}": np.asarray(array) for part, array in own._asdict().items()}
    if not fitted.is_single:
        description["pairs"] = [list(pair) for pair in fitted.pairs]
        learned = fitted.correction
        for number, each in enumerate(fitted.members):
            arrays |= {f"member{number}.{name}": array for name, array in _arrays(each.params).items()}
        description["members"] = model.members_
        description["exponents"] = dict(learned.exponents)
        description["column_weights"] = {name: weights.tolist() for name, weights in learned.weights.items()}
        for name, anchor in learned.anchors.items():
            description.setdefault("anchors", {})[name] = {
                part: array.tolist() for part, array in anchor._asdict().items()
            }
        description["experts"] = _save_experts(learned, arrays)
        description["follows"] = {name: [_table_state(each) for each in own] for name, own in learned.follows.items()}
        description["routes"] = {gate: [each._asdict() for each in own] for gate, own in learned.routes.items()}
        informed = [each.schema for each in fitted.members if each.settings.reading == "given, missing"]
        informed += [each.schema for each in fitted.members if each.settings.is_informed]
        description["informed"] = informed[0].to_dict() if informed else None
    arrays["seen_rows"] = model._seen_rows
    files.save(path, arrays, description)


def _arrays(params: Params) -> dict[str, np.ndarray]:
    gauge = params.gauge
    every = params._asdict() | gauge._asdict() | ({} if gauge.context is None else gauge.context._asdict())
    apart = ("gauge", "context")
    return {name: np.asarray(value) for name, value in every.items() if value is not None and name not in apart}


def _described(value: Any) -> dict[str, Any]:
    """A dataclass of settings as JSON: its class by name, and its fields; a foreign masking object is "auto"."""
    found: dict[str, Any] = {"class": type(value).__name__}
    for item in fields(value):
        own = plain(getattr(value, item.name))
        if item.name == "masking" and not isinstance(own, str):
            own = _described(own) if type(own) in _MASKINGS.values() else "auto"
        found[item.name] = own
    return found


def _restored(state: dict[str, Any], known: dict[str, Any]) -> Any:
    """The dataclass that `_described` wrote, of one of the known classes."""
    values = {name: value for name, value in state.items() if name != "class"}
    if isinstance(values.get("masking"), dict):
        values["masking"] = _restored(values["masking"], _MASKINGS)
    return known[state["class"]](**values)


def load(cls: Any, path: str | PathLike[str]) -> Any:
    """Read a model that `save` wrote."""
    arrays, description = files.load(path)
    try:
        return _rebuilt(cls, arrays, description)
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # whole, but not what `save` writes
        raise NotTrusted(f'"{path}" does not hold a model that this thurbo knows ({error}); fit again') from error


def _rebuilt(cls: Any, arrays: dict[str, np.ndarray], description: dict[str, Any]) -> Any:
    schema = Schema.from_dict(description["schema"])
    seen_rows = arrays.pop("seen_rows", np.zeros(0, np.uint32))  # older files have none
    if seen_rows.dtype != np.uint32 or seen_rows.ndim != 1:
        raise ValueError("seen_rows is not a list of numbers of rows")
    chosen = dict(description["settings"])
    if chosen["learning"] is not None:
        chosen["learning"] = _restored(chosen["learning"], _LEARNING)
    model = cls(schema, **chosen)
    presence = _presence(description.get("presence", {}), arrays, schema)
    own = {name: array for name, array in arrays.items() if "." not in name}
    params = _params(own, schema)
    least_answers = description.get("least_answers", LEAST_ANSWERS)
    kinds = {"objective": str, "history": list, "converged": bool, "n_features_in": int, "frame_kind": str}
    for name, kind in kinds.items():
        if not isinstance(description[name], kind):
            raise ValueError(f"{name} is {description[name]!r}")
    if not all(isinstance(record, dict) for record in description["history"]):
        raise ValueError("the history is not a list of records")
    if not isinstance(least_answers, int) or least_answers < 1:
        raise ValueError(f"least_answers is {least_answers!r}")
    shapes = {str(name): tuple(shape) for name, shape in description.get("order_shapes", {}).items()}
    members, correction = _members(arrays, description, schema, params)
    if len(arrays) != len(own) * (1 + len(description.get("members", ()))):
        raise ValueError("it has arrays that no member has")
    fitted = Model(
        schema,
        members,
        params,
        correction,
        description["objective"],
        chosen["unobserved"],
        least_answers,
        {name: (int(depth), int(width), str(form)) for name, (depth, width, form) in shapes.items()},
        tuple(Pair(str(one), str(two), float(strength)) for one, two, strength in description.get("pairs", ())),
        presence,
    )
    model._adopt(fitted, description["history"], description["converged"])
    model._seen_rows = seen_rows
    model.time_spent_ = {str(name): float(seconds) for name, seconds in description.get("time_spent", {}).items()}
    model.n_features_in_ = description["n_features_in"]
    model.frame_kind_ = description["frame_kind"]
    model.n_ratings_ = {name: np.asarray(counts) for name, counts in description.get("n_ratings", {}).items()}
    for name, counts in model.n_ratings_.items():
        if counts.dtype.kind != "i" or counts.shape != (len(schema[name].labels),):
            raise ValueError("n_ratings does not fit its schema")
    if description["feature_names_in"] is not None:
        model.feature_names_in_ = np.asarray(description["feature_names_in"], object)
    return model


NEWER = ("shrinkage", "is_draw")  # settings of members that older files lack


def _params(arrays: dict[str, np.ndarray], schema: Schema) -> Params:
    """Checked parameters of one member."""
    sites, hidden = (schema.n_sites,), arrays["hidden_bias"].shape
    shapes = {
        "site_bias": sites,
        "weights": sites + hidden,
        "hidden_bias": hidden[:1],
        "loadings": sites + arrays["loadings"].shape[1:2],
        "hidden_mean": hidden,
        "cuts": (*sites, max(int(schema.n_cuts.max(initial=0)), 1)),
        "scale": sites,
    }
    if schema.context.shape[1]:
        shapes |= {"after": schema.context.shape, "log_precision": sites}
    if "presence" in arrays:
        shapes["presence"] = (*sites, hidden[0] + arrays["loadings"].shape[1])
    if "effects" in arrays:
        n_features = max((own.stop for own in schema.effect_slices.values()), default=0)
        shapes["effects"] = (n_features, 1 + hidden[0] + arrays["loadings"].shape[1])
    if {name: array.shape for name, array in arrays.items()} != shapes:
        raise ValueError("its arrays do not fit its schema")
    _check_values(arrays, schema.n_cuts)
    device = {name: jnp.asarray(value) for name, value in arrays.items()}
    context = Context(device.pop("after"), device.pop("log_precision")) if "after" in device else None
    gauge = Gauge(device.pop("cuts"), device.pop("scale"), context)
    return Params(gauge=gauge, **device)


def _members(
    arrays: dict[str, np.ndarray], description: dict[str, Any], schema: Schema, params: Params
) -> tuple[tuple[Member, ...], Correction]:
    """The members and what was learned about them; one member if the file names none."""
    if "members" not in description:
        return (Member(MemberSettings(params.n_hidden, params.n_factors, 0.0), schema, params),), Correction()
    found = []
    informed = schema if description["informed"] is None else Schema.from_dict(description["informed"])
    every = {"given": schema, "utilities": schema.read_ordinals("utilities"), "given, missing": informed}
    every["utilities, missing"] = informed.read_ordinals("utilities")
    for number, state in enumerate(description["members"]):
        known = (each for each in MemberSettings._fields if each in state or each not in NEWER)
        member, prefix = MemberSettings(**{each: state[each] for each in known}), f"member{number}."
        kept = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        read = every[member.reading]
        found.append(Member(member, read, _params(kept, read), float(state["weight"]), float(state["held_out"])))
    weights = np.asarray([each.weight for each in found])
    exponents = {str(name): float(value) for name, value in description["exponents"].items()}
    by_column = {str(name): np.asarray(own, np.float64) for name, own in description.get("column_weights", {}).items()}
    for each in (weights, *by_column.values()):
        is_weight = np.isfinite(each) & (each > 0)
        if each.shape != weights.shape or not is_weight.all() or abs(each.sum() - 1) > 1e-3:
            raise ValueError("the weights of its members are not positive numbers that sum to one")
    if not all(0 < value < np.inf for value in exponents.values()):
        raise ValueError("the exponents of its probabilities are not positive numbers")
    routes, anchors = _routes(description.get("routes", {}), schema), _anchors(description.get("anchors", {}))
    experts = _experts(description.get("experts", {}), arrays, anchors, schema)
    follows = {
        str(name): tuple(_table(each, schema) for each in own) for name, own in description.get("follows", {}).items()
    }
    return tuple(found), Correction(by_column, exponents, anchors, routes, experts, follows)


PRESENCE = "presence"


def _presence(counts: dict[str, int], arrays: dict[str, np.ndarray], schema: Schema) -> dict[str, tuple[Presence, ...]]:
    """Which items rows have, whose arrays are taken out of `arrays`; older files have none."""
    if set(counts) != set(schema.with_presence):
        raise ValueError(f"it knows which items rows have of {list(counts)}, its schema of {schema.with_presence}")
    found: dict[str, tuple[Presence, ...]] = {}
    for number, name in enumerate(name for name, count in counts.items() for _ in range(count)):
        own = [arrays.pop(f"{PRESENCE}{number}.{part}") for part in Presence._fields]
        own[3:] = (each.reshape(()) for each in own[3:])  # files do not keep scalar shapes
        sites, hidden = (len(schema[name].labels),), own[1].shape[1:]
        fits = [each.shape for each in own] == [sites, sites + hidden, hidden, (), ()]
        if not fits or not all(each.dtype.kind == "f" and np.isfinite(each).all() for each in own):
            raise ValueError(f"its arrays about the items of {name!r} do not fit its schema")
        found[name] = (*found.get(name, ()), Presence(*map(jnp.asarray, own)))
    return found


def _anchors(state: dict[str, Any]) -> dict[str, Anchor]:
    """Shares of labels and corrections of predictions; older files have none."""
    found = {}
    for name, own in state.items():
        whole = {"credibility": np.ones(len(own["shares"])), **own}  # older files have none
        anchor = Anchor(*(np.asarray(whole[part], np.float64) for part in Anchor._fields))
        if anchor.shares.ndim != 2 or anchor.shares.shape != anchor.tilt.shape:
            raise ValueError(f"the shares of {name!r} are not a table of numbers")
        is_part = (anchor.credibility >= 0) & (anchor.credibility <= 1)
        if anchor.credibility.shape != anchor.shares.shape[:1] or not is_part.all():
            raise ValueError(f"the credibility of {name!r} is not a part of one for each of its sites")
        if not (anchor.shares > 0).all() or not np.isfinite(anchor.tilt).all():
            raise ValueError(f"the shares of {name!r} are not positive")
        found[name] = anchor
    return found


def _save_experts(learned: Correction, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    """Experts and what follows from answers as plain values; splits and values of trees go to `arrays`."""
    found = dict[str, Any]()
    for name, own in learned.experts.items():
        for site, expert in own.items():
            trees, prefix = expert.trees, f"{EXPERT}{len(arrays)}"
            arrays[f"{prefix}.split"], arrays[f"{prefix}.value"] = trees.split, trees.value
            found.setdefault(name, {})[str(site)] = {
                "arrays": prefix,
                "weight": expert.weight,
                "power": expert.power,
                "sources": [list(each) for each in trees.sources],
                "base": trees.base.tolist(),
                "tables": [_table_state(each) for each in trees.tables],
                "gain": trees.gain.tolist(),
            }
    return found


def _table_state(table: Conditional) -> dict[str, Any]:
    return {"by": table.by, "edges": table.edges.tolist(), "chance": table.chance.tolist()}


EXPERT = "expert"


def _table(state: dict[str, Any], schema: Schema, n_labels: int | None = None) -> Conditional:
    table = Conditional(str(state["by"]), *(np.asarray(state[part], np.float64) for part in ("edges", "chance")))
    shape = len(table.edges) + 1, n_labels or table.chance.shape[1]
    fits = table.by in schema.modelled and table.edges.ndim == 1 and table.chance.shape == shape
    if not fits or not (table.chance > 0).all() or not (np.diff(table.edges) > 0).all():
        raise ValueError(f"a table of answers to {table.by!r} does not fit its schema")
    return table


def _experts(
    state: dict[str, Any], arrays: dict[str, np.ndarray], anchors: dict[str, Anchor], schema: Schema
) -> dict[str, dict[int, Expert]]:
    """Boosted trees, whose arrays are taken out of `arrays`; older files have none."""
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
            numbers = [[*one[2:]] for one in sources]
            if not fits or not all(np.isfinite(one).all() for one in (value, base, gain, np.asarray(numbers))):
                raise ValueError(f"the trees of {name!r} do not fit its labels")
            trees = Trees(sources, split, value, base, tables, gain)
            found.setdefault(name, {})[int(site)] = Expert(trees, weight, power)
    return found


def _routes(state: dict[str, Any], schema: Schema) -> Routes:
    """What follow-up questions say about their gates; older files have none."""
    found = {}
    for gate, own in state.items():
        routes = tuple(Route(tuple(each["columns"]), tuple(map(float, each["answered"]))) for each in own)
        for route in routes:
            fits = len(route.answered) == len(schema[gate].labels) and set(route.columns) <= set(schema.names)
            if not fits or not all(0 < chance < 1 for chance in route.answered):
                raise ValueError(f"the routes of {gate!r} do not fit its schema")
        found[gate] = routes
    return found


def _check_values(arrays: dict[str, np.ndarray], n_cuts: np.ndarray) -> None:
    """Refuse parameters that no fit can have given, which would otherwise give wrong answers silently."""
    cuts = arrays["cuts"]
    is_cut = np.arange(cuts.shape[1])[None, :] < n_cuts[:, None]  # the others are +∞
    for name, array in arrays.items():
        if array.dtype.kind != "f":
            raise ValueError(f"{name} has no real numbers")
        if not np.isfinite(array[is_cut] if name == "cuts" else array).all():
            raise ValueError(f"{name} has numbers that are not finite")
    if np.isnan(cuts).any() or (cuts[:, 1:] < cuts[:, :-1]).any():
        raise ValueError("the cuts between levels do not increase")
    if (arrays["scale"] <= 0).any():
        raise ValueError("a scale is not positive")
    if ((arrays["hidden_mean"] < 0) | (arrays["hidden_mean"] > 1)).any():
        raise ValueError("hidden_mean has numbers that are no probabilities")
