// The strict door for JSON text: what cannot be a receipt is refused here. docs/spec/receipt.md §4.
// An object becomes a Map, so that no name can mean anything to JavaScript.

// The input cannot be read as a receipt; the message is one of a few fixed sentences.
class Malformed extends Error {}

const WHITE_SPACE = /[ \t\n\r]*/y;
const NUMBER = /-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const FOUR_HEX = /[0-9a-fA-F]{4}/y;
const ESCAPES = new Map([
  ['"', '"'], ["\\", "\\"], ["/", "/"], ["b", "\b"], ["f", "\f"], ["n", "\n"], ["r", "\r"], ["t", "\t"],
]);
const WORDS = new Map([["true", true], ["false", false], ["null", null]]);

// Return the text that bytes spell, or that was pasted.
function decode(given) {
  if (given.length > MAX_BYTES) throw too_large();
  if (typeof given === "string") {
    if (!given.isWellFormed()) throw new Malformed("a lone surrogate");
    if (new TextEncoder().encode(given).length > MAX_BYTES) throw too_large();
    return given;
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(given);
  } catch {
    throw new Malformed("not UTF-8");
  }
}

// Return the value of a JSON text.
function parse(text) {
  const reader = new Reader(text);
  const value = reader.value(0);
  reader.take(WHITE_SPACE);
  if (reader.at < text.length) throw not_json();
  if (reader.lone) throw new Malformed("a lone surrogate");
  return value;
}

class Reader {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.lone = false; // an escape has left half a pair in a string
  }

  value(depth) {
    this.take(WHITE_SPACE);
    const first = this.text[this.at];
    if (first === "{") return this.object(this.deeper(depth));
    if (first === "[") return this.array(this.deeper(depth));
    if (first === '"') return this.string();
    for (const [word, meaning] of WORDS) {
      if (this.text.startsWith(word, this.at)) {
        this.at += word.length;
        return meaning;
      }
    }
    return this.number();
  }

  object(depth) {
    const members = new Map();
    let count = 0;
    if (!this.opens("}")) {
      do {
        this.take(WHITE_SPACE);
        if (this.text[this.at] !== '"') throw not_json();
        const name = this.string();
        this.require(":");
        members.set(name, this.value(depth));
        count += 1;
      } while (this.goes_on("}"));
    }
    if (members.size !== count) throw new Malformed("a duplicate name"); // RFC 7493 §2.3
    return members;
  }

  array(depth) {
    const items = [];
    if (!this.opens("]")) {
      do items.push(this.value(depth)); while (this.goes_on("]"));
    }
    return items;
  }

  string() {
    this.at += 1;
    let out = "";
    let escaped = false;
    for (;;) {
      out += this.take(PLAIN);
      const end = this.text[this.at];
      this.at += 1;
      if (end === '"') break;
      if (end !== "\\") throw not_json();
      out += this.escape();
      escaped = true;
    }
    if (escaped && !out.isWellFormed()) this.lone = true;
    return out;
  }

  escape() {
    const letter = this.text[this.at];
    this.at += 1;
    if (letter === "u") {
      const digits = this.take(FOUR_HEX);
      if (!digits) throw not_json();
      return String.fromCharCode(parseInt(digits, 16));
    }
    if (!ESCAPES.has(letter)) throw not_json();
    return ESCAPES.get(letter);
  }

  number() {
    NUMBER.lastIndex = this.at;
    const match = NUMBER.exec(this.text);
    if (!match) throw not_json(); // NaN and Infinity too: RFC 8259 does not know them
    this.at += match[0].length;
    const value = Number(match[0]);
    const is_integer = match[1] === undefined && match[2] === undefined;
    if (!is_integer && !Number.isFinite(value)) throw new Malformed("a number that is not finite");
    const magnitude = Math.abs(value);
    if (magnitude > Number.MAX_SAFE_INTEGER && (is_integer || magnitude < _EXPONENT_FORM)) {
      throw new Malformed("an integer beyond 2^53-1"); // RFC 7493 §2.2
    }
    return value;
  }

  deeper(depth) {
    if (depth === MAX_DEPTH) throw new Malformed(`nested deeper than ${MAX_DEPTH} levels`);
    this.at += 1;
    return depth + 1;
  }

  // Tell whether a container that was opened is closed at once.
  opens(closing) {
    this.take(WHITE_SPACE);
    if (this.text[this.at] !== closing) return false;
    this.at += 1;
    return true;
  }

  // Tell whether another member follows; step over the comma or the end.
  goes_on(closing) {
    this.take(WHITE_SPACE);
    const next = this.text[this.at];
    if (next !== "," && next !== closing) throw not_json();
    this.at += 1;
    return next === ",";
  }

  require(letter) {
    this.take(WHITE_SPACE);
    if (this.text[this.at] !== letter) throw not_json();
    this.at += 1;
  }

  take(pattern) {
    pattern.lastIndex = this.at;
    const match = pattern.exec(this.text);
    if (!match) return "";
    this.at += match[0].length;
    return match[0];
  }
}

function too_large() {
  return new Malformed(`larger than ${MAX_BYTES} bytes`);
}

function not_json() {
  return new Malformed("not JSON");
}
