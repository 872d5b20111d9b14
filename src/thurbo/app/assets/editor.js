(() => {
  const count = (n) => n.toLocaleString("en");
  const button = (text, act, attributes = {}) => {
    const made = make("button", text, { type: "button", ...attributes });
    made.addEventListener("click", act);
    return made;
  };
  const KEPT = 8; // bars of the small picture in the list

  let state, by = {}, current = null, selected = new Set(), last = null, together = true;
  let pending = null, timer = 0, line = Promise.resolve();

  // ---- requests, one after another; an order that is being changed by keyboard is sent first

  const take = (answer) => {
    answer.questions.forEach((each) => { by[each.name] = each; });
    state = { ...state, ...answer };
    selected = new Set([...selected].filter((name) => state.order.includes(name)));
    if (!state.order.includes(current)) current = null;
  };
  const send = async (what, body) => {
    document.body.setAttribute("aria-busy", "true");
    const before = new Set(state.order), answer = await ask(what, { version: state.version, ...body });
    document.body.removeAttribute("aria-busy");
    if (!answer) { show(); return false; }
    take(answer);
    if (what === "group") current = state.order.find((name) => !before.has(name)) || current;
    current = current || state.order[0];
    show(); say(answer.said);
    return true;
  };
  const act = (what, body = {}) => { flush(); return (line = line.then(() => send(what, body))); };
  const flush = () => {
    clearTimeout(timer);
    if (!pending) return;
    const body = pending; pending = null;
    line = line.then(() => send("order", body));
  };
  const alike = (question) => (together && question.same.length > 1 ? question.same : [question.name]);
  // The other questions get the same answers, whichever of them was changed: the first of the list is the one on show.
  const names = (question) => [question.name, ...alike(question).filter((name) => name !== question.name)];

  // ---- the list

  const kindWords = (question) => question.known
    ? state.kinds[question.members.length ? "together" : "alone"][question.kind] || state.kinds.alone[question.kind] : question.type;
  const part = (question) => question.check ? "Please check" : question.role === "answer" ? "Questions" : "Not in the model";
  const matches = (question, words) => {
    const text = [question.text, question.brief, kindWords(question), ...(question.bars || []).map((bar) => bar.text)].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const visible = () => {
    const words = $("search").value.toLowerCase().split(/\s+/).filter(Boolean), parts = { "Please check": [], "Questions": [], "Not in the model": [] };
    state.order.forEach((name) => { if (matches(by[name], words)) parts[part(by[name])].push(name); });
    return parts;
  };
  const inOrder = () => Object.values(visible()).flat();
  const spark = (question) => {
    const box = make("span", null, { class: "spark", "aria-hidden": "true" });
    const bars = question.histogram ? question.histogram.counts.filter((_, k) => k % 3 === 0).map((n) => ({ n })) : (question.bars || []).slice(0, KEPT);
    const most = Math.max(1, ...bars.map((bar) => bar.n));
    bars.forEach((bar) => { const made = make("i", null, { class: question.role === "answer" ? "" : "gone" }); made.style.height = 100 * bar.n / most + "%"; box.append(made); });
    return box;
  };
  const row = (name) => {
    const question = by[name], item = make("li", null, { class: question.role === "answer" ? "" : "off" });
    const tick = make("input", null, { type: "checkbox", "aria-label": "Select " + question.brief, tabindex: name === current ? 0 : -1 });
    tick.checked = selected.has(name);
    tick.addEventListener("click", (event) => {
      const shown = inOrder(), from = shown.indexOf(last), to = shown.indexOf(name);
      (event.shiftKey && from >= 0 ? shown.slice(Math.min(from, to), Math.max(from, to) + 1) : [name])
        .forEach((each) => (tick.checked ? selected.add(each) : selected.delete(each)));
      last = name; list();
    });
    const open = button(null, () => choose(name, true), { tabindex: name === current ? 0 : -1, "data-name": name });
    if (name === current) open.setAttribute("aria-current", "true");
    open.append(make("span", question.brief), spark(question), make("small", kindWords(question)));
    item.append(tick, open);
    return item;
  };
  const list = () => {
    const focus = $("list").contains(document.activeElement) ? document.activeElement.tagName : null, top = $("list").scrollTop;
    const parts = Object.entries(visible()).filter(([, own]) => own.length);
    $("list").replaceChildren(...parts.flatMap(([title, own]) => {
      const items = make("ul", null, { "aria-label": title });
      items.append(...own.map(row));
      return [make("h2", title + " (" + own.length + ")"), items];
    }));
    if (!parts.length) $("list").append(make("p", "No question has these words.", { class: "note" }));
    const shown = $("list").querySelector("[aria-current]");
    if (!shown && parts.length) $("list").querySelectorAll("li:first-child > *").forEach((each, k) => { if (k < 2) each.tabIndex = 0; });
    $("list").scrollTop = top;
    if (focus && shown) (focus === "INPUT" ? shown.previousElementSibling : shown).focus({ preventScroll: true });
    $("together").hidden = !selected.size;
    $("n-selected").textContent = selected.size + " selected";
  };
  const choose = (name, read = false) => {
    flush();
    current = name; together = true;
    history.replaceState(null, "", "#" + encodeURIComponent(name));
    document.body.dataset.view = "detail";
    show();
    if (read && matchMedia("(max-width: 860px)").matches) { $("detail").focus(); scrollTo(0, 0); }
  };
  const step = (by_) => {
    const shown = inOrder(), place = Math.min(shown.length - 1, Math.max(0, shown.indexOf(current) + by_));
    if (shown.length) choose(shown[place]);
    const open = $("list").querySelector("[aria-current]");
    if (open) { open.focus(); open.scrollIntoView({ block: "nearest" }); }
  };

  // ---- one question

  const bar = (n, total) => {
    const box = make("span", null, { class: "bar", "aria-hidden": "true" }), fill = make("i");
    fill.style.width = 100 * n / Math.max(total, 1) + "%"; box.append(fill);
    return box;
  };
  const counted = (n, total) => {
    const made = make("b", count(n) + " ");
    made.append(make("small", percent(n / Math.max(total, 1))));
    return made;
  };
  const setOrder = (question, items) => {
    pending = { names: names(question), places: [...items.children].map((item) => Number(item.dataset.place)) };
    clearTimeout(timer);
  };
  const carry = (question, items, item, handle) => {
    handle.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      event.preventDefault(); handle.setPointerCapture(event.pointerId); handle.focus(); item.classList.add("held");
      const move = (moved) => {
        const over = [...items.children].find((other) => { const box = other.getBoundingClientRect(); return moved.clientY >= box.top && moved.clientY < box.bottom; });
        if (!over || over === item) return;
        const places = [...items.children];
        if (places.indexOf(over) > places.indexOf(item)) over.after(item); else over.before(item);
        handle.setPointerCapture(event.pointerId);
      };
      const drop = () => {
        handle.removeEventListener("pointermove", move); item.classList.remove("held");
        if ([...items.children].some((each, k) => Number(each.dataset.place) !== k)) { setOrder(question, items); flush(); }
      };
      handle.addEventListener("pointermove", move);
      handle.addEventListener("pointerup", drop, { once: true });
      handle.addEventListener("pointercancel", drop, { once: true });
    });
    handle.addEventListener("keydown", (event) => {
      const down = event.key === "ArrowDown", other = down ? item.nextElementSibling : event.key === "ArrowUp" ? item.previousElementSibling : null;
      if (event.key === "Enter") { event.preventDefault(); flush(); }
      if (!down && event.key !== "ArrowUp") return;
      event.preventDefault();
      if (!other) return;
      if (down) other.after(item); else other.before(item);
      handle.focus(); setOrder(question, items);
      timer = setTimeout(flush, 900);
      $("said").textContent = item.dataset.text + " is number " + ([...items.children].indexOf(item) + 1) + " of " + items.children.length;
    });
    handle.addEventListener("blur", () => { if (pending && !item.classList.contains("held")) timer = setTimeout(flush, 50); });
  };
  const answers = (question) => {
    const bars = question.bars, total = question.n, can = question.sortable, most = Math.max(1, ...bars.map((each) => each.n));
    const items = make(question.ordered ? "ol" : "ul", null, { class: "answers" + (can ? "" : " fixed"), "aria-label": "Answers" });
    bars.forEach((each, place) => {
      const item = make("li", null, { "data-place": place, "data-text": each.text });
      if (can) {
        const handle = make("button", "⠿", { type: "button", class: "handle", "data-focus": "move " + each.text, title: "Drag, or use the arrow keys",
          "aria-label": "Move “" + each.text + "”, number " + (place + 1) + " of " + bars.length + "; arrow keys move it" });
        carry(question, items, item, handle);
        item.append(handle);
      }
      item.append(make("span", each.text), bar(each.n, most), counted(each.n, total));
      if (question.canMiss) {
        item.append(button("Not an answer", () => act("missing", { names: names(question), places: [place, ...question.missing.map((_, k) => bars.length + k)] }),
          { "data-focus": "miss " + each.text, "aria-label": "“" + each.text + "” is not an answer: count as missing" }));
      }
      items.append(item);
    });
    return items;
  };
  const codes = (question) => {
    const box = make("div"), first = (question.canMiss && question.bars.length) || 0;
    const items = make("ul", null, { class: "answers fixed" + (question.sortable ? " indent" : ""), "aria-label": "Counted as missing" });
    question.missing.forEach((each, k) => {
      const item = make("li", null, { class: "gone" });
      item.append(make("span", each.text), bar(each.n, state.n_rows), counted(each.n, state.n_rows), button("Is an answer",
        () => act("missing", { names: names(question), places: question.missing.map((_, at) => first + at).filter((at) => at !== first + k) }),
        { "data-focus": "hit " + each.text, "aria-label": "“" + each.text + "” is an answer" }));
      items.append(item);
    });
    const form = make("form"), code = make("input", null, { id: "code", maxlength: 200, size: 12, autocomplete: "off", "data-focus": "code" });
    form.append(make("label", "Another code that means “no answer”", { for: "code" }), code, make("button", "Count as missing"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      act("missing", { names: names(question), places: question.missing.map((_, at) => first + at), typed: code.value });
    });
    const title = make("h3", "Counted as missing");
    title.append(make("small", question.missing.length ? "" : "no codes"));
    box.append(title, items, form);
    return box;
  };
  const histogram = (shape) => {
    const box = make("div"), most = Math.max(...shape.counts), drawn = make("div", null, { class: "histogram", "aria-hidden": "true" });
    shape.counts.forEach((n) => { const made = make("i"); made.style.height = 100 * n / most + "%"; drawn.append(made); });
    const ends = make("p", null, { class: "ends" }), [low, middle, high] = shape.ends.map(short);
    ends.append(make("span", "lowest " + low), make("span", "median " + middle), make("span", "highest " + high));
    box.append(drawn, ends);
    return box;
  };
  const divide = (question) => button("Divide into its columns", () => act("ungroup", { names: [question.name] }), { "data-focus": "divide" });
  const check = (question) => {
    const box = make("div", null, { class: "callout" }), tools = make("p", null, { class: "tools" });
    box.append(make("strong", "Please check: "), make("span", question.check), tools);
    if (question.instead) tools.append(button("Change to: " + question.instead, () => act("instead", { names: names(question) }), { "data-focus": "instead" }));
    else if (question.members.length) tools.append(divide(question));
    const many = together && question.same.filter((name) => by[name].check === question.check).length;
    tools.append(button(many > 1 ? "All " + many + " are right" : "It is right", async () => {
      const next = inOrder().filter((name) => by[name].check && !(many > 1 ? question.same : [question.name]).includes(name))[0];
      if (await act("confirm", { names: many > 1 ? question.same.filter((name) => by[name].check === question.check) : [question.name] }) && next) choose(next);
    }, { "data-focus": "right" }));
    return box;
  };
  const texts = (question) => {
    const more = make("details", null, { class: "rename" }), form = make("form"), text = make("input", null, { id: "text", maxlength: 1000, autocomplete: "off", "data-focus": "text" });
    text.value = question.title;
    text.placeholder = question.name;
    form.append(make("label", "Text", { for: "text" }), text, make("button", "Use this text"));
    form.addEventListener("submit", (event) => { event.preventDefault(); act("text", { names: [question.name], text: text.value }); });
    more.append(make("summary", question.title || question.name.includes(" ") ? "Change the text" : "Write the text of the question: reports take its name from it"), form);
    return more;
  };
  const typeOf = (question) => {
    const box = make("p", null, { class: "row" }), pick = make("select", null, { id: "type", "data-focus": "type" });
    const kinds = question.known ? { ...state.kinds[question.members.length ? "together" : "alone"], ignore: state.kinds.alone.ignore } : { [question.kind]: question.type, ignore: state.kinds.alone.ignore };
    Object.entries(kinds).filter(([kind]) => !["places", "mentions"].includes(kind)).forEach(([kind, words]) => pick.append(make("option", words, { value: kind })));
    pick.value = question.kind;
    pick.addEventListener("change", () => act("type", { names: names(question), kind: pick.value }));
    box.append(make("label", "Type", { for: "type" }), pick);
    if (question.kind === "categorical" && question.canMiss && question.bars.length > 2) box.append(button("These answers have an order", () => act("type", { names: names(question), kind: "ordinal" }), { "data-focus": "ordered" }));
    if (question.sortable && question.bars.length > 1) box.append(button("Reverse the order", () => act("order", { names: names(question), places: question.bars.map((_, k) => question.bars.length - 1 - k) }), { "data-focus": "reverse" }));
    return box;
  };
  const twins = (question) => {
    const box = make("div"), label = make("label"), tick = make("input", null, { type: "checkbox", "data-focus": "together" }), more = make("details"), items = make("ul");
    tick.checked = together;
    tick.addEventListener("change", () => { together = tick.checked; show(); });
    label.append(tick, " Change the " + question.same.length + " questions with these answers together");
    items.append(...question.same.map((name) => make("li", by[name].text)));
    more.append(make("summary", "Which ones"), items);
    box.append(label, more);
    return box;
  };
  const members = (question) => {
    const box = make("div"), title = make("h3", "Columns"), items = make("ul", null, { class: "members" });
    title.append(make("small", count(question.members.length)));
    items.append(...question.members.map((each) => { const item = make("li", each.label || each.column); if (each.label) item.append(" ", make("small", each.column)); return item; }));
    box.append(title, items);
    if (!question.check || question.instead) box.append(divide(question));
    return box;
  };
  const words = (question) => {
    const gone = question.n_empty, said = [count(question.n || 0) + (question.role === "answer" ? " answers" : " cells")];
    if (question.n_distinct) said.push(count(question.n_distinct) + " different");
    if (question.n_not_asked) said.push(count(question.n_not_asked) + " not asked");
    if (gone - (question.n_not_asked || 0) > 0) said.push(count(gone - (question.n_not_asked || 0)) + " empty");
    return said.join(", ");
  };
  const detail = () => {
    const held = document.activeElement && $("body").contains(document.activeElement) ? document.activeElement.dataset.focus : null;
    const question = by[current], body = $("body");
    if (!question) { $("question").textContent = "The schema has no questions"; body.replaceChildren(); return; }
    question.canMiss = question.role === "answer" && "ordered" in question;
    $("question").textContent = question.brief;
    const parts = [];
    if (question.text !== question.brief) parts.push(make("p", question.text, { class: "full" }));
    parts.push(texts(question));
    if (question.skip) parts.push(make("p", question.skip[0].toUpperCase() + question.skip.slice(1) + ".", { class: "note" }));
    if (question.check) parts.push(check(question));
    parts.push(typeOf(question));
    if (question.same.length > 1) parts.push(twins(question));
    if (question.bars || question.histogram) {
      const title = make("h3", question.role === "answer" ? (question.ordered && question.sortable ? "Answers, lowest first" : "Answers") : "Most frequent cells");
      title.append(make("small", words(question)));
      parts.push(title, question.histogram ? histogram(question.histogram) : answers(question));
    } else parts.push(make("p", words(question), { class: "note" }));
    if (question.missing) parts.push(codes(question));
    if (question.members.length) parts.push(members(question));
    if (!question.check || !question.why.includes(question.check)) parts.push(make("p", question.why ? "Why: " + question.why + "." : "Given by hand, or in the schema file.", { class: "note" }));
    body.replaceChildren(...parts);
    if (held) {
      const again = [...body.querySelectorAll("[data-focus]")].find((each) => each.dataset.focus === held);
      (again || $("detail")).focus({ preventScroll: true });
    }
  };
  const show = () => {
    list(); detail();
    $("undo").disabled = !state.undo; $("redo").disabled = !state.redo;
    $("save").textContent = state.saved ? "Saved" : "Save"; $("save").disabled = state.saved;
  };

  // ---- controls

  $("search").addEventListener("input", list);
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); const first = inOrder()[0]; if (first) { choose(first); step(0); } }
    if (event.key === "Escape") { $("search").value = ""; list(); }
  });
  $("list").addEventListener("keydown", (event) => {
    const place = { ArrowDown: 1, ArrowUp: -1, Home: -1e9, End: 1e9 }[event.key];
    if (place) { event.preventDefault(); step(place); }
    if (event.key === "x" && current) { selected.has(current) ? selected.delete(current) : selected.add(current); last = current; list(); }
    if (event.key === "ArrowRight") { event.preventDefault(); $("type") && $("type").focus(); }
  });
  $("undo").addEventListener("click", () => act("undo"));
  $("redo").addEventListener("click", () => act("redo"));
  $("save").addEventListener("click", () => act("save"));
  $("back").addEventListener("click", () => { document.body.dataset.view = "list"; const open = $("list").querySelector("[aria-current]"); if (open) { open.focus(); open.scrollIntoView({ block: "center" }); } });
  $("clear").addEventListener("click", () => { selected = new Set(); list(); });
  // What is selected while the server answers belongs to the next correction.
  const ofSelected = async (what, body) => {
    const own = state.order.filter((name) => selected.has(name));
    selected = new Set(); list();
    if (await act(what, body(own))) return true;
    own.forEach((name) => selected.add(name)); list();
    return false;
  };
  $("right").addEventListener("click", () => ofSelected("confirm", (own) => ({ names: own })));
  $("leave-out").addEventListener("click", () => ofSelected("type", (own) => ({ names: own, kind: "ignore" })));
  $("together").addEventListener("submit", (event) => {
    event.preventDefault();
    ofSelected("group", (own) => ({ columns: own, kind: $("group-kind").value, name: $("group-name").value }));
    $("group-name").value = "";
  });
  addEventListener("keydown", (event) => {
    const typing = /INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName) && document.activeElement.type !== "checkbox", key = event.key.toLowerCase();
    if (event.ctrlKey || event.metaKey) {
      if (key === "s") { event.preventDefault(); if (!state.saved) act("save"); }
      else if (!typing && key === "z") { event.preventDefault(); if (event.shiftKey ? state.redo : state.undo) act(event.shiftKey ? "redo" : "undo"); }
      else if (!typing && key === "y") { event.preventDefault(); if (state.redo) act("redo"); }
    } else if (!typing && key === "/") { event.preventDefault(); document.body.dataset.view = "list"; $("search").focus(); }
  });

  ask("survey").then((found) => {
    if (!found) return;
    state = found; take(found);
    $("title").textContent = found.title; document.title = "Schema of " + found.title;
    Object.entries(found.kinds.together).forEach(([kind, text]) => $("group-kind").append(make("option", text, { value: kind })));
    let asked = "";
    try { asked = decodeURIComponent(location.hash.slice(1)); } catch { /* an address that somebody typed */ }
    current = state.order.includes(asked) ? asked : inOrder()[0] || null;
    document.body.dataset.view = state.order.includes(asked) ? "detail" : "list";
    show();
    const open = $("list").querySelector("[aria-current]");
    if (open) open.scrollIntoView({ block: "nearest" });
    const n = visible()["Please check"].length;
    say(count(state.n_rows) + " rows, " + state.order.length + " questions" + (n ? ", " + n + " to check" : "") + ". Save writes " + state.path + ".");
  });
})();
