// What can follow at the cursor of a selector: fields of a device, and the drivers, attributes and capacities that
// devices of this cluster have. Pure.

const FIELDS = ["device.driver", "device.attributes", "device.capacity", "device.allowMultipleAllocations"];
const WORD = /[\w.[\]"/-]*$/;
const DOMAIN = /^device\.(attributes|capacity)\["([^"]*)$/;
const NAME = /^device\.(attributes|capacity)\["([^"]+)"\]\.([\w-]*)$/;

/** `{from, options}`: the options replace the text from `from` to the cursor; `known` is `vocabulary()`. */
export function complete(text, cursor, known) {
  // In a manifest an expression may stand in quotes.
  const word = WORD.exec(text.slice(0, cursor))[0].replace(/^"+/, "");
  const from = cursor - word.length;
  const domain = DOMAIN.exec(word);
  const name = NAME.exec(word);
  let options = FIELDS.map((field) => ({ text: field, note: "" }));
  if (domain) {
    options = [...known[domain[1]].keys()].map((one) => ({ text: `device.${domain[1]}["${one}"].`, note: "" }));
  } else if (name) {
    const names = known[name[1]].get(name[2]) ?? new Map();
    options = [...names].map(([one, values]) => option(name[1], name[2], one, values));
  } else if (word === "device.attributes" || word === "device.capacity") {
    options = [{ text: `${word}["`, note: "" }];
  }
  const found = options.filter((one) => one.text.startsWith(word) && one.text !== word);
  return { from, options: word ? found.slice(0, 12) : [] };
}

const CLASS = /deviceClassName:\s*["']?([\w.-]*)$/;
const ATTRIBUTE = /(?:match|distinct)Attribute:\s*["']?([\w./-]*)$/;

/** The same in a claim's manifest, where names of classes and attributes complete too. */
export function completeClaim(text, cursor, known, classes) {
  const before = text.slice(0, cursor);
  const named = CLASS.exec(before);
  const constrained = ATTRIBUTE.exec(before);
  if (!named && !constrained) return complete(text, cursor, known);
  const word = (named ?? constrained)[1];
  const qualified = [...known.attributes].flatMap(([domain, names]) => [...names].map(([name, values]) => ({ text: `${domain}/${name}`, note: [...values].slice(0, 3).join(", ") })));
  const options = named ? classes.map((name) => ({ text: name, note: "" })) : qualified;
  const found = options.filter((one) => one.text.startsWith(word) && one.text !== word);
  return { from: cursor - word.length, options: found.slice(0, 12) };
}

function option(field, domain, name, values) {
  const text = `device.${field}["${domain}"].${name}`;
  return { text, note: [...values].slice(0, 3).join(", ") };
}

/** `{attributes, capacity}`: by domain and name, the values that devices have. */
export function vocabulary(slices) {
  const known = { attributes: new Map(), capacity: new Map() };
  for (const { driver, devices } of slices) {
    for (const device of devices ?? []) {
      for (const [name, value] of Object.entries(device.attributes ?? {})) {
        add(known.attributes, driver, name, literal(Object.values(value)[0]));
      }
      for (const [name, { value }] of Object.entries(device.capacity ?? {})) add(known.capacity, driver, name, value);
    }
  }
  return known;
}

function add(names, driver, qualified, value) {
  const slash = qualified.indexOf("/");
  const [domain, name] = slash < 0 ? [driver, qualified] : [qualified.slice(0, slash), qualified.slice(slash + 1)];
  if (!names.has(domain)) names.set(domain, new Map());
  if (!names.get(domain).has(name)) names.get(domain).set(name, new Set());
  const values = names.get(domain).get(name);
  if (values.size < 20) values.add(value);
}

const literal = (value) => (typeof value === "string" ? JSON.stringify(value) : String(value));
