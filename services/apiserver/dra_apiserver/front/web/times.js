// Times as people read them.

/** How long something took or is ago: "340 ms", "12 s", "3 min 20 s", "4 h 5 min", "3 d". */
export function duration(milliseconds) {
  const seconds = Math.max(0, milliseconds) / 1000;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 100) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 100) return `${minutes} min ${Math.round(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 100 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d`;
}

export const since = (time, now = Date.now()) => duration(now - Date.parse(time));
