// What would keep people out who listen, or who have no mouse. -> one line for each fault
() => {
  const found = [];
  const say = (what, element) => found.push(`${what}: ${element.outerHTML.slice(0, 120)}`);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = (element) => element.checkVisibility();
  const name = (element) => (element.getAttribute("aria-label") ?? "").trim()
    || (element.getAttribute("aria-labelledby") ?? "").split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join("")
    || [...(element.labels ?? [])].map((label) => label.textContent).join("").trim()
    || (["INPUT", "SELECT", "TEXTAREA"].includes(element.tagName) ? "" : element.textContent.trim());
  for (const each of all("a, button, input, select, textarea, [tabindex], [role=meter], [role=img], [role=tablist], [role=log], nav"))
    if (shown(each) && each.tagName !== "MAIN" && !/^H[1-6]$/.test(each.tagName) && !name(each)) say("no name", each);
  for (const each of all("img")) if (!each.hasAttribute("alt")) say("no alt", each);
  for (const each of all("svg")) if (!["img", "presentation"].includes(each.getAttribute("role"))) say("no role", each);
  for (const each of all("[tabindex]")) if (each.tabIndex > 0) say("its own order", each);
  const ids = all("[id]").map((each) => each.id);
  for (const each of all("[id]")) if (ids.filter((id) => id === each.id).length > 1) say("id twice", each);
  for (const attribute of ["aria-controls", "aria-labelledby", "for"])
    for (const each of all(`[${attribute}]`))
      for (const id of each.getAttribute(attribute).split(" ")) if (!document.getElementById(id)) say(`${attribute} of nothing`, each);
  if (document.documentElement.lang !== "en") found.push("no language");
  for (const landmark of ["main", "header", "nav"]) if (all(landmark).length !== 1) found.push(`not one ${landmark}`);
  const levels = all("h1, h2, h3").filter(shown).map((each) => Number(each.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1 || levels[0] !== 1) found.push(`headings: ${levels}`);
  levels.forEach((level, at) => at && level > levels[at - 1] + 1 && found.push(`a heading is left out: ${levels}`));
  for (const each of all("th")) if (!each.scope) say("a header of nothing", each);
  for (const each of all("[aria-live=assertive]")) say("it interrupts", each);
  return found;
}
