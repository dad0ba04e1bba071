// Keeps all objects of one resource: listed, then watched. Mirrors client-go's reflector: a watch that ends goes on from
// the last revision seen; one whose revision is gone lists again.

import { signal } from "@preact/signals";
import { list, watch } from "./api.js";

const SOONEST = 500;
const LATEST = 10_000;
// How long changes are gathered before views hear of them, in milliseconds: the first after a rest, and those that follow.
const SOON = 10;
const TOGETHER = 60;

/** What it took lately to make a view of all objects, in milliseconds: where that is long, views are made less often. */
export const pace = { cost: 0, made: -Infinity };

export class Informer {
  /** `keep` makes of an object what is kept of it; of `paths` the first that the server serves is taken. */
  constructor(paths, keep) {
    this.paths = [...paths];
    this.keep = keep;
    this.objects = new Map();
    /** Counts the changes; views that read it are drawn again. */
    this.version = signal(0);
    /** "loading", "live", or what keeps it from being so. */
    this.state = signal("loading");
    this.due = false;
  }

  /** Runs until the signal aborts. */
  async run(aborted) {
    let delay = SOONEST;
    let revision = "";
    while (!aborted.aborted) {
      try {
        if (!revision) revision = await this.relist(aborted);
        this.state.value = "live";
        const from = revision;
        await watch(this.paths[0], revision, (event) => aborted.aborted || (revision = this.apply(event)), aborted);
        // A watch that ends at once, without an event, is no reason to ask without end.
        if (from === revision) await pause(SOONEST);
        delay = SOONEST;
      } catch (error) {
        if (aborted.aborted) return;
        if (error.status === 410) {
          revision = "";
          continue;
        }
        if (error.status === 404) {
          // Another Kubernetes version serves it elsewhere, or not at all.
          this.paths.shift();
          if (this.paths.length) continue;
          this.state.value = "live";
          return;
        }
        this.state.value = error.status ? `${error.status} ${error.message}` : "the server does not answer";
        await pause(delay);
        delay = Math.min(delay * 2, LATEST);
      }
    }
  }

  /** Shows the objects of a past revision, without following them. */
  async at(revision, aborted) {
    await this.relist(aborted, `/at/${revision}`);
  }

  async relist(aborted, before = "") {
    const found = new Map();
    const revision = await list(
      before + this.paths[0],
      (items) => {
        for (const item of items) this.put(found, item);
        // The first objects are shown while the rest is on its way; to draw each page anew would take longer than to wait.
        if (!aborted.aborted && !this.objects.size) this.replace(found);
      },
      aborted,
    );
    // Another moment may have been chosen meanwhile.
    if (!aborted.aborted) this.replace(found);
    return revision;
  }

  replace(found) {
    this.objects = found;
    this.notify();
  }

  put(objects, item) {
    objects.set(key(item), this.keep(item));
  }

  apply({ type, object }) {
    if (type === "DELETED") this.objects.delete(key(object));
    else if (type !== "BOOKMARK") this.put(this.objects, object);
    if (type !== "BOOKMARK") this.notify();
    return object.metadata.resourceVersion;
  }

  notify() {
    if (this.due) return;
    this.due = true;
    setTimeout(() => {
      this.due = false;
      this.version.value += 1;
    }, Math.max(SOON, pace.made + Math.max(TOGETHER, 2 * pace.cost) - performance.now()));
  }
}

/** An object's key: `namespace/name`, or the name. */
export function key({ metadata }) {
  return metadata.namespace ? `${metadata.namespace}/${metadata.name}` : metadata.name;
}

const pause = (time) => new Promise((done) => setTimeout(done, time));
