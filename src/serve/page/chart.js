// Charts drawn by hand: lines over the last two minutes, and bars. Numbers beside them are text.
import { digits, make } from "./dom.js";

const WIDTH = 300;
const HEIGHT = 64;
export const POINTS = 120;

// series: [{name, class}]; `format` makes text of a value; `floor`: the least top of the scale.
export class LineChart {
  constructor({ title, series, format = digits, unit = "", floor = 1 }) {
    this.format = format;
    this.unit = unit;
    this.floor = floor;
    this.title = title;
    this.series = series.map((one) => ({
      ...one,
      values: [],
      area: make("path", { svg: true, class: `area ${one.class}` }),
      line: make("path", { svg: true, class: `line ${one.class}` }),
      now: make("span", { class: "value", text: "–" }),
    }));
    this.cursor = make("line", { svg: true, class: "cursor", y1: 0, y2: HEIGHT });
    this.top = make("span", { class: "chart-top" });
    this.note = make("span", { class: "chart-past" });
    this.svg = make("svg", { svg: true, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
                    ...this.series.flatMap((one) => [one.area, one.line]), this.cursor);
    const values = this.series.map((one) =>
      make("span", { class: `reading ${one.class}` }, one.now, make("span", { class: "unit", text: one.name ?? unit })));
    this.element = make("figure", { class: "card", role: "img" },
                        make("figcaption", {}, make("span", { class: "chart-title", text: title }), ...values),
                        make("div", { class: "plot" }, this.svg, this.top, this.note));
    this.svg.addEventListener("pointermove", (event) => this.#point(event));
    this.svg.addEventListener("pointerleave", () => this.#point(null));
    this.cursor.style.display = "none";
  }

  // One value a series; null: nothing was measured.
  push(values) {
    this.series.forEach((one, i) => {
      one.values.push(values[i]);
      if (one.values.length > POINTS) one.values.shift();
    });
    this.#draw();
  }

  #draw() {
    const known = this.series.flatMap((one) => one.values).filter((value) => value !== null);
    const top = Math.max(this.floor, ...known) * 1.08;
    this.top.textContent = known.length > 0 ? this.format(top / 1.08).replace(/\.0+(?=%?$)/, "") : "";
    for (const one of this.series) {
      const { line, area } = path(one.values, top);
      one.line.setAttribute("d", line);
      one.area.setAttribute("d", area);
      const last = one.values.findLast((value) => value !== null);
      one.now.textContent = last === undefined ? "–" : this.format(last);
    }
    const words = this.series.map((one) => `${one.now.textContent} ${one.name ?? this.unit}`.trim());
    this.element.setAttribute("aria-label", `${this.title}: ${words.join(", ")}`);
  }

  #point(event) {
    const length = this.series[0].values.length;
    const box = this.svg.getBoundingClientRect();
    const back = event ? Math.round((1 - (event.clientX - box.left) / box.width) * (POINTS - 1)) : -1;
    const at = length - 1 - back;
    const seen = event && at >= 0 && at < length;
    this.cursor.style.display = seen ? "" : "none";
    if (!seen) {
      this.note.textContent = "";
      return;
    }
    this.cursor.setAttribute("x1", xOf(at, length));
    this.cursor.setAttribute("x2", xOf(at, length));
    const values = this.series.map((one) => `${one.values[at] === null ? "–" : this.format(one.values[at])} ${one.name ?? this.unit}`);
    this.note.textContent = `${values.join(", ").trim()}, ${back} s ago`;
  }
}

function xOf(i, length) {
  return WIDTH - ((length - 1 - i) * WIDTH) / (POINTS - 1);
}

// A gap in the line where there is no value; a lone value is a short dash.
function path(values, top) {
  let line = "";
  let area = "";
  let from = -1;
  values.forEach((value, i) => {
    if (value === null) return;
    const x = xOf(i, values.length).toFixed(1);
    const y = (HEIGHT - (value / top) * HEIGHT).toFixed(1);
    const first = i === 0 || values[i - 1] === null;
    const last = i === values.length - 1 || values[i + 1] === null;
    if (first) from = x;
    line += `${first ? "M" : "L"}${x} ${y}`;
    if (first && last) line += "h-1.5";
    area += `${first ? `M${x} ${HEIGHT}L` : "L"}${x} ${y}`;
    if (last) area += `L${x} ${HEIGHT}L${from} ${HEIGHT}Z`;
  });
  return { line, area };
}

// Shares by draft position.
export class PositionBars {
  constructor(title) {
    this.title = title;
    this.list = make("ol", { class: "bars" });
    this.note = make("span", { class: "chart-note", text: "no block was checked yet" });
    this.element = make("figure", { class: "card wide" }, make("figcaption", {}, make("span", { class: "chart-title", text: title })),
                        this.list, this.note);
  }

  // histogram[a]: checked blocks with exactly a accepted drafts. `shade` gives a position's colour class.
  show(histogram, shade, note) {
    const steps = histogram.reduce((sum, each) => sum + each, 0);
    const drafted = histogram.length - 1;
    while (this.list.childElementCount < drafted) {
      const position = this.list.childElementCount + 1;
      this.list.append(make("li", {}, make("span", { class: "bar-value" }),
                            make("span", { class: "bar-space" }, make("span", { class: `bar ${shade(position, drafted)}` })),
                            make("span", { class: "bar-name", text: String(position) })));
    }
    this.element.hidden = drafted < 1;
    let reached = steps;
    [...this.list.children].forEach((item, i) => {
      reached -= histogram[i];
      const share = steps > 0 ? reached / steps : 0;
      item.querySelector(".bar").style.height = `${share * 100}%`;
      item.querySelector(".bar-value").textContent = steps > 0 ? `${Math.round(share * 100)}%` : "";
    });
    if (steps > 0) this.note.textContent = note;
  }
}
