// One answer from the server into a TokenView; and the same again, slowed down.
import { abortRequest, chatEvents, newRequestId } from "./server.js";
import { count, digits, duration } from "./dom.js";

// A running or finished answer. `events` has what came and when (milliseconds since the server took the request).
export class Run {
  constructor(view, body) {
    this.view = view;
    this.body = { ...body, rid: newRequestId(), stream: true, stream_options: { include_usage: true },
                  return_token_origins: true };
    this.text = "";
    this.events = [];
    this.finish = null;
    this.usage = null;
    this.#control = new AbortController();
  }
  #control;

  // Throws a ServerError; what came before it stays.
  async start(onEvent = () => {}) {
    try {
      for await (const event of chatEvents(this.body, this.#control.signal)) {
        if (event.usage) this.usage = event.usage;
        const choice = event.choices[0];
        if (!choice) continue;
        this.#take(choice);
        onEvent();
      }
    } catch (error) {
      if (!this.#control.signal.aborted) throw error;
      this.finish ??= "abort";
    }
    this.view.end(this.finish);
  }

  // The server ends the answer with what there is; if it does not, the connection is cut, which ends it too.
  async stop() {
    const patience = setTimeout(() => this.#control.abort(), 1500);
    this.#control.signal.addEventListener("abort", () => clearTimeout(patience));
    try {
      await abortRequest(this.body.rid);
    } catch {
      this.#control.abort();
    }
  }

  #take(choice) {
    if (choice.delta.content) this.text += choice.delta.content;
    if (choice.finish_reason) this.finish = choice.finish_reason;
    const origins = choice.token_origins;
    if (!origins) return;
    this.view.take(origins);
    this.events.push({ ms: origins.elapsed_ms, origins });
  }

  get tokens() {
    return this.usage?.completion_tokens ?? this.view.tokens.length;
  }
  get elapsedMs() {
    return this.events.at(-1)?.ms ?? 0;
  }
  // Decode steps: those after the prompt was read.
  get steps() {
    return this.view.tokens.at(-1)?.step ?? 0;
  }
  // Of decoding alone: from the first token's time on.
  get tokensPerSecond() {
    const seconds = (this.elapsedMs - (this.events[0]?.ms ?? 0)) / 1000;
    const tokens = this.view.tokens.length - (this.events[0]?.origins.tokens.length ?? 0);
    return seconds > 0 && tokens > 0 ? tokens / seconds : NaN;
  }

  // "42 tokens in 7 steps", ...
  facts() {
    const facts = [`${count(this.tokens, "token")} in ${count(this.steps, "step")}`];
    if (this.usage?.spec_verify_ct > 0) facts.push(`accept length ${digits(this.usage.accept_length)}`);
    if (this.elapsedMs > 0) facts.push(duration(this.elapsedMs));
    if (Number.isFinite(this.tokensPerSecond)) facts.push(`${digits(this.tokensPerSecond)} tokens/s`);
    if (this.finish === "length") facts.push("cut at max tokens");
    if (this.finish === "abort") facts.push("stopped");
    return facts;
  }
}

const REPLAY_MS = 8000;

// Plays finished runs again side by side, all slowed down by one factor so that the longest takes eight seconds.
// onChange(factor while it plays, 0 at the end).
export class Replay {
  #runs;
  #frame = 0;
  #onChange;

  constructor(runs, onChange) {
    this.#runs = runs.filter((run) => run.events.length > 0);
    this.#onChange = onChange;
  }

  get playing() {
    return this.#frame !== 0;
  }

  start() {
    const longest = Math.max(...this.#runs.map((run) => run.elapsedMs), 1);
    const factor = Math.max(1, REPLAY_MS / longest);
    const next = this.#runs.map(() => 0);
    for (const run of this.#runs) run.view.clear();
    this.#onChange(factor);
    const began = performance.now();
    const tick = () => {
      const now = (performance.now() - began) / factor;
      let busy = false;
      this.#runs.forEach((run, i) => {
        while (next[i] < run.events.length && run.events[next[i]].ms <= now) run.view.take(run.events[next[i]++].origins);
        if (next[i] < run.events.length) busy = true;
      });
      if (busy) this.#frame = requestAnimationFrame(tick);
      else this.stop();
    };
    this.#frame = requestAnimationFrame(tick);
  }

  // At once to the end.
  stop() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    for (const run of this.#runs) {
      run.view.clear();
      for (const event of run.events) run.view.take(event.origins);
      run.view.end(run.finish);
    }
    this.#onChange(0);
  }
}
