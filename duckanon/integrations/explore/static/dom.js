// Elements and numbers as text. Text from the data only ever becomes text nodes.

const SVG = "http://www.w3.org/2000/svg";

function filled(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (["value", "checked", "disabled", "hidden", "selected"].includes(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export const el = (tag, properties = {}, ...children) => filled(document.createElement(tag), properties, children);
export const svg = (tag, properties = {}, ...children) => filled(document.createElementNS(SVG, tag), properties, children);

export const num = (value) => value.toLocaleString("en-US", { maximumFractionDigits: 2 });

/** A share as a percentage with two digits that matter. */
export function pct(share) {
  const value = 100 * share;
  const digits = Math.abs(value) >= 9.95 ? 0 : Math.abs(value) < 0.1 ? 2 : 1;
  return `${Number(value.toFixed(digits))} %`;
}

export const several = (many, one, more = `${one}s`) => `${num(many)} ${many === 1 ? one : more}`;

/** "a, b and c" */
export function listed(names) {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

export function bar(share, warn = false) {
  const width = Math.max(0, Math.min(100, 100 * share));
  return svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("rect", { class: "track", width: 100, height: 8, rx: 2 }), svg("rect", { class: warn ? "fill warn" : "fill", width, height: 8, rx: 2 }));
}

export const field = (label, control) => el("label", { class: "field" }, el("span", {}, label), control);

/** A field whose mistakes are told beside it at once. wrong: what is wrong with a text, or null; changed: gets a right one. */
export function checkedField(label, properties, wrong, changed) {
  const told = el("span", { class: "wrong", role: "alert" });
  const input = el("input", { type: "text", class: "short", inputmode: "decimal", ...properties,
    oninput: () => { check(); }, onchange: () => { if (check()) changed(input.value.trim()); } });
  function check() {
    const found = wrong(input.value.trim());
    told.textContent = found ?? "";
    input.setAttribute("aria-invalid", String(Boolean(found)));
    return !found;
  }
  check();
  return el("label", { class: "field" }, el("span", {}, label), input, told);
}

const isNumber = (text) => /^\d+([.]\d+)?$/.test(text);
export const wholeFrom = (least, most) => (text) => (/^\d+$/.test(text) && Number(text) >= least && Number(text) <= most ? null : `A whole number from ${num(least)} to ${num(most)}.`);
export const shareOrNone = (text) => (text === "" || (isNumber(text) && Number(text) <= 1) ? null : "A number from 0 to 1, with a point, or nothing.");
export const widthOrNone = (text) => (text === "" || (isNumber(text) && Number(text) > 0) ? null : "A number above 0, with a point, or nothing.");
export const epsilonNumber = (text) => ((isNumber(text) && Number(text) > 0) || /^[1-9]\d*\/[1-9]\d*$/.test(text) ? null : "A number above 0, as 0.1 or 1/10.");

export function select(values, chosen, onchange, properties = {}) {
  return el("select", { ...properties, onchange: (event) => onchange(event.target.value) },
    ...values.map(([value, label]) => el("option", { value, selected: value === chosen }, label)));
}

/** A table. head: [text, class]; rows: arrays of nodes or texts, the first of which names the row. */
export function grid(caption, head, rows, properties = {}) {
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
    el("table", properties, el("caption", {}, caption),
      el("thead", {}, el("tr", {}, ...head.map(([text, kind]) => el("th", { scope: "col", class: kind }, text)))),
      el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((cell, i) =>
        el(i ? "td" : "th", { scope: i ? null : "row", class: head[i][1] }, cell)))))));
}

export const note = (text, kind = "") => el("p", { class: `note ${kind}`, role: kind === "warn" ? "alert" : "status" }, text);
