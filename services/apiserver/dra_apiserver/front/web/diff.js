// Two texts compared line by line. Pure.

const MOST = 4_000_000;
const NEAR = 3;

/** `[{kind, line}]` with kind "same", "old" or "new". */
export function lineDiff(before, after) {
  const [a, b] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1;
  const [old, fresh] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const same = (line) => ({ kind: "same", line });
  return [...a.slice(0, start).map(same), ...middle(old, fresh), ...a.slice(a.length - end).map(same)];
}

/** By the longest common subsequence; texts that would take too long are replaced as a whole. */
function middle(a, b) {
  const all = (lines, kind) => lines.map((line) => ({ kind, line }));
  if (a.length * b.length > MOST) return [...all(a, "old"), ...all(b, "new")];
  const width = b.length + 1;
  const longest = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      longest[i * width + j] = a[i] === b[j] ? longest[(i + 1) * width + j + 1] + 1 : Math.max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push({ kind: "same", line: a[i] });
      i += 1;
      j += 1;
    } else if (j >= b.length || (i < a.length && longest[(i + 1) * width + j] >= longest[i * width + j + 1])) {
      found.push({ kind: "old", line: a[i] });
      i += 1;
    } else {
      found.push({ kind: "new", line: b[j] });
      j += 1;
    }
  }
  return found;
}

/** The changed lines with a few around them; `null` stands where lines are left out. */
export function hunks(lines) {
  const near = lines.map((_, index) => lines.slice(Math.max(0, index - NEAR), index + NEAR + 1).some(({ kind }) => kind !== "same"));
  return lines.flatMap((line, index) => (near[index] ? [line] : near[index - 1] || index === 0 ? [null] : []));
}
