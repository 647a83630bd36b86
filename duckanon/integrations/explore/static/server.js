// Questions to the server. Asking starts work; polling and cancelling never do.

class Problem extends Error {}
export class Cancelled extends Error {}

const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

async function answered(request) {
  let response;
  try {
    response = await request;
  } catch {
    const box = document.getElementById("ended");
    box.textContent = "This session has ended. Start duckanon explore again in the terminal.";
    box.hidden = false;
    throw new Problem(box.textContent);
  }
  const found = await response.json();
  if (!response.ok) throw new Problem(found.error);
  return found;
}

export const session = () => answered(fetch("session"));

function post(address, body) {
  return answered(fetch(address, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }));
}

export const cancel = (job) => post("cancel", { job });

/** The result of what was begun. tell: called with where it stands, until it has ended. */
async function followed(job, tell) {
  while (job.state === "waiting" || job.state === "running") {
    tell?.(job);
    await pause(60);
    job = await post("poll", { job: job.job });
  }
  if (job.state === "cancelled") throw new Cancelled();
  if (job.state === "failed") throw new Problem(job.error);
  return job.result;
}

export const ask = async (question, given, tell) => followed(await post("ask", { question, given }), tell);
export const plan = async (kind, given) => followed(await post("plan", { kind, given }));
export const confirm = async (nonce, tell) => followed(await post("confirm", { nonce }), tell);
export const printTable = async (given, tell) => followed(await post("print", { given }), tell);
export const keepSession = (given) => post("keep", given);
export const forgetSession = () => post("forget", {});
export const writeReport = async (tell) => followed(await post("write-report", {}), tell);
