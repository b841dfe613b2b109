// Signed values on their way to paper: typed access, and one inert spelling. docs/spec/receipt.md §8.
// The names are those of fields.py; what reads them is made from statements.py and certificate.py.

// The signed body does not carry what its certificate would state; the message names only our fields.
class Unfit extends Error {}

class Fields {
  constructor(body) {
    this.body = body;
  }

  text(name) {
    return shown(this.string(name));
  }

  choice(name, allowed) {
    const value = this.string(name);
    if (!allowed.includes(value)) throw new Unfit(`${name} has no value this schema knows`);
    return value;
  }

  count(name) {
    const value = this.body.get(name);
    if (!Number.isSafeInteger(value) || value < 0) throw new Unfit(`${name} is not a count`);
    return value;
  }

  flag(name) {
    const value = this.body.get(name);
    if (typeof value !== "boolean") throw new Unfit(`${name} is neither true nor false`);
    return value;
  }

  moment(name) {
    return utc(this.count(name));
  }

  has(name) {
    return (this.body.get(name) ?? null) !== null;
  }

  starts(name, prefix) {
    const value = this.body.get(name);
    return typeof value === "string" && value.startsWith(prefix);
  }

  is_word(name, word) {
    return this.body.get(name) === word;
  }

  listing() {
    const lines = [];
    for (const name of in_order(this.body)) {
      const value = this.body.get(name);
      if (value instanceof Map && value.size) {
        for (const part of in_order(value)) lines.push(listed(`${name}.${part}`, value.get(part)));
      } else {
        lines.push(listed(name, value));
      }
    }
    return lines;
  }

  string(name) {
    const value = this.body.get(name);
    if (typeof value !== "string" || !value) throw new Unfit(`${name} is not a text`);
    return value;
  }
}

// Return a Map's names in the order of their code points, as Python sorts.
function in_order(members) {
  const points = (name) => Array.from(name, (char) => char.codePointAt(0));
  const sorted = Array.from(members.keys(), (name) => [name, points(name)]).sort(([, a], [, b]) => {
    const at = a.findIndex((point, index) => point !== b[index]);
    return at < 0 ? a.length - b.length : a[at] - (b[at] ?? -1);
  });
  return sorted.map(([name]) => name);
}

function listed(name, value) {
  const is_time = name.endsWith("_at") && Number.isSafeInteger(value) && value >= 0 && value <= _LAST_SECOND;
  return `- ${shown(name)}: ${shown(value)}` + (is_time ? ` (${utc(value)})` : "");
}

// Return any signed value as a code span that can neither end early nor mean anything.
function shown(value) {
  if (typeof value === "string") return `\`${inert(value)}\``;
  if (Array.isArray(value)) {
    const is_flat = !value.some((item) => Array.isArray(item) || item instanceof Map);
    if (value.length && value.length <= _LONGEST_LIST && is_flat) return value.map(shown).join(", ");
    return `${value.length} item(s)`;
  }
  if (value instanceof Map) return `${value.size} member(s)`;
  return `\`${canonical(value)}\``;
}

function inert(text) {
  if (!text) return "(empty)";
  const chars = Array.from(text); // code points
  const more = chars.length > _LONGEST_SHOWN ? ` ...(${chars.length} characters)` : "";
  return chars.slice(0, _LONGEST_SHOWN).map((char) => char.replace(_NOT_PLAIN, escape_of)).join("") + more;
}

function escape_of(char) {
  const code = char.codePointAt(0);
  return code <= 0xffff
    ? `\\u${code.toString(16).padStart(4, "0")}`
    : `\\U${code.toString(16).padStart(8, "0")}`;
}

function utc(second) {
  if (second > _LAST_SECOND) return `epoch second ${second}`;
  return new Date(second * 1000).toISOString().replace("T", " ").replace(".000Z", " UTC");
}

class Statement {
  constructor(title, sentences, warnings = []) {
    Object.assign(this, { title, sentences, warnings });
  }
}

// The page says the hash it has compared.
const _hash_of = (result) => result.receipt_hash;
