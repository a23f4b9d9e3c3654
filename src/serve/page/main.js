// The page's buttons.
import { Chat } from "./chat.js";
import { Detail } from "./detail.js";
import { byId, make } from "./dom.js";
import { Live } from "./live.js";
import { Settings } from "./settings.js";

const EXAMPLES = [
  ["Ages", "Priya is 19 years old now. Erik is 9 years older than Priya. What was Erik's age 3 years ago?"],
  ["Money", "Julie has $140. She spends $21 on a raincoat, $44 on a coat and $45 on a tie. How much money does she have left?"],
  ["Travel", "Betty and Todd start at the same place and go in opposite directions. Betty goes 40 miles an hour and Todd goes 26 miles an hour. How far apart are they after 5 hours, in miles?"],
  ["Counting", "Kavya has a white bicycle. She collects 25 pins on the first day. Each day after that, she collects 8 more pins than on the day before. How many pins is that in total after 3 days?"],
];
const THEMES = { system: "Auto", light: "Light", dark: "Dark" };

const live = new Live();
const settings = new Settings(() => live.again());
const question = byId("question");
const chat = new Chat(settings, (busy) => {
  byId("send").hidden = busy;
  byId("stop").hidden = !busy;
  for (const id of ["compare", "fresh"]) byId(id).disabled = busy;
  for (const button of byId("examples").querySelectorAll("button")) button.disabled = busy;
});
new Detail(byId("log"));

function speculative() {
  return byId("dflash").getAttribute("aria-checked") === "true";
}

// The question in the box, or the last one when the box is empty: comparing needs no typing twice.
let last = "";
function takeQuestion() {
  const text = question.value.trim() || last;
  if (text === "" || chat.busy) return "";
  last = text;
  question.value = "";
  fitBox();
  return text;
}

function fitBox() {
  question.style.height = "auto";
  question.style.height = `${Math.min(question.scrollHeight, innerHeight / 3)}px`;
}

byId("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (question.value.trim() === "") return question.focus();
  const text = takeQuestion();
  if (text) chat.ask(text, speculative());
});
byId("compare").addEventListener("click", () => {
  const text = takeQuestion();
  if (text) chat.compare(text);
  else question.focus();
});
byId("stop").addEventListener("click", () => {
  chat.stop();
  question.focus();
});
byId("fresh").addEventListener("click", () => {
  chat.forget();
  question.focus();
});
byId("dflash").addEventListener("click", () => byId("dflash").setAttribute("aria-checked", String(!speculative())));
question.addEventListener("input", fitBox);
question.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  byId("ask").requestSubmit();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chat.busy && !byId("settings").open) chat.stop();
});

for (const [name, text] of EXAMPLES) {
  const ask = () => {
    question.value = text;
    byId("ask").requestSubmit();
  };
  byId("examples").append(make("li", {}, make("button", { type: "button", on: { click: ask } }, make("strong", { text: name }),
                                              make("span", { text }))));
}

byId("numbers").addEventListener("change", (event) => document.body.classList.toggle("numbers", event.target.checked));

function showLive(shown) {
  document.body.classList.toggle("live-shown", shown);
  byId("live-toggle").setAttribute("aria-expanded", String(shown));
}
byId("live-toggle").addEventListener("click", () => {
  showLive(!document.body.classList.contains("live-shown"));
  if (document.body.classList.contains("live-shown")) byId("live-close").focus();
});
byId("live-close").addEventListener("click", () => {
  showLive(false);
  byId("live-toggle").focus();
});

function showTheme() {
  const theme = document.documentElement.dataset.theme ?? "system";
  byId("theme-name").textContent = THEMES[theme];
  byId("theme").setAttribute("aria-label", `Theme: ${THEMES[theme]}`);
}
byId("theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme ?? "system") + 1) % names.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("strobe.theme", next);
  } catch {
    // No storage: it lasts as long as the page.
  }
  showTheme();
});

showTheme();
live.start();
