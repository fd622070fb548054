// Elements are made here and nowhere else. What somebody else wrote becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

export function el(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// Writes only what differs: who has selected text, or listens to a screen reader, is not disturbed.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// The children of `parent` become those that `make` has made for each of the keys, in this order; others go. Elements
// stay the same, so that focus stays where it is.
export function arrange(parent, known, keys, make) {
  for (const [key, element] of known) {
    if (!keys.includes(key)) {
      element.remove();
      known.delete(key);
    }
  }
  let next = parent.firstChild;
  for (const key of keys) {
    let element = known.get(key);
    if (!element) known.set(key, (element = make(key)));
    if (element === next) next = next.nextSibling;
    else parent.insertBefore(element, next);
  }
}
