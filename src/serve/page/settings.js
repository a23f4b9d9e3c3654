// The settings, kept in this browser (the API key for this tab only).
import { byId } from "./dom.js";
import { setApiKey } from "./server.js";

const STORE = "strobe.settings";
const DEFAULTS = { temperature: "0", top_p: "", max_tokens: "512", seed: "", system: "", stop: "", key: "", remember: false };

function stored(storage, name) {
  try {
    return JSON.parse(storage().getItem(name)) ?? {};
  } catch {
    return {};
  }
}

function store(storage, name, value) {
  try {
    storage().setItem(name, JSON.stringify(value));
  } catch {
    // No storage: they last as long as the page.
  }
}

export class Settings {
  #form = byId("settings-form");
  #dialog = byId("settings");

  constructor(onClose) {
    const session = stored(() => sessionStorage, STORE);
    this.#fill({ ...DEFAULTS, ...stored(() => localStorage, STORE), ...session });
    byId("settings-open").addEventListener("click", () => this.open());
    byId("settings-reset").addEventListener("click", () => this.#fill(DEFAULTS));
    this.#dialog.addEventListener("click", (event) => {
      if (event.target === this.#dialog) this.#dialog.close();  // the backdrop
    });
    this.#dialog.addEventListener("close", () => {
      this.#keep();
      onClose();
    });
    this.#keep();
  }

  open(field) {
    this.#dialog.showModal();
    if (field) this.#form.elements[field].focus();
  }

  get values() {
    const values = {};
    for (const name of Object.keys(DEFAULTS)) {
      const input = this.#form.elements[name];
      values[name] = input.type === "checkbox" ? input.checked : input.value;
    }
    return values;
  }

  // The request's fields. What is no number goes to the server as it stands, which says what it would accept.
  requestFields() {
    const { temperature, top_p, max_tokens, seed, stop } = this.values;
    const fields = {};
    for (const [name, text] of Object.entries({ temperature, top_p, max_tokens, seed })) {
      const trimmed = text.trim();
      if (trimmed !== "") fields[name] = Number.isNaN(Number(trimmed)) ? trimmed : Number(trimmed);
    }
    const stops = stop.split("\n").filter((line) => line !== "");
    if (stops.length > 0) fields.stop = stops;
    return fields;
  }

  #fill(values) {
    for (const name of Object.keys(DEFAULTS)) {
      const input = this.#form.elements[name];
      if (input.type === "checkbox") input.checked = Boolean(values[name]);
      else input.value = values[name];
    }
  }

  #keep() {
    const { key, ...rest } = this.values;
    store(() => localStorage, STORE, rest);
    store(() => sessionStorage, STORE, { key });
    setApiKey(key);
  }
}
