// A component's question to the server.

import { useEffect, useState } from "preact/hooks";
import { request } from "./api.js";
import { past, range } from "./moments.js";
import { sinceCreated } from "./written.js";

const MOST_CHANGES = 1000;

/** Loads a path again when `version` changes: `[answer, error]`; an empty path is not asked for. */
export function useAnswer(path, version) {
  const [answer, set] = useState([undefined, undefined]);
  useEffect(() => {
    if (!path) return undefined;
    const controller = new AbortController();
    request(path, { signal: controller.signal })
      .then((found) => set([found, undefined]))
      .catch((error) => controller.signal.aborted || set([undefined, error]));
    return () => controller.abort();
  }, [path, version]);
  return answer;
}

/** The changes of the object at an API path since it was created, the oldest first; none where the server remembers none. */
export function useChanges(path, version) {
  const to = past.value ? `&to=${past.value.revision}` : "";
  const [answer] = useAnswer(path && range.value ? `/history${path}?limit=${MOST_CHANGES}&pretty=false${to}` : "", version);
  return sinceCreated(answer?.items ?? []);
}
