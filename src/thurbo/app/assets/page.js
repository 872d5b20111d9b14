"use strict";
const $ = (id) => document.getElementById(id);
const make = (tag, text, attributes = {}) => {
  const found = document.createElement(tag);
  if (text !== undefined && text !== null) found.textContent = text;
  for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
  return found;
};
const short = (value) => String(Number(value.toPrecision(4)));
const percent = (share) => Math.round(100 * share) + " %";
const say = (text, failed = false) => { $("status").textContent = text; $("status").className = failed ? "error" : ""; };
const ask = async (what, body = {}) => {
  let answer, value;
  try {
    answer = await fetch(what, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    value = await answer.json();
  } catch { say("The server does not answer; is the command still running?", true); return null; }
  if (!answer.ok) { say(value.error, true); return null; }
  return value;
};
