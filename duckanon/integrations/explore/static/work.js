// A panel for work that takes long: what runs, how far it is, and a button that cancels it.

import { el, note } from "./dom.js";
import { cancel, Cancelled } from "./server.js";

const PATIENCE = 150;

/**
 * Runs `start(tell)` with a panel in `place`. Returns the result, or undefined after an error or a cancel, which the
 * panel then tells. Another run in the same place takes over: the first one's result is dropped.
 */
export async function worked(place, label, start, { final = false } = {}) {
  const mine = Symbol(label);
  place.owner = mine;
  let job = null;
  let stopped = false;
  const step = el("p", { role: "status" }, label);
  const progress = el("progress", { max: 1, "aria-label": label });
  const button = final ? null : el("button", { type: "button", onclick: () => { stopped = true; if (job) cancel(job).catch(() => {}); } }, "Cancel");
  const panel = el("div", { class: "work", hidden: true }, step, progress, button);
  place.replaceChildren(panel);
  const began = performance.now();
  const late = setTimeout(() => { panel.hidden = false; }, PATIENCE);
  const tell = (told) => {
    job = told.job;
    if (stopped) cancel(job).catch(() => {});
    if (told.share === null) progress.removeAttribute("value");
    else progress.value = told.share;
    const now = told.state === "waiting" ? "Waiting for earlier work" : told.step || label;
    step.textContent = `${now} · ${Math.round((performance.now() - began) / 1000)} s`;
  };
  try {
    const result = await start(tell, () => stopped);
    if (place.owner !== mine) return undefined;
    place.replaceChildren();
    return result;
  } catch (error) {
    if (place.owner !== mine) return undefined;
    place.replaceChildren(error instanceof Cancelled ? note("Cancelled. Nothing was changed; start again whenever you like.") : note(error.message, "warn"));
    return undefined;
  } finally {
    clearTimeout(late);
  }
}
