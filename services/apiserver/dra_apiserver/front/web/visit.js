// Objects that only one page needs: followed while it is open, now or at the moment of the past that is shown.

import { useEffect, useMemo, useState } from "preact/hooks";
import { request } from "./api.js";
import { visited } from "./cluster.js";
import { Informer } from "./informer.js";
import { past, untilPast } from "./moments.js";

/** The objects of the paths that the server serves, as `keep` returns them: `{rows, state}`. */
export function useObjects(paths, keep) {
  const informer = useMemo(() => new Informer(paths, keep), [paths.join()]);
  useEffect(() => {
    const controller = new AbortController();
    informer.left = controller.signal;
    visited.add(informer);
    if (past.peek()) informer.at(past.peek().revision, controller.signal).then(() => (informer.state.value = "live"), (error) => (informer.state.value = error.message));
    else informer.run(untilPast());
    return () => {
      visited.delete(informer);
      controller.abort();
    };
  }, [informer]);
  const version = informer.version.value;
  const rows = useMemo(() => [...informer.objects.values()], [informer, version, informer.objects]);
  return { rows, state: informer.state.value };
}

const whole = (object) => object;

/** One object, as the server has it: `{object, state}`. It stays undefined if there is none. */
export function useObject(path) {
  const [folder, name] = [path.slice(0, path.lastIndexOf("/")), path.slice(path.lastIndexOf("/") + 1)];
  const { rows, state } = useObjects([`${folder}?fieldSelector=metadata.name%3D${name}`], whole);
  return { object: rows[0], state };
}

/** Load an answer again when `version` or the moment changes: `[answer, error]`. An empty path is not asked for. */
export function useTable(path, version) {
  const [answer, set] = useState([undefined, undefined]);
  const before = past.value ? `/at/${past.value.revision}` : "";
  useEffect(() => {
    const controller = new AbortController();
    request(`${before}${path}`, { accept: TABLE, signal: controller.signal }).then(
      (found) => set([found, undefined]),
      (error) => controller.signal.aborted || set([undefined, error]),
    );
    return () => controller.abort();
  }, [path, version, before]);
  return answer;
}

const TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io";
