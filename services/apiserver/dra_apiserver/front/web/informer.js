// Keeps all objects of one resource: listed, then watched. Mirrors client-go's reflector: a watch that ends goes on from
// the last revision seen; one whose revision is gone lists again.

import { signal } from "@preact/signals";
import { list, request, watch } from "./api.js";

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
    /** The revision that the objects are of; empty while there are none. */
    this.revision = "";
    /** Counts the changes; views that read it are drawn again. */
    this.version = signal(0);
    /** "loading", "live", or what keeps it from being so. */
    this.state = signal("loading");
    this.due = false;
    /** Aborted when its page is left; never for one that all pages share. */
    this.left = undefined;
  }

  /** Runs until the signal aborts; goes on from what is shown, where there is something. */
  async run(shared) {
    const aborted = this.left ? AbortSignal.any([shared, this.left]) : shared;
    let delay = SOONEST;
    while (!aborted.aborted) {
      try {
        if (!this.revision) await this.relist(aborted);
        if (aborted.aborted) return;
        this.state.value = "live";
        if (!this.paths.length) return;
        const from = this.revision;
        await watch(this.paths[0], from, (event) => aborted.aborted || this.apply(event), aborted);
        // A watch that ends at once, without an event, is no reason to ask without end.
        if (from === this.revision) await pause(SOONEST);
        delay = SOONEST;
      } catch (error) {
        if (aborted.aborted) return;
        if (error.status === 410) {
          this.revision = "";
          continue;
        }
        this.state.value = error.status ? `${error.status} ${error.message}` : "the server does not answer";
        await pause(delay);
        delay = Math.min(delay * 2, LATEST);
      }
    }
  }

  /** Shows the objects of another revision, without following them: what differs from those that are shown, or all. */
  async at(revision, aborted) {
    if (!this.revision || !(await this.change(revision, aborted))) await this.relist(aborted, `/at/${revision}`);
  }

  /** Applies what differs between the revision that is shown and another, earlier or later; false where that is not kept. */
  async change(revision, aborted) {
    if (revision === this.revision || !this.paths.length) return true;
    // History knows no selectors.
    if (this.paths[0].includes("?")) return false;
    const query = `net=true&objects=true&changes=false&pretty=false&from=${this.revision}&to=${revision}`;
    try {
      const { items } = await request(`/history${this.paths[0]}?${query}`, { signal: aborted });
      for (const item of items) this.apply(item);
      this.revision = revision;
      return true;
    } catch (error) {
      if (error.status === 410) return false;
      throw error;
    }
  }

  /** Lists all objects; of `paths` those that the server does not serve are dropped. */
  async relist(aborted, before = "") {
    const found = new Map();
    const take = (items) => {
      for (const item of items) this.put(found, item);
      // The first objects are shown while the rest is on its way; to draw each page anew would take longer than to wait.
      if (!aborted.aborted && !this.objects.size) this.replace(found);
    };
    while (this.paths.length) {
      try {
        const revision = await list(before + this.paths[0], take, aborted);
        // Another moment may have been chosen meanwhile.
        if (aborted.aborted) return;
        this.replace(found);
        this.revision = revision;
        return;
      } catch (error) {
        // Another Kubernetes version serves it elsewhere, or not at all.
        if (error.status !== 404) throw error;
        this.paths.shift();
      }
    }
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
    this.revision = object.metadata.resourceVersion;
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
