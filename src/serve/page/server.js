// The server's endpoints, and what can go wrong with them in words.

// kind: "unreachable" | "refused" (with a status) | "failed" (in mid-answer) | "broken" (the stream ended too early)
export class ServerError extends Error {
  constructor(kind, message, status = 0) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

let apiKey = "";
export function setApiKey(key) {
  apiKey = key;
}

async function send(path, { method = "GET", body, signal } = {}) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (apiKey) headers.Authorization = `Bearer ${apiKey}`;
  let response;
  try {
    response = await fetch(path, { method, headers, signal, cache: "no-store", body: body && JSON.stringify(body) });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ServerError("unreachable", `No answer from ${location.host}. Is the server running?`);
  }
  if (response.ok) return response;
  let message = "";
  try {
    message = (await response.json()).error.message;
  } catch {
    message = response.statusText || "no reason was given";
  }
  throw new ServerError("refused", message, response.status);
}

// Small answers, which must come soon.
export async function getJson(path) {
  const response = await send(path, { signal: AbortSignal.timeout(10_000) });
  return response.json();
}

export async function abortRequest(rid) {
  await send("/abort_request", { method: "POST", body: { rid } });
}

// The events of a streamed chat answer, parsed. Throws a ServerError; ends after "[DONE]".
export async function* chatEvents(body, signal) {
  const response = await send("/v1/chat/completions", { method: "POST", body, signal });
  const reader = response.body.getReader();
  const decoder = new TextDecoder();  // not a stream of its own, whose queue a breaking connection would drop
  let buffer = "";
  for (;;) {
    let part;
    try {
      part = await reader.read();
    } catch (error) {
      if (signal?.aborted) throw error;
      part = { done: true };
    }
    if (part.done) throw new ServerError("broken", "The connection ended before the answer did.");
    const events = (buffer + decoder.decode(part.value, { stream: true })).split("\n\n");
    buffer = events.pop();
    for (const event of events) {
      const data = event.replace(/^data: /, "");
      if (data === "[DONE]") return;
      const parsed = JSON.parse(data);
      if (parsed.error) throw new ServerError("failed", parsed.error.message);
      yield parsed;
    }
  }
}

// An id that no other request has. (crypto.randomUUID is missing on pages from plain http.)
export function newRequestId() {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `page-${Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("")}`;
}

export function errorTitle(error) {
  if (!(error instanceof ServerError)) return "The page failed";
  if (error.kind === "unreachable") return "The server cannot be reached";
  if (error.kind === "broken" || error.kind === "failed") return "The answer broke off";
  if (error.status === 401) return "The server asks for an API key";
  if (error.status === 503) return "The server cannot take it now";
  return error.status < 500 ? "The server refused the request" : "The server failed";
}
