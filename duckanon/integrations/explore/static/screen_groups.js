// 5. Group sizes and counts: what an epsilon buys, on made-up groups; and tables that could be prepared together.

import { el, field, grid, note, num, pct, several, svg } from "./dom.js";
import { preparedTables } from "./prepared.js";
import { ask } from "./server.js";
import { choose, known, state } from "./state.js";
import { worked } from "./work.js";

export const lead = "Noise protects single persons; a smaller epsilon means more noise. Try it on groups that you make up: this is simulated, and nothing is charged.";

const MOST_SIZES = 12;

const shape = () => state.groups.split(",").map((one) => Math.max(0, Math.round(Number(one)) || 0)).slice(0, MOST_SIZES);

export function show(body) {
  const place = el("div", {});
  const results = el("div", {});
  const button = el("button", { type: "button", class: "main", onclick: () => simulate(place, results, button) }, "Simulate");
  body.replaceChildren(...[inputs(button), place, results, preparedTables()].filter(Boolean));
  simulate(place, results, button);
}

function inputs(button) {
  const number = (name, label, most) => field(label, el("input", { type: "number", min: 1, max: most, value: state[name], onchange: (event) => choose({ [name]: event.target.value }) }));
  const sizes = el("div", { class: "fields sizes" });
  const draw = () => {
    const groups = shape();
    sizes.replaceChildren(...groups.map((many, i) => field(`size ${i + 1}`, el("input", { type: "number", min: 0, value: many, onchange: (event) => { groups[i] = Number(event.target.value) || 0; choose({ groups: groups.join(",") }); } }))),
      el("button", { type: "button", disabled: groups.length >= MOST_SIZES, onclick: () => { choose({ groups: [...shape(), 0].join(",") }); draw(); } }, "One size more"),
      el("button", { type: "button", disabled: groups.length < 2, onclick: () => { choose({ groups: shape().slice(0, -1).join(",") }); draw(); } }, "One less"));
  };
  draw();
  const epsilon = field("Epsilon", el("input", { type: "text", class: "short", inputmode: "decimal", value: state.epsilon, onchange: (event) => choose({ epsilon: event.target.value.trim() }) }));
  return el("section", { class: "card" }, el("fieldset", {}, el("legend", {}, "How many groups (households, say) of each size"), sizes),
    el("div", { class: "fields" }, epsilon, number("regions", "Regions", 200), number("rowsPerUnit", "Records of one person that count", 1000), el("span", { class: "push" }, button)));
}

async function simulate(place, results, button) {
  button.disabled = true;
  const asked = { groups: shape(), regions: Number(state.regions), epsilon: state.epsilon, rows_per_unit: Number(state.rowsPerUnit) };
  const found = await worked(place, "Simulating", (tell) => ask("simulation", asked, tell));
  button.disabled = false;
  if (!found || !results.isConnected) return;
  results.replaceChildren(note(`Simulated in a database of its own: nothing was charged, and ${known.session.name} was not read.`, "good"), el("div", { class: "wide" }, sizesCard(found, asked), countsCard(found)));
}

function sizesCard({ sizes, in_region: inRegion, draws, epsilon }, { regions }) {
  const whole = sizes.reduce((sum, one) => sum + one.error, 0) / sizes.length;
  const parts = inRegion[0] === null ? null : inRegion.reduce((sum, one) => sum + one, 0) / sizes.length;
  return el("section", { class: "card" }, el("h2", {}, "Group sizes"),
    el("p", {}, `With epsilon ${epsilon} a number of groups is off by ${num(Math.round(10 * whole) / 10)} on average`, parts === null ? "." : `, and by ${num(Math.round(10 * parts) / 10)} in each of ${regions} regions.`),
    bars(sizes),
    grid(`One release beside the truth; errors are means of ${draws} releases`, [["Size", "number"], ["True", "number"], ["Released", "number"], ["95 % interval", "number"], ["Mean error", "number"]],
      sizes.map((one, i) => [i + 1 === sizes.length ? `${one.size} or more` : String(one.size), num(one.true), num(one.groups), `${num(one.low)} to ${num(one.high)}`, num(Math.round(10 * one.error) / 10)])));
}

function bars(sizes) {
  const [W, H, L, B, T] = [460, 220, 44, 24, 22];
  const most = Math.max(1, ...sizes.map((one) => Math.max(one.true, one.high)));
  const width = (W - L) / sizes.length;
  const y = (value) => H - B - (value / most) * (H - B - T);
  const parts = [svg("text", { x: L, y: 12 }, "grey: true · blue: one release with its interval")];
  for (const part of [0, 0.5, 1]) parts.push(svg("line", { class: "grid", x1: L, x2: W, y1: y(part * most), y2: y(part * most) }), svg("text", { x: L - 6, y: y(part * most) + 4, "text-anchor": "end" }, num(Math.round(part * most))));
  sizes.forEach((one, i) => {
    const [left, middle] = [L + i * width + width * 0.18, L + (i + 0.5) * width];
    parts.push(svg("rect", { class: "truth", x: left, y: y(one.true), width: width * 0.64, height: Math.max(0, y(0) - y(one.true)) }),
      svg("line", { class: "whisker", x1: middle, x2: middle, y1: y(one.high), y2: y(one.low) }), svg("circle", { class: "dot", cx: middle, cy: y(one.groups), r: 4 }),
      svg("text", { x: middle, y: H - 7, "text-anchor": "middle" }, i + 1 === sizes.length ? `${one.size}+` : String(one.size)));
  });
  return svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "True numbers of groups by size, and one release of them; the table below has the numbers" }, ...parts);
}

function countsCard({ margin, counts, epsilon }) {
  return el("section", { class: "card" }, el("h2", {}, "Counts"),
    el("p", {}, `A count with noise for epsilon ${epsilon} is within ${num(margin)} of the true one in 95 of 100 releases, whatever it counts.`),
    grid("What that means for counts of different sizes", [["A count of", "number"], ["is within", "number"], ["that is", "number"], ["", ""]],
      counts.map((one) => [num(one.count), `± ${num(margin)}`, pct(one.share), el("span", { class: `tag ${one.share > 0.5 ? "warn" : one.share > 0.1 ? "" : "good"}` }, one.share > 0.5 ? "of no use" : one.share > 0.1 ? "rough" : "good")])),
    el("p", { class: "hint" }, `Several counts share an epsilon: ${several(10, "table")} cost ten times as much as one.`));
}
