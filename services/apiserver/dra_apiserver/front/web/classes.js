// Which devices each device class selects. Only the server can say; it is asked once a view wants to know, and again when
// slices or classes have changed.

import { effect, signal } from "@preact/signals";
import { request } from "./api.js";
import { informers } from "./cluster.js";

// Slices may change often; the answer for many devices takes a while.
const TOGETHER = 1000;

const wanted = signal(false);
let due;

/** By device the names of the classes that select it; undefined until that is known. */
export const selections = signal(undefined);
/** Why it is not known. */
export const unknown = signal("");

/** Has the server asked, from now on. */
export const wantSelections = () => (wanted.value = true);

/** The classes that select the device, none while that is not known. */
export const classesOf = (device) => selections.value?.get(device.key) ?? [];

effect(() => {
  // Read for their effect.
  informers.slices.version.value;
  informers.classes.version.value;
  if (!wanted.value || due) return;
  due = setTimeout(ask, selections.peek() ? TOGETHER : 0);
});

async function ask() {
  due = undefined;
  try {
    selections.value = byDevice(await request("/insight/classes"));
    unknown.value = "";
  } catch (error) {
    unknown.value = error.message;
  }
}

/** Pure: what the server says, by device. */
export function byDevice({ devices, classes }) {
  const found = new Map(devices.map((key) => [key, []]));
  for (const { name, devices: indices } of classes) for (const index of indices) found.get(devices[index]).push(name);
  return found;
}
