// make("p", {class: "x", text: "hello", on: {click: f}}, child, ...): an element. Text is always text, never markup.
export function make(tag, { text, on, svg = false, ...attributes } = {}, ...children) {
  const element = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === undefined || value === null) continue;
    element.setAttribute(name, value === true ? "" : value);
  }
  if (text !== undefined) element.textContent = text;
  for (const [type, listener] of Object.entries(on ?? {})) element.addEventListener(type, listener);
  element.append(...children);
  return element;
}

export const byId = (id) => document.getElementById(id);

// Three digits, no more: 1,234; 56.1; 0.52.
export function digits(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 100) return Math.round(value).toLocaleString("en");
  return value.toFixed(size >= 10 ? 1 : 2);
}

export function duration(ms) {
  return ms < 1000 ? `${digits(ms)} ms` : `${digits(ms / 1000)} s`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
