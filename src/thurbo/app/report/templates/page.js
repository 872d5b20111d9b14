(() => {
  "use strict";
  const facts = JSON.parse(document.getElementById("facts").textContent);
  const tip = document.getElementById("tip");
  const show = (lines, x, y) => {
    tip.replaceChildren(...lines.map((line) => { const p = document.createElement("p"); p.textContent = line; return p; }));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 4)) + "px";
    tip.style.top = Math.max(4, y + 14 + box.height > innerHeight ? y - box.height - 10 : y + 14) + "px";
  };
  const hide = () => { tip.hidden = true; };
  const place = (svg, event) => new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
  const nearest = (points, p, reach) => {
    let best = -1, least = reach * reach;
    points.forEach(([x, y], k) => { const d = (x - p.x) ** 2 + (y - p.y) ** 2; if (d < least) { least = d; best = k; } });
    return best;
  };
  addEventListener("keydown", (event) => { if (event.key === "Escape") hide(); });

  const dots = document.getElementById("dots"), mark = document.getElementById("mark");
  const told = (k) => {
    const segment = facts.segments[facts.segment[k]];
    const lines = ["Segment " + facts.segment[k] + ": " + segment.name, segment.share + " of all. " + segment.lines.join("; ")];
    if (!facts.people) return lines;
    const person = facts.people[k];
    return ["Row " + person.name + ", segment " + facts.segment[k]].concat(person.answers.slice(0, 24).map((a) => a[0] + ": " + a[1]));
  };
  const point = (k, x, y) => {
    mark.setAttribute("cx", facts.points[k][0]); mark.setAttribute("cy", facts.points[k][1]); mark.setAttribute("visibility", "visible");
    show(told(k), x, y);
  };
  const leave = () => { hide(); if (mark) mark.setAttribute("visibility", "hidden"); };
  if (dots) {
    dots.addEventListener("pointermove", (event) => {
      const k = nearest(facts.points, place(dots, event), 24);
      if (k < 0) leave(); else point(k, event.clientX, event.clientY);
    });
    dots.addEventListener("pointerleave", leave);
    let current = -1;
    dots.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      current = (current + step + facts.points.length) % facts.points.length;
      const p = new DOMPoint(...facts.points[current]).matrixTransform(dots.getScreenCTM());
      point(current, p.x, p.y);
    });
    dots.addEventListener("blur", leave);
  }
  const heat = document.getElementById("heat");
  if (heat && facts.heat) {
    heat.addEventListener("pointermove", (event) => {
      const p = place(heat, event), row = Math.floor(p.y), column = Math.floor(p.x), share = facts.heat.share[row]?.[column];
      if (share === undefined || share === null) return hide();
      show([facts.heat.names[row], "Knowing " + facts.heat.names[column] + " removes " + share + " % of the uncertainty."], event.clientX, event.clientY);
    });
    heat.addEventListener("pointerleave", hide);
  }
  document.querySelectorAll("[data-items]").forEach((svg) => {
    const held = facts.items[svg.dataset.items];
    svg.addEventListener("pointermove", (event) => {
      const k = nearest(held.points, place(svg, event), 24);
      if (k < 0) hide(); else show([held.names[k], held.n[k] + " ratings"], event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", hide);
  });

  const cards = [...document.querySelectorAll(".card")], find = document.getElementById("find"), fold = document.getElementById("fold");
  const set = (open) => { cards.forEach((card) => { card.open = open; }); fold.textContent = open ? "Fold all" : "Unfold all"; };
  if (cards.length > 5) document.querySelector(".finder").hidden = false;
  if (matchMedia("(max-width: 720px)").matches) {
    set(false);
    document.querySelectorAll("details.fold, details.trait").forEach((each) => { each.open = false; });
  } else if (!cards.some((card) => card.open)) fold.textContent = "Unfold all";
  fold.addEventListener("click", () => set(!cards.some((card) => card.open)));
  find.addEventListener("input", () => {
    const wanted = find.value.trim().toLowerCase();
    let n = 0;
    cards.forEach((card) => { card.hidden = !card.textContent.toLowerCase().includes(wanted); n += !card.hidden; });
    document.getElementById("found").textContent = wanted ? n + " of " + cards.length : "";
  });
  let before = null;
  addEventListener("beforeprint", () => { const all = [...document.querySelectorAll("details")]; before = all.map((d) => [d, d.open]); all.forEach((d) => { d.open = true; }); });
  addEventListener("afterprint", () => { (before || []).forEach(([d, open]) => { d.open = open; }); });

  const links = [...document.querySelectorAll(".contents a")];
  const seen = new IntersectionObserver((entries) => {
    entries.forEach((entry) => {
      if (!entry.isIntersecting) return;
      links.forEach((link) => {
        const own = link.hash === "#" + entry.target.id;
        if (own) { link.setAttribute("aria-current", "true"); link.parentElement.parentElement.scrollTo({ left: link.offsetLeft - 60 }); } else link.removeAttribute("aria-current");
      });
    });
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("main > section").forEach((section) => seen.observe(section));
})();
