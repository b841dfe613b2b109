// The Markdown of a certificate as elements, the same that page.py writes. docs/spec/receipt.md §8.
// Text enters as text alone; no markup is ever parsed.

const whole = (pattern) => new RegExp(`^(?:${pattern.source})$`, "u");
const WHOLE_FIELD = whole(_FIELD);
const WHOLE_HEADING = whole(_HEADING);

// Return the page of a verdict in Markdown.
function render(result) {
  const lines = _is_sound(result) ? _page(result) : _refusal(result);
  return [...lines, ..._closing(result)].join("\n") + "\n";
}

// Return the elements of such a page.
function blocks(markdown) {
  const out = [];
  let open = null; // the list or code block that lines are added to
  for (const line of markdown.split("\n")) {
    const tag = tag_of(line, open);
    if (tag !== (open?.localName ?? "")) {
      open = tag ? element(tag) : null;
      if (open) out.push(open);
    }
    const made = elements_of(line, tag);
    if (open) open.append(...made);
    else out.push(...made);
  }
  return out;
}

function tag_of(line, open) {
  const is_code = open?.localName === "pre";
  if (line === "```") return is_code ? "" : "pre";
  if (is_code) return "pre";
  if (WHOLE_FIELD.test(line)) return "dl";
  return line.startsWith("- ") ? "ul" : "";
}

function elements_of(line, tag) {
  if (line === "```" || !line) return [];
  if (tag === "pre") return [`${line}\n`];
  const field = WHOLE_FIELD.exec(line);
  if (field) return [element("dt", ...inline(field[1])), element("dd", ...inline(field[2]))];
  if (tag === "ul") return [element("li", ...inline(line.slice(2)))];
  if (line === "---") return [element("hr")];
  if (line.startsWith("> ")) return [element("blockquote", ...inline(line.slice(2)))];
  const heading = WHOLE_HEADING.exec(line);
  if (heading) return [element(`h${heading[1].length}`, ...inline(heading[2]))];
  return [element("p", ...inline(line))];
}

function inline(text) {
  const out = [];
  let at = 0;
  for (const match of text.matchAll(_INLINE)) {
    out.push(text.slice(at, match.index));
    out.push(match[1] !== undefined ? element("code", match[1]) : element("strong", match[2]));
    at = match.index + match[0].length;
  }
  return [...out, text.slice(at)];
}

function element(tag, ...content) {
  const made = document.createElement(tag);
  made.append(...content);
  return made;
}
