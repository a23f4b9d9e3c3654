// The conversation: questions, answers as they come, comparisons, errors.
import { byId, count, digits, duration, make } from "./dom.js";
import { Replay, Run } from "./run.js";
import { errorTitle } from "./server.js";
import { TokenView } from "./tokens.js";

export class Chat {
  #log = byId("log");
  #news = byId("news");
  #settings;
  #running = [];
  #stopped = false;
  #history = [];
  #onBusy;

  constructor(settings, onBusy) {
    this.#settings = settings;
    this.#onBusy = onBusy;
  }

  get busy() {
    return this.#running.length > 0;
  }

  forget() {
    this.#history = [];
    this.#log.querySelectorAll(".turn").forEach((turn) => turn.remove());
    byId("welcome").hidden = false;
    this.#say("The conversation is forgotten.");
  }

  stop() {
    this.#stopped = true;
    for (const run of this.#running) run.stop();
  }

  // speculative: whether DFlash may draft.
  async ask(question, speculative) {
    const turn = this.#addTurn(question);
    const pane = this.#addPane(turn, speculative ? "DFlash" : "Plain");
    const run = new Run(pane.view, this.#body(question, speculative));
    const retry = () => this.#again(turn, () => this.ask(question, speculative));
    await this.#occupied(turn, retry, async () => {
      await this.#play(run, pane);
      this.#remember(question, run.text);
      pane.foot.append(this.#replayButton([run], "Replay slowly"));
      this.#say(`Answer: ${run.text}. ${run.facts().join(", ")}.`);
    });
  }

  // The same question with DFlash and without, one after the other so that neither slows the other down.
  async compare(question) {
    const turn = this.#addTurn(question);
    turn.classList.add("comparison");
    const body = this.#body(question, true);
    body.seed ??= crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
    const sides = [true, false].map((speculative) => {
      const pane = this.#addPane(turn, speculative ? "DFlash" : "Plain");
      return { pane, run: new Run(pane.view, { ...body, speculative: speculative ? "auto" : "off" }) };
    });
    const retry = () => this.#again(turn, () => this.compare(question));
    await this.#occupied(turn, retry, async () => {
      for (const { pane, run } of sides) {
        if (this.#stopped) {
          pane.facts.textContent = "stopped";
          continue;
        }
        await this.#play(run, pane);
      }
      const runs = sides.map(({ run }) => run);
      this.#remember(question, runs[0].text);
      if (this.#stopped) return;
      const verdict = this.#verdict(...runs);
      turn.append(make("div", { class: "verdict", "data-equal": String(runs[0].text === runs[1].text) },
                       make("div", {}, ...verdict), this.#replayButton(runs, "Replay both slowly")));
      this.#say(turn.querySelector(".verdict").textContent);
      this.#follow();
    });
  }

  #verdict(fast, plain) {
    const equal = fast.text === plain.text;
    const ratio = equal ? plain.elapsedMs / fast.elapsedMs : fast.tokensPerSecond / plain.tokensPerSecond;
    const speed = ratio >= 1 ? `DFlash was ${digits(ratio)}× faster` : `DFlash was ${digits(1 / ratio)}× slower`;
    const times = `${duration(fast.elapsedMs)} against ${duration(plain.elapsedMs)}; ${count(fast.steps, "step")} against ${
      plain.steps.toLocaleString("en")}`;
    const drafted = fast.usage?.drafted_tokens > 0;
    return [
      make("p", { class: "verdict-texts", text: equal ? "The texts are equal" : "The texts differ." }),
      make("p", { class: "verdict-speed" }, make("strong", { text: Number.isFinite(ratio) ? speed : "No speed to compare" }),
           ` (${times})`),
      ...(drafted ? [] : [make("p", { text: "The server drafted nothing: does it have a draft model?" })]),
    ];
  }

  async #occupied(turn, retry, work) {
    this.#stopped = false;
    this.#onBusy(true);
    try {
      await work();
    } catch (error) {
      this.#fail(turn, error, retry);
    } finally {
      this.#running = [];
      this.#onBusy(false);
    }
  }

  async #play(run, pane) {
    this.#running = [run];
    pane.element.setAttribute("aria-busy", "true");
    try {
      await run.start(() => this.#follow());
    } finally {
      pane.element.removeAttribute("aria-busy");
      pane.facts.textContent = run.facts().map((fact) => fact.replaceAll(" ", "\u00a0")).join("\u00a0· ");
      this.#follow();
    }
  }

  #body(question, speculative) {
    const { system, remember } = this.#settings.values;
    const messages = system.trim() === "" ? [] : [{ role: "system", content: system }];
    if (remember) messages.push(...this.#history);
    messages.push({ role: "user", content: question });
    return { messages, ...this.#settings.requestFields(), speculative: speculative ? "auto" : "off" };
  }

  #remember(question, answer) {
    this.#history.push({ role: "user", content: question }, { role: "assistant", content: answer });
  }

  #addTurn(question) {
    byId("welcome").hidden = true;
    const turn = make("article", { class: "turn" }, make("p", { class: "question", text: question }),
                      make("div", { class: "panes" }));
    this.#log.append(turn);
    this.#log.scrollTop = this.#log.scrollHeight;
    return turn;
  }

  #addPane(turn, name) {
    const view = new TokenView(`Answer, ${name}`);
    const facts = make("span", { class: "answer-facts" });
    const foot = make("footer", {}, facts);
    const element = make("section", { class: "pane", "data-way": name === "DFlash" ? "dflash" : "plain" },
                         make("h3", { text: name }), view.element, foot);
    turn.querySelector(".panes").append(element);
    return { element, view, facts, foot };
  }

  #replayButton(runs, name) {
    const button = make("button", { type: "button", class: "quiet replay", text: name });
    const replay = new Replay(runs, (factor) => {
      button.textContent = factor === 0 ? name : `Slowed down ${digits(factor)}× – to the end`;
    });
    button.addEventListener("click", () => (replay.playing ? replay.stop() : replay.start()));
    return button;
  }

  #fail(turn, error, retry) {
    const buttons = [make("button", { type: "button", class: "quiet", text: "Try again", on: { click: retry } })];
    if (error.status === 401) {
      const open = () => this.#settings.open("key");
      buttons.push(make("button", { type: "button", class: "quiet", text: "Enter the key", on: { click: open } }));
    }
    const status = error.status ? ` (${error.status})` : "";
    turn.querySelectorAll(".pane").forEach((pane) => {
      if (pane.querySelector(".tokens").childElementCount === 0) pane.remove();
    });
    turn.append(make("div", { class: "error", role: "alert" },
                     make("p", { class: "error-title", text: errorTitle(error) + status }),
                     make("p", { class: "error-text", text: error.message }), make("div", { class: "actions" }, ...buttons)));
    this.#follow();
  }

  #again(turn, ask) {
    if (this.busy) return;
    turn.remove();
    ask();
  }

  #say(text) {
    this.#news.textContent = text;
  }

  // Keeps the newest in sight, unless the reader has gone up.
  #follow() {
    const log = this.#log;
    if (log.scrollHeight - log.scrollTop - log.clientHeight < 160) log.scrollTop = log.scrollHeight;
  }
}
