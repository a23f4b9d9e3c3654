// An answer's tokens: what is known of each, and their text on the page.
import { make } from "./dom.js";

export const SHADES = 7;

// "draft": guessed by the draft and accepted; "bonus": the target's own token behind a checked block; "plain": the target's
// own token without a draft.
export function kindOf(token) {
  if (token.position > 0) return "draft";
  return token.drafted > 0 ? "bonus" : "plain";
}

export function markOf(token) {
  const kind = kindOf(token);
  return kind === "draft" ? String(token.position) : kind === "bonus" ? "+" : "·";
}

export function shadeOf(position, drafted) {
  return drafted <= SHADES ? position : Math.ceil((position * SHADES) / drafted);
}

export function classOf(token) {
  const kind = kindOf(token);
  return kind === "draft" ? `tok draft s${shadeOf(token.position, token.drafted)}` : `tok ${kind}`;
}

export class TokenView {
  // `label`: what the text is, for those who cannot see it.
  constructor(label) {
    this.element = make("div", { class: "tokens", tabindex: "0", role: "group",
                                 "aria-label": `${label}. Arrow keys walk through its tokens.` });
    this.element.tokenView = this;
    this.clear();
  }

  clear() {
    this.tokens = [];
    this.element.replaceChildren();
  }

  get text() {
    return this.tokens.map((token) => token.text).join("");
  }

  // The `token_origins` of one event.
  take(origins) {
    origins.tokens.forEach((token, i) => {
      this.tokens[origins.first + i] = { index: origins.first + i, id: token.id, step: token.step,
                                         position: token.block_position, drafted: token.drafted, text: "", span: null };
    });
    for (const piece of origins.pieces) {
      const token = this.tokens[piece.token];
      token.text += piece.text;
      this.#spanOf(token).textContent = token.text;
    }
  }

  // The answer ended; an end token shows no text and gets a sign.
  end(reason) {
    const last = this.tokens.at(-1);
    if (reason !== "stop" || !last || last.span) return;
    this.#spanOf(last).classList.add("end");
    last.span.textContent = "end";
  }

  shown() {
    return this.tokens.filter((token) => token.span);
  }

  ofStep(step) {
    return this.tokens.filter((token) => token.step === step);
  }

  #spanOf(token) {
    if (token.span) return token.span;
    token.span = make("span", { class: classOf(token), "data-mark": markOf(token) });
    token.span.token = token;
    this.element.append(token.span);
    return token.span;
  }
}
