// Requests to the API server that serves this page: one object, all objects of a list in pages, and a watch's events.

// The first page is soon there; larger ones cost fewer requests.
const FIRST_PAGE = 500;
const PAGE = 2500;

/** What the server answered instead of success. `status` is the HTTP status, `reason` that of Kubernetes. */
export class ApiError extends Error {
  constructor(status, reason, message) {
    super(message);
    this.status = status;
    this.reason = reason;
  }
}

/** The answer's JSON; the body is `text`, or `body` as JSON, and `type` is its media type. Throws an ApiError. */
export async function request(path, options) {
  return (await respond(path, options)).json();
}

const YAML = "application/yaml";

/** The answer as YAML, which the server writes and reads: the same as that of the command line. */
export async function requestYaml(path, options) {
  return (await respond(path, { accept: YAML, type: YAML, ...options })).text();
}

async function respond(path, { method = "GET", body, text, signal, accept, type = "application/json" } = {}) {
  const content = text ?? (body === undefined ? undefined : JSON.stringify(body));
  const headers = { ...(accept && { Accept: accept }), ...(content !== undefined && { "Content-Type": type }) };
  const response = await fetch(path, { method, headers, body: content, signal });
  if (!response.ok) throw await refusal(response);
  return response;
}

/** A path with one more part of its query. */
export const withQuery = (path, query) => `${path}${path.includes("?") ? "&" : "?"}${query}`;

/** Calls `found` with the items of each page; gives the list's revision. `accept` asks for another form of the items. */
export async function list(path, found, signal, accept) {
  let more = "";
  for (;;) {
    // For a browser the server would indent what no one reads.
    const query = `pretty=false&limit=${more ? `${PAGE}&continue=${encodeURIComponent(more)}` : FIRST_PAGE}`;
    const page = await request(withQuery(path, query), { signal, accept });
    found(page.items);
    more = page.metadata.continue;
    if (!more) return page.metadata.resourceVersion;
  }
}

/**
 * Calls `event` for each event after the revision until the server ends the watch. Throws an ApiError.
 *
 * A browser opens six connections to one server for all its pages together, but hundreds of WebSockets.
 */
export async function watch(path, revision, event, signal) {
  const full = withQuery(path, `watch=true&allowWatchBookmarks=true&resourceVersion=${revision}`);
  const take = (text) => {
    const one = JSON.parse(text);
    if (one.type === "ERROR") throw new ApiError(one.object.code, one.object.reason, one.object.message);
    event(one);
  };
  if (await messages(full, take, signal)) return;
  for await (const line of lines(full, signal)) take(line);
}

/** Calls `take` for each message until the socket closes; false where the server takes no WebSocket. */
function messages(path, take, signal) {
  const url = new URL(path, location.href);
  url.protocol = url.protocol.replace("http", "ws");
  return new Promise((done, fail) => {
    const socket = new WebSocket(url);
    let opened = false;
    const stop = () => socket.close();
    signal?.addEventListener("abort", stop, { once: true });
    socket.onopen = () => (opened = true);
    socket.onmessage = ({ data }) => {
      try {
        take(data);
      } catch (error) {
        fail(error);
        socket.close();
      }
    };
    socket.onclose = () => {
      signal?.removeEventListener("abort", stop);
      done(opened);
    };
  });
}

/** The lines of an answer, as they come. */
export async function* lines(path, signal) {
  let rest = "";
  for await (const piece of pieces(path, signal)) {
    const parts = (rest + piece).split("\n");
    rest = parts.pop();
    yield* parts;
  }
  if (rest) yield rest;
}

/** The text of an answer, in pieces as they come. */
export async function* pieces(path, signal) {
  const response = await fetch(path, { signal });
  if (!response.ok) throw await refusal(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield value;
  }
}

async function refusal(response) {
  const text = await response.text();
  try {
    const status = JSON.parse(text);
    return new ApiError(response.status, status.reason ?? "", status.message ?? status.detail ?? text);
  } catch {
    return new ApiError(response.status, "", text.trim() || response.statusText);
  }
}
