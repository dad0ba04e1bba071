// When an object's fields were written, to the millisecond, where the server remembers it: Kubernetes' own timestamps are seconds. Pure.

/** The changes since an object was created: of one that was made again under its name, those of the last one. */
export function sinceCreated(changes) {
  const created = changes.findLastIndex((one) => one.type === "ADDED");
  return changes.slice(Math.max(0, created));
}

/** The time of the first change after which the field's value is `wanted(value)`; also where what it stands in was written as a whole. */
export function firstWritten(changes, path, wanted = (value) => value !== undefined) {
  for (const { time, changes: fields } of changes) {
    for (const field of fields ?? []) if (wanted(valueAt(field, path))) return time;
  }
  return undefined;
}

/** When the object was created. */
export const createdAt = ([first]) => (first?.type === "ADDED" ? first.time : undefined);

/** What a changed field says of a path in or above it: of `.status` with `{phase: "Running"}` for `.status.phase` "Running". */
function valueAt(field, path) {
  if (field.path === path) return field.new;
  if (!path.startsWith(`${field.path}.`)) return undefined;
  const names = path.slice(field.path.length + 1).split(".");
  return names.reduce((value, name) => value?.[name], field.new);
}
