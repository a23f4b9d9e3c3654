// What one token's story is: a card beside the token with its step, its place and the whole block of that step.
import { byId, count, make } from "./dom.js";
import { classOf, kindOf, shadeOf } from "./tokens.js";

const KINDS = {
  draft: (token) => `accepted draft, position ${token.position} of ${token.drafted}`,
  bonus: () => "bonus: the target's own token after the block",
  plain: (token) => (token.step === 0 ? "first token, from reading the prompt" : "plain: the target's own token, no draft"),
};

// Spaces and line ends as signs.
function visible(text) {
  return text.replace(/ /g, "␣").replace(/\n/g, "⏎").replace(/\t/g, "⇥") || "∅";
}

export class Detail {
  #card = byId("detail");
  #view = null;
  #token = null;
  #pinned = false;

  constructor(area) {
    area.addEventListener("pointerover", (event) => this.#hover(event));
    area.addEventListener("pointerleave", () => this.#pinned || this.hide());
    area.addEventListener("click", (event) => this.#tap(event));
    area.addEventListener("keydown", (event) => this.#key(event));
    area.addEventListener("focusin", (event) => this.#focus(event));
    area.addEventListener("focusout", () => this.hide());
    area.addEventListener("scroll", () => this.hide(), { passive: true });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.hide();
    });
    document.addEventListener("pointerdown", (event) => {
      if (!event.target.closest(".tokens, .detail")) this.hide();
    });
  }

  hide() {
    for (const token of this.#view?.shown() ?? []) token.span.classList.remove("now", "kin");
    this.#view = this.#token = null;
    this.#pinned = false;
    this.#card.hidden = true;
  }

  show(view, token) {
    if (this.#token === token) return;
    const pinned = this.#pinned;
    this.hide();
    this.#pinned = pinned;
    this.#view = view;
    this.#token = token;
    for (const kin of view.ofStep(token.step)) kin.span?.classList.add("kin");
    token.span.classList.add("now");
    this.#card.replaceChildren(...this.#content(view, token));
    this.#card.hidden = false;
    this.#place(token.span);
  }

  #content(view, token) {
    const block = view.ofStep(token.step);
    const step = token.step === 0 ? "Prefill" : `Step ${token.step}`;
    const gain = token.step === 0 ? "" : ` · ${count(block.length, "token")} in this step`;
    return [
      make("p", { class: "detail-head" }, make("span", { class: classOf(token), text: visible(token.text) }),
           make("span", { class: "detail-step", text: `${step}${gain}` })),
      make("p", { class: "detail-kind", text: KINDS[kindOf(token)](token) }),
      ...(token.drafted > 0 ? [this.#block(block, token)] : []),
      make("p", { class: "detail-id", text: `token ${token.index + 1} of the answer · id ${token.id}` }),
    ];
  }

  // The draft's positions and the bonus; what was not accepted is crossed out.
  #block(block, current) {
    const bonus = block.find((token) => token.position === 0);
    const cells = [];
    for (let position = 1; position <= current.drafted; ++position) {
      const token = block.find((each) => each.position === position);
      const state = token ? "accepted" : bonus ? "not accepted" : "after the end";
      cells.push(this.#cell(token, String(position), state, `draft s${shadeOf(position, current.drafted)}`, current));
    }
    cells.push(this.#cell(bonus, "+", bonus ? "bonus" : "after the end", "bonus", current));
    return make("ol", { class: "block", "aria-label": "The block of this step" }, ...cells);
  }

  #cell(token, mark, state, look, current) {
    const classes = ["cell", token ? look : "missing", token === current ? "current" : ""].join(" ");
    return make("li", { class: classes, title: state },
                make("span", { class: "cell-mark", text: mark }),
                make("span", { class: "cell-text", text: token ? visible(token.text) : "✕" }),
                make("span", { class: "unseen", text: state }));
  }

  #place(span) {
    const card = this.#card;
    if (matchMedia("(max-width: 640px)").matches) {  // the style sheet has it at the bottom
      card.style.removeProperty("left");
      card.style.removeProperty("top");
      return;
    }
    const target = span.getClientRects()[0];
    const own = card.getBoundingClientRect();
    const left = Math.max(12, Math.min(target.left + target.width / 2 - own.width / 2, innerWidth - own.width - 12));
    const above = target.top - own.height - 12;
    card.style.left = `${left}px`;
    card.style.top = `${above > 60 ? above : target.bottom + 12}px`;
  }

  #hover(event) {
    if (this.#pinned || event.pointerType === "touch") return;
    const span = event.target.closest(".tok");
    if (span?.token) return this.show(span.closest(".tokens").tokenView, span.token);
    if (!event.target.closest(".tokens")) this.hide();
  }

  #tap(event) {
    const span = event.target.closest(".tok");
    if (!span?.token) return;
    const again = this.#pinned && this.#token === span.token;
    this.#pinned = false;
    if (again) return this.hide();
    this.show(span.closest(".tokens").tokenView, span.token);
    this.#pinned = true;
  }

  #focus(event) {
    const view = event.target.tokenView;
    if (!view || this.#token || !event.target.matches(":focus-visible")) return;
    const first = view.shown()[0];
    if (first) this.show(view, first);
  }

  #key(event) {
    const view = event.target.tokenView;
    if (!view) return;
    const shown = view.shown();
    if (shown.length === 0) return;
    const at = shown.indexOf(this.#token);
    const step = (by) => {  // to the first token of the step before or behind
      const wanted = (this.#token?.step ?? -1) + by;
      return shown.findIndex((token) => token.step === wanted);
    };
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: step(1), ArrowUp: step(-1), Home: 0,
                   End: shown.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    const token = shown[next];
    if (!token) return;
    this.show(view, token);
    token.span.scrollIntoView({ block: "nearest" });
  }
}
