// A component's question to the server.

import { useEffect, useState } from "preact/hooks";
import { request } from "./api.js";

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
