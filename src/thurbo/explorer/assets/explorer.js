(() => {
  "use strict";
  const $ = (id) => document.getElementById(id);
  const make = (tag, text, attributes = {}) => {
    const found = document.createElement(tag);
    if (text !== undefined && text !== null) found.textContent = text;
    for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
    return found;
  };
  const percent = (share) => Math.round(100 * share) + " %";
  const say = (text, failed = false) => { $("status").textContent = text; $("status").className = failed ? "error" : ""; };
  const ask = async (what, body = {}) => {
    let answer, value;
    try {
      answer = await fetch(what, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
      value = await answer.json();
    } catch { say("The server does not answer; is thurbo explore still running?", true); return null; }
    if (!answer.ok) { say(value.error, true); return null; }
    return value;
  };

  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const COLOURS = dark
    ? ["#8ab4f8", "#f0a060", "#6fcf9f", "#d593da", "#d9bd4d", "#f08ba0", "#9ad0d6", "#c9a58a", "#b8c26a", "#aab2bd"]
    : ["#23468f", "#c05f1d", "#2b7a57", "#8a3b8f", "#8a6d00", "#a8324a", "#1f7a86", "#7a5236", "#5f6d12", "#59616c"];
  const colour = (number) => COLOURS[(number - 1) % COLOURS.length];

  let survey, by = {}, state, past = [], selected = new Set(), pins = [], filled = {};
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
      : null, q.bars ? null : "Median " + q.inside.toPrecision(4) + "; others " + q.rest.toPrecision(4))));
    say("Group of " + found.n.toLocaleString("en") + " rows.");
  };
  const card = (name, bars, words) => {
    const box = make("article", null, { class: "card", "data-name": name });
    box.append(make("h3", by[name].brief, { title: by[name].text }));
    if (words) box.append(make("p", words));
    if (!bars) return box;
    const list = make("ul");
    for (const [label, share, other] of bars) {
      const line = make("li"), bar = make("span", null, { class: "bar", "aria-hidden": "true" }), fill = make("i"), mark = make("i", null, { class: "mark" });
      fill.style.width = 100 * share + "%"; mark.style.left = 100 * other + "%";
      bar.append(fill, mark);
      line.append(make("span", label), make("b", percent(share)), make("small", percent(other)), bar);
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
      const words = (q) => q[2].toPrecision(4) + " (90 %: " + q[0].toPrecision(4) + " to " + q[4].toPrecision(4) + ")";
      return card(name, null, "Median " + words(now.quantiles) + (usual ? "; before " + words(usual.quantiles) : ""));
    }
    return card(name, now.chance.map((share, k) => [by[name].labels[k], share, usual ? usual.chance[k] : share]));
  };
  const distance = (a, b) => (a.chance ? Math.max(...a.chance.map((share, k) => Math.abs(share - b.chance[k]))) : Math.abs(a.quantiles[2] - b.quantiles[2]) / (Math.abs(b.quantiles[4] - b.quantiles[0]) || 1));
  const setPins = async (next) => {
    const found = await ask("pin", { pins: next });
    if (!found) return;
    pins = next;
    $("pins").replaceChildren(...pins.map((pin, k) => {
      const line = make("li", pin), off = make("button", "×", { type: "button", "aria-label": "Remove " + pin });
      off.addEventListener("click", () => setPins(pins.filter((_, other) => other !== k)));
      line.append(off);
      return line;
    }));
    const order = found.questions.map((q) => [distance(q.given, q.usual), q]).sort((a, b) => b[0] - a[0]);
    $("pinned").replaceChildren(...order.slice(0, 80).map(([, q]) => distribution(q.name, q.given, q.usual)));
    say(pins.length ? "Bars: with the pins; the line: without. The largest changes come first." : "Nothing is pinned.");
  };
  const options = (box, texts) => box.replaceChildren(...texts.map(([value, text]) => make("option", text, { value })));
  const pinQuestion = () => {
    const q = by[$("pin-question").value];
    options($("pin-relation"), q.ordered ? [["=", "exactly"], [">=", "at least"], ["<=", "at most"]] : [["=", "exactly"], ["!", "anything but"]]);
    options($("pin-value"), q.labels.map((label) => [label, label]));
    $("pin-value").hidden = !q.labels.length; $("pin-number").hidden = Boolean(q.labels.length);
  };
  $("pin-question").addEventListener("change", pinQuestion);
  $("pin-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const q = by[$("pin-question").value], relation = $("pin-relation").value, value = q.labels.length ? $("pin-value").value : $("pin-number").value;
    const others = q.labels.filter((label) => label !== value);
    const pin = relation === "!" ? q.name + " = " + others.join(" | ") : q.name + " " + relation + " " + value;
    setPins([...pins.filter((own) => !own.startsWith(q.name + " ")), pin]);
  });
  $("free-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!$("free").value.trim()) return;
    const before = pins.length;
    await setPins([...pins, $("free").value.trim()]);
    if (pins.length > before) $("free").value = "";
  });

  const fill = async () => {
    const found = await ask("respondent", { answers: filled, target: $("target").value });
    if (!found) return;
    $("moved").replaceChildren(...found.moved.slice(0, 12).map((m) => {
      const by100 = m.word === "median" ? m.value.toPrecision(4) + ", without this answer " + m.without.toPrecision(4) : percent(m.value) + ", without this answer " + percent(m.without);
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

  const tabs = ["group", "pins", "one"];
  const show = (name) => tabs.forEach((each) => {
    $("panel-" + each).hidden = each !== name;
    $("tab-" + each).setAttribute("aria-selected", String(each === name));
    $("tab-" + each).tabIndex = each === name ? 0 : -1;
  });
  tabs.forEach((name, k) => {
    $("tab-" + name).addEventListener("click", () => {
      show(name);
      if (name === "pins" && !$("pinned").children.length) setPins(pins);
      if (name === "one" && !$("predicted").children.length) fill();
    });
    $("tab-" + name).addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) { const next = $("tab-" + tabs[(k + step + 3) % 3]); next.focus(); next.click(); }
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
    options($("pin-question"), simple.map((q) => [q.name, q.brief]));
    options($("target"), simple.map((q) => [q.name, q.brief]));
    if (simple.length) pinQuestion();
    showSegments(); showFill(); draw(); select([]);
    $("undo").disabled = true;
    say(survey.n_rows.toLocaleString("en") + " rows, " + survey.questions.length + " questions.");
  })();
})();
