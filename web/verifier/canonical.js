// RFC 8785 text of a parsed value: what a receipt hashes and signs. docs/spec/receipt.md §2.

function canonical(value) {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value instanceof Map) {
    const names = [...value.keys()].sort(); // by UTF-16 code units: RFC 8785 §3.2.3
    return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value.get(name))}`).join(",")}}`;
  }
  return JSON.stringify(value); // RFC 8785 §3.2.2 took its literals, strings and numbers from ECMAScript
}
