// Any JSON object, or list of objects, as a list of names and values, for people.
import { digits, make } from "./dom.js";

const BYTES = ["B", "KiB", "MiB", "GiB", "TiB"];

function bytes(value) {
  const power = value < 1 ? 0 : Math.min(BYTES.length - 1, Math.floor(Math.log2(value) / 10));
  return power === 0 ? `${value} B` : `${digits(value / 1024 ** power)} ${BYTES[power]}`;
}

// `unit`: of numbers with a fraction, where the name does not tell it.
function scalar(name, value, unit) {
  if (typeof value === "number") {
    if (/(^|_)bytes($|_)/.test(name)) return bytes(value);
    const tail = unit && !/capacity|tokens|requests|pages/.test(name) ? ` ${unit}` : "";
    return (Number.isInteger(value) ? value.toLocaleString("en") : digits(value)) + tail;
  }
  return value === null ? "none" : String(value);
}

function valueOf(name, value, unit) {
  if (value === null || typeof value !== "object") return make("dd", { text: scalar(name, value, unit) });
  if (Array.isArray(value) && value.every((each) => each === null || typeof each !== "object")) {
    return make("dd", { text: value.map((each) => scalar(name, each, unit)).join(", ") || "none" });
  }
  return make("dd", {}, facts(value, unit));
}

// An object of a list: its name, its numbers beside it, its other values below.
function listed(object, unit) {
  const entries = Object.entries(object);
  const title = entries.find(([name]) => /^(what|name|title)$/.test(name)) ?? entries.find(([, value]) => typeof value === "string")
    ?? entries[0];
  const texts = (numbers) => entries.filter((entry) => entry !== title && (typeof entry[1] === "number") === numbers)
    .map(([name, value]) => (value !== null && typeof value === "object" ? JSON.stringify(value) : scalar(name, value, unit)))
    .filter((text) => text !== "");
  return make("div", { class: "row" }, make("dt", { text: String(title?.[1] ?? "") }), make("dd", { text: texts(true).join(", ") }),
              ...texts(false).map((text) => make("dd", { class: "below", text })));
}

export function facts(object, unit = "") {
  if (Array.isArray(object)) return make("dl", {}, ...object.map((each) => listed(each, unit)));
  if ("value" in object && "reason" in object && Object.keys(object).length === 2) {
    return make("div", { class: "decision" }, make("span", { text: scalar("", object.value, unit) }),
                make("small", { text: object.reason }));
  }
  const list = make("dl");
  for (const [name, value] of Object.entries(object)) {
    const nested = value !== null && typeof value === "object";
    const label = name.replace(/_bytes$/, "").replace(/[_-]+/g, " ");
    list.append(make("div", { class: nested ? "row nested" : "row" }, make("dt", { text: label }), valueOf(name, value, unit)));
  }
  return list;
}
