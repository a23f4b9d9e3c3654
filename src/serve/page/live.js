// Live numbers: /v1/loads once a second into charts, /server_info when the server is (again) there.
import { LineChart, PositionBars } from "./chart.js";
import { byId, count } from "./dom.js";
import { facts } from "./facts.js";
import { getJson } from "./server.js";
import { shadeOf } from "./tokens.js";

const POLL_MS = 1000;

export class Live {
  #before = null;
  #status = "";
  #known = false;  // /server_info was read since the server was last away
  #charts = {
    accept: new LineChart({ title: "Accept length", series: [{ class: "a" }], unit: "tokens a step", floor: 8 }),
    speed: new LineChart({ title: "Speed", series: [{ class: "b" }], unit: "tokens/s", floor: 10 }),
    requests: new LineChart({ title: "Requests", series: [{ name: "running", class: "c" }, { name: "queued", class: "d" }],
                              format: (value) => value.toLocaleString("en"), floor: 4 }),
    pages: new LineChart({ title: "Cache in use", series: [{ class: "e" }], unit: "", floor: 10,
                           format: (value) => `${value.toFixed(value < 10 ? 1 : 0)}%` }),
  };
  #bars = new PositionBars("Accepted by block position");

  start() {
    byId("charts").append(this.#charts.accept.element, this.#charts.speed.element, this.#bars.element,
                          this.#charts.requests.element, this.#charts.pages.element);
    this.#poll();
  }

  // Reads everything anew (another API key, say).
  again() {
    this.#known = false;
  }

  async #poll() {
    if (!document.hidden) {
      try {
        if (!this.#known) this.#describe(await getJson("/server_info"));
        this.#take((await getJson("/v1/loads")).loads[0]);
        this.#health(this.#status, this.#status);
      } catch (error) {
        this.#away(error);
      }
    }
    setTimeout(() => this.#poll(), POLL_MS);
  }

  #describe(info) {
    this.#known = true;
    const state = info.internal_states?.[0] ?? {};
    this.#status = info.status ?? "ready";
    byId("model").textContent = info.served_model_name;
    byId("model").title = info.model_path;
    document.title = `${info.served_model_name} · Strobe`;
    const plan = info.memory_plan ?? state.memory_plan;
    this.#fill("memory", plan ?? state.memory_usage, plan ? "" : "GiB");
    this.#fill("decisions", info.decisions, "");
    if (this.#status !== "ready") this.#known = false;  // look again until it is
  }

  #fill(id, value, unit) {
    const place = byId(id);
    place.hidden = !value || Object.keys(value).length === 0;
    if (!place.hidden) place.querySelector(".body").replaceChildren(facts(value, unit));
  }

  #take(load) {
    const now = { at: performance.now(), tokens: load.generated_tokens_total, steps: load.speculative.verify_steps_total,
                  accepted: load.speculative.accepted_tokens_total };
    const before = this.#before;
    this.#before = now;
    this.#charts.requests.push([load.num_running_reqs, load.num_waiting_reqs]);
    this.#charts.pages.push([load.token_usage * 100]);
    const steps = now.steps - (before?.steps ?? now.steps);
    const restarted = before && now.tokens < before.tokens;
    this.#charts.accept.push([steps > 0 ? (now.accepted - before.accepted + steps) / steps : null]);
    this.#charts.speed.push([before && !restarted ? ((now.tokens - before.tokens) * 1000) / (now.at - before.at) : 0]);
    const histogram = load.speculative.accept_histogram_total;
    this.#bars.show(histogram, (position, drafted) => `draft s${shadeOf(position, drafted)}`,
                    `of ${count(now.steps, "checked block")} since the server's start`);
  }

  #away(error) {
    this.#known = false;
    this.#before = null;
    for (const chart of [this.#charts.accept, this.#charts.speed, this.#charts.pages]) chart.push([null]);
    this.#charts.requests.push([null, null]);
    this.#health(error.status === 401 ? "key needed" : "unreachable", error.status === 401 ? "API key needed" : "not reachable");
  }

  #health(state, text) {
    const health = byId("health");
    if (health.textContent !== text) health.textContent = text;  // said once, not every second
    health.dataset.state = state;
  }
}
