// Before the page is drawn: the theme that was chosen here last. Without a choice the system's applies.
"use strict";
try {
  const chosen = localStorage.getItem("strobe.theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // No storage: the system's theme.
}
