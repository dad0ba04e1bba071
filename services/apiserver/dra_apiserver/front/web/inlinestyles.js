// Lets xterm.js work in a page whose Content-Security-Policy permits no inline styles: style elements become sheets of the
// document, and style attributes are set property by property, which the policy is not about.

const create = Document.prototype.createElement;

/** From now on elements that scripts create are so; Preact, which creates them with a namespace, is left alone. */
export function withoutInlineStyles() {
  document.createElement = (kind, options) => (kind === "style" ? sheet() : element(kind, options));
}

function element(kind, options) {
  const made = create.call(document, kind, options);
  made.setAttribute = (name, value) => {
    if (name === "style") made.style.cssText = value;
    else Element.prototype.setAttribute.call(made, name, value);
  };
  return made;
}

/** An element whose text is a sheet of the document until it is removed. */
function sheet() {
  const made = create.call(document, "template");
  const styles = new CSSStyleSheet();
  document.adoptedStyleSheets.push(styles);
  Object.defineProperty(made, "textContent", { set: (text) => styles.replaceSync(text) });
  made.remove = () => {
    const place = document.adoptedStyleSheets.indexOf(styles);
    if (place >= 0) document.adoptedStyleSheets.splice(place, 1);
    Element.prototype.remove.call(made);
  };
  return made;
}
