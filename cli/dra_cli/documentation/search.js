// Lists the pages that have all words of the query, those with a word in the title first.
const query = new URLSearchParams(location.search).get("q") || "";
const words = query.toLowerCase().split(/\s+/).filter(Boolean);
const has = (text, word) => text.toLowerCase().includes(word);
const score = page => words.filter(word => has(page.title, word)).length;
const found = words.length ? pages.filter(page => words.every(word => has(page.title + page.text, word))) : [];
found.sort((a, b) => score(b) - score(a));
const list = document.getElementById("found");
document.querySelector("input[name=q]").value = query;
for (const page of found) {
  const link = Object.assign(document.createElement("a"), { href: page.address, textContent: page.title });
  const line = page.text.split("\n").find(one => has(one, words[0])) || "";
  const item = document.createElement("p");
  item.append(link, document.createElement("br"), line.slice(0, 200));
  list.append(item);
}
if (!found.length) list.textContent = `No page has ${query}.`;
