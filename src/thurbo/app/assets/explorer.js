(() => {
  "use strict";
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const COLOURS = dark
    ? ["#8ab4f8", "#f0a060", "#6fcf9f", "#d593da", "#d9bd4d", "#f08ba0", "#9ad0d6", "#c9a58a", "#b8c26a", "#aab2bd"]
    : ["#23468f", "#c05f1d", "#2b7a57", "#8a3b8f", "#8a6d00", "#a8324a", "#1f7a86", "#7a5236", "#5f6d12", "#59616c"];
  const colour = (number) => COLOURS[(number - 1) % COLOURS.length];

  let survey, by = {}, state, past = [], selected = new Set(), pins = [], filled = {}, rated = {};
  const canvas = $("map"), pen = canvas.getContext("2d");
  let places = [], lasso = null;

  const change = (next) => { past.push(state); state = next; $("undo").disabled = false; showSegments(); draw(); };
  const undo = () => {
    if (!past.length) return;
    state = past.pop(); $("undo").disabled = !past.length; showSegments(); draw(); say("Undone.");
  };

  const draw = () => {
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const size = Math.max(2, Math.min(6, 160 / Math.sqrt(places.length)));
    for (const chosen of [false, true]) {
      pen.globalAlpha = !selected.size || chosen ? 0.85 : 0.18;
      places.forEach(([x, y], k) => {
        if (selected.has(k) !== chosen) return;
        pen.fillStyle = colour(state.labels[k]);
        pen.beginPath(); pen.arc(x, y, size, 0, 7); pen.fill();
      });
    }
    pen.globalAlpha = 1;
    if (lasso && lasso.length > 1) {
      pen.strokeStyle = getComputedStyle(document.body).color; pen.lineWidth = 2;
      pen.beginPath(); lasso.forEach(([x, y], k) => (k ? pen.lineTo(x, y) : pen.moveTo(x, y))); pen.closePath(); pen.stroke();
    }
  };
  const inside = (p, shape) => {
    let found = false;
    for (let i = 0, j = shape.length - 1; i < shape.length; j = i++) {
      const [a, b] = shape[i], [c, d] = shape[j];
      if (b > p[1] !== d > p[1] && p[0] < ((c - a) * (p[1] - b)) / (d - b) + a) found = !found;
    }
    return found;
  };
  const point = (event) => {
    const box = canvas.getBoundingClientRect();
    return [((event.clientX - box.left) * canvas.width) / box.width, ((event.clientY - box.top) * canvas.height) / box.height];
  };
  canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); lasso = [point(event)]; });
  canvas.addEventListener("pointermove", (event) => { if (lasso) { lasso.push(point(event)); draw(); } });
  canvas.addEventListener("pointerup", () => {
    const shape = lasso; lasso = null;
    if (shape && shape.length > 3) select(places.flatMap((p, k) => (inside(p, shape) ? [k] : [])));
    draw();
  });

  const select = async (rows) => {
    selected = new Set(rows); draw();
    $("make").disabled = $("clear").disabled = !rows.length;
    $("group").replaceChildren();
    if (!rows.length) { $("group-said").textContent = "Nothing is selected."; return; }
    if (rows.length === places.length) { $("group-said").textContent = "All rows are selected."; return; }
    const found = await ask("group", { rows });
    if (!found || selected.size !== rows.length) return;
    show("group");
    $("group-said").textContent = found.n.toLocaleString("en") + " rows are selected. Bars: the group; the line: all others. The largest differences come first.";
    $("group").replaceChildren(...found.questions.slice(0, 60).map((q) => card(q.name, q.bars
      ? q.bars.map((bar) => [bar.label, bar.inside, bar.rest])
      : null, q.scale ? "Mean scores, " + short(q.scale[0]) + " to " + short(q.scale[1]) + ", of the items with most scores"
      : q.bars ? null : "Median " + short(q.inside) + "; others " + short(q.rest), q.scale)));
    say("Group of " + found.n.toLocaleString("en") + " rows.");
  };
  const card = (name, bars, words, scale = null) => {
    const box = make("article", null, { class: "card", "data-name": name });
    const along = (value) => (scale ? (value - scale[0]) / (scale[1] - scale[0] || 1) : value), told = scale ? (value) => value.toFixed(2) : percent;
    box.append(make("h3", by[name].brief, { title: by[name].text }));
    if (words) box.append(make("p", words));
    if (!bars) return box;
    const list = make("ul");
    for (const [label, share, other] of bars) {
      const line = make("li"), bar = make("span", null, { class: "bar", "aria-hidden": "true" }), fill = make("i"), mark = make("i", null, { class: "mark" });
      fill.style.width = 100 * along(share) + "%"; mark.style.left = 100 * along(other) + "%";
      bar.append(fill, mark);
      line.append(make("span", label), make("b", told(share)), make("small", told(other)), bar);
      list.append(line);
    }
    box.append(list);
    return box;
  };

  const showSegments = () => {
    const count = {};
    state.labels.forEach((number) => { count[number] = (count[number] || 0) + 1; });
    $("segments").replaceChildren(...Object.keys(state.names).filter((number) => count[number]).map((number) => {
      const line = make("li"), dot = make("i"), name = make("input", null, { maxlength: 120, "aria-label": "Name of segment " + number, value: state.names[number] });
      const pick = make("button", "Select", { type: "button", "aria-label": "Select segment " + number });
      dot.style.background = colour(number);
      name.addEventListener("change", () => change({ ...state, names: { ...state.names, [number]: name.value.trim() || "Segment " + number } }));
      pick.addEventListener("click", () => select(state.labels.flatMap((own, k) => (String(own) === number ? [k] : []))));
      line.append(dot, name, make("small", count[number].toLocaleString("en")), pick);
      return line;
    }));
  };
  $("clear").addEventListener("click", () => select([]));
  $("undo").addEventListener("click", undo);
  addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "z" && !/INPUT|SELECT/.test(document.activeElement.tagName)) { event.preventDefault(); undo(); }
  });
  $("make").addEventListener("click", () => {
    const number = Math.max(...Object.keys(state.names).map(Number)) + 1;
    const name = $("new-name").value.trim() || "Segment " + number;
    change({ labels: state.labels.map((own, k) => (selected.has(k) ? number : own)), names: { ...state.names, [number]: name } });
    $("new-name").value = "";
    say("“" + name + "” has " + selected.size.toLocaleString("en") + " rows.");
  });
  $("export").addEventListener("click", async () => {
    const found = await ask("export", { labels: state.labels, names: state.names });
    if (!found) return;
    const link = make("a", null, { download: "segments.csv", href: URL.createObjectURL(new Blob([found.csv], { type: "text/csv" })) });
    link.click(); URL.revokeObjectURL(link.href); say("Segments exported.");
  });

  const distribution = (name, now, usual) => {
    if (now.quantiles) {
      const words = (q) => short(q[2]) + " (90 %: " + short(q[0]) + " to " + short(q[4]) + ")";
      return card(name, null, "Median " + words(now.quantiles) + (usual ? "; before " + words(usual.quantiles) : ""));
    }
    return card(name, now.chance.map((share, k) => [by[name].labels[k], share, usual ? usual.chance[k] : share]));
  };
  const distance = (a, b) => (a.chance ? Math.max(...a.chance.map((share, k) => Math.abs(share - b.chance[k]))) : Math.abs(a.quantiles[2] - b.quantiles[2]) / (Math.abs(b.quantiles[4] - b.quantiles[0]) || 1));
  const pinWords = (pin) => typeof pin === "string" ? pin
    : by[pin.name].brief + (pin.relation === "above" ? ": " + pin.values.join(" above ") : ": " + pin.relation + " " + pin.values.join(pin.relation === "between" ? " and " : ", "));
  const setPins = async (next) => {
    const found = await ask("pin", { pins: next });
    if (!found) return false;
    pins = next;
    $("pins").replaceChildren(...pins.map((pin, k) => {
      const line = make("li", pinWords(pin)), off = make("button", "×", { type: "button", "aria-label": "Remove " + pinWords(pin) });
      off.addEventListener("click", () => setPins(pins.filter((_, other) => other !== k)));
      line.append(off);
      return line;
    }));
    const order = found.questions.map((q) => [distance(q.given, q.usual), q]).sort((a, b) => b[0] - a[0]);
    $("pinned").replaceChildren(...order.slice(0, 80).map(([, q]) => distribution(q.name, q.given, q.usual)));
    say(pins.length ? "Bars: with the pins; the line: without. The largest changes come first." : "Nothing is pinned.");
    return true;
  };
  const options = (box, texts) => box.replaceChildren(...texts.map(([value, text]) => make("option", text, { value })));
  const same = (label) => [label, label];
  const pinQuestion = () => {
    const q = by[$("pin-question").value];
    options($("pin-relation"), q.relations.map(same));
    for (const id of ["pin-value", "pin-second", "pin-several"]) options($(id), q.labels.map(same));
    if (q.labels.length > 1) $("pin-second").value = q.labels[1];
    pinRelation();
  };
  const pinRelation = () => {
    const q = by[$("pin-question").value], relation = $("pin-relation").value, several = relation === "one of" || relation === "anything but";
    const two = relation === "between" || relation === "above", words = q.labels.length > 0;
    $("pin-value").hidden = !words || several; $("pin-second").hidden = !words || !two; $("pin-several").hidden = !several;
    $("pin-number").hidden = words; $("pin-end").hidden = words || !two;
    $("pin-and").hidden = !two; $("pin-and").textContent = relation;
    if (relation === "between") $("pin-and").textContent = "and";
  };
  $("pin-question").addEventListener("change", pinQuestion);
  $("pin-relation").addEventListener("change", pinRelation);
  $("pin-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const name = $("pin-question").value, relation = $("pin-relation").value;
    const shown = ["pin-value", "pin-second", "pin-number", "pin-end"].filter((id) => !$(id).hidden).map((id) => $(id).value);
    const values = $("pin-several").hidden ? shown : [...$("pin-several").selectedOptions].map((each) => each.value);
    const adds = ["above", "selected", "not selected"].includes(relation);
    setPins([...pins.filter((own) => own.name !== name || adds), { name, relation, values }]);
  });
  $("free-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const text = $("free").value.trim();
    if (text && (await setPins([...pins, text]))) $("free").value = "";
  });

  const fill = async () => {
    const found = await ask("respondent", { answers: filled, target: $("target").value });
    if (!found) return;
    $("moved").replaceChildren(...found.moved.slice(0, 12).map((m) => {
      const by100 = m.word === "median" ? short(m.value) + ", without this answer " + short(m.without) : percent(m.value) + ", without this answer " + percent(m.without);
      return make("li", by[m.name].brief + ": " + filled[m.name] + " → " + m.word + " " + by100);
    }));
    const first = $("target").value;
    const order = [...found.predicted].sort((a, b) => (b.name === first) - (a.name === first));
    $("predicted").replaceChildren(...order.slice(0, 40).map((p) => distribution(p.name, p.given, p.usual)));
    say(Object.keys(filled).length + " answers filled in. Bars: with them; the line: without.");
  };
  const showFill = () => {
    $("fill").replaceChildren(...survey.questions.filter((q) => q.fillable).map((q, k) => {
      const box = make("div"), input = q.labels.length ? make("select") : make("input", null, { inputmode: "decimal" });
      input.id = "fill-" + k;
      if (q.labels.length) options(input, [["", "–"], ...q.labels.map((label) => [label, label])]);
      input.addEventListener("change", () => { if (input.value === "") delete filled[q.name]; else filled[q.name] = input.value; fill(); });
      box.append(make("label", q.brief, { for: input.id }), input);
      return box;
    }));
  };
  $("target").addEventListener("change", fill);

  const list = () => survey.lists[Number($("list").value) || 0];
  const ratings = () => rated[list().name] || (rated[list().name] = []);
  const recommend = async () => {
    const own = list(), found = await ask("recommend", { list: own.name, ratings: ratings(), answers: filled });
    if (!found) return false;
    const value = own.by === "order" ? (v) => v.toFixed(2) : (v) => v.toFixed(own.by === "levels" ? 2 : 3);
    $("rated").replaceChildren(...ratings().map(([item, score], k) => {
      const line = make("li", item + (own.by === "order" ? "" : ": " + score)), off = make("button", "×", { type: "button", "aria-label": "Remove " + item });
      off.addEventListener("click", () => { rated[own.name] = ratings().filter((_, other) => other !== k); recommend(); });
      line.append(off);
      return line;
    }));
    $("best").replaceChildren(...found.best.map((each, k) => {
      const line = make("tr"), moved = each.before - k - 1;
      line.append(make("td", k + 1), make("th", each.item, { scope: "row" }), make("td", value(each.value)), make("td", value(each.usual)));
      line.append(make("td", moved ? (moved > 0 ? "↑ from " : "↓ from ") + each.before : "same"));
      return line;
    }));
    $("why").textContent = found.moved.length ? "What moved “" + found.first + "”, the first one:" : "";
    $("moved-items").replaceChildren(...found.moved.slice(0, 8).map((each) => make("li", each.item + ": " + value(each.with) + ", without this rating " + value(each.without))));
    const n = ratings().length;
    say(n ? n + (n === 1 ? " rating" : " ratings") + ". The recommendations take them into account." : "No ratings yet: these items are liked most by everyone.");
    return true;
  };
  const showList = () => {
    const own = list();
    options($("items"), own.items.map((item) => [item, ""]));
    options($("rating"), own.levels.map(same));
    $("rating").value = own.levels[own.levels.length - 1] || "";
    $("rating").hidden = own.by !== "levels"; $("rating-number").hidden = own.by !== "numbers";
    $("list-note").textContent = own.n_items.toLocaleString("en") + " items" + (own.by === "order" ? "; add the best one first." : ".") + " Answers that are filled in under Respondent count too.";
    $("value-head").textContent = own.by === "order" ? "Utility" : "Predicted score";
  };
  $("list").addEventListener("change", () => { showList(); recommend(); });
  $("rate-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const own = list(), item = $("item").value.trim(), before = ratings();
    if (!item) return;
    const score = own.by === "levels" ? $("rating").value : own.by === "numbers" ? $("rating-number").value : null;
    rated[own.name] = [...before.filter(([other]) => other !== item), [item, score]];
    if (await recommend()) $("item").value = ""; else rated[own.name] = before;
    $("item").focus();
  });

  let tabs = ["group", "pins", "one", "lists"];
  const show = (name) => tabs.forEach((each) => {
    $("panel-" + each).hidden = each !== name;
    $("tab-" + each).setAttribute("aria-selected", String(each === name));
    $("tab-" + each).tabIndex = each === name ? 0 : -1;
  });
  tabs.forEach((name) => {
    $("tab-" + name).addEventListener("click", () => {
      show(name);
      if (name === "pins" && !$("pinned").children.length) setPins(pins);
      if (name === "one" && !$("predicted").children.length) fill();
      if (name === "lists") recommend();
    });
    $("tab-" + name).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) { const next = $("tab-" + tabs[(tabs.indexOf(name) + step + tabs.length) % tabs.length]); next.focus(); next.click(); }
    });
  });

  (async () => {
    survey = await ask("survey");
    if (!survey) return;
    document.title = survey.title + " – thurbo explorer";
    $("title").textContent = survey.title;
    $("verdict").textContent = survey.verdict;
    survey.questions.forEach((q) => { by[q.name] = q; });
    state = { labels: survey.segment, names: Object.fromEntries(survey.segments.map((s) => [s.number, s.name])) };
    const tall = canvas.height / canvas.width, low = Math.min(...survey.y), high = Math.max(...survey.y), scale = Math.min(0.96, (0.94 * tall) / Math.max(high - low, 1e-9));
    places = survey.x.map((x, k) => [canvas.width * (0.5 + scale * x), canvas.width * (tall / 2 - scale * (survey.y[k] - (low + high) / 2))]);
    const simple = survey.questions.filter((q) => q.fillable);
    const known = survey.questions.filter((q) => q.relations.length);
    options($("pin-question"), known.map((q) => [q.name, q.brief]));
    options($("target"), simple.map((q) => [q.name, q.brief]));
    options($("list"), survey.lists.map((each, k) => [k, each.brief]));
    const has = { group: true, pins: known.length > 0, one: simple.length > 0, lists: survey.lists.length > 0 };
    tabs = tabs.filter((name) => { $("tab-" + name).hidden = !has[name]; return has[name]; });
    if (known.length) pinQuestion();
    if (survey.lists.length) showList();
    showSegments(); showFill(); draw(); select([]);
    $("undo").disabled = true;
    say(survey.n_rows.toLocaleString("en") + " rows, " + survey.questions.length + " questions.");
  })();
})();
