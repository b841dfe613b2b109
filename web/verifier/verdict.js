// The verdict on one receipt. docs/spec/receipt.md §3 and §5.

// What Python's str.strip drops, so that a pin means the same to both verifiers.
const OUTER_SPACE =
  /^[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+|[\t-\r\x1c- \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+$/g;

// Return the verdict on a receipt given as text or as bytes. A pin of null is none; an empty pin is a pin.
// Throws only when the browser fails, never for what the receipt is.
async function verify(given, pin) {
  // 1. It must be readable as a receipt, the whole of it.
  let receipt;
  try {
    receipt = take_fields(parse(decode(given)));
  } catch (error) {
    if (!(error instanceof Malformed)) throw error;
    return refused(`${MALFORMED}: ${error.message}`);
  }
  const bytes = new TextEncoder().encode(canonical(receipt.body));
  return result_of(receipt, await reason_for(receipt, bytes, pin));
}

async function reason_for(receipt, bytes, pin) {
  // 2. A pin that was given must name its key.
  if (pin !== null && !pin_fits(pin, receipt.public_key_hex)) return PUBLIC_KEY_MISMATCH;
  // 3. Hash and signature must belong to the body.
  if ((await digest_of(bytes)) !== receipt.receipt_hash) return SIGNATURE_OR_HASH_INVALID;
  if (!(await signature_fits(bytes, receipt.signature_hex, receipt.public_key_hex))) {
    return SIGNATURE_OR_HASH_INVALID;
  }
  // 4. Only a pin tells who signed.
  return pin === null ? OK_UNPINNED : OK;
}

// Outer white space and upper case pass, nothing else.
function pin_fits(pin, public_key_hex) {
  return pin.replace(OUTER_SPACE, "").toLowerCase() === public_key_hex.toLowerCase();
}

function take_fields(envelope) {
  if (!(envelope instanceof Map)) throw new Malformed("not an object");
  for (const name of _LABELS) {
    if (typeof envelope.get(name) !== "string") throw new Malformed(`${name} is missing or not a string`);
  }
  if (!(envelope.get("body") instanceof Map)) throw new Malformed("body is missing or not an object");
  return Object.fromEntries([..._LABELS, "body"].map((name) => [name, envelope.get(name)]));
}

function result_of(receipt, reason) {
  const schema = receipt.body.get("schema");
  return {
    valid: reason === OK || reason === OK_UNPINNED,
    authenticated: reason === OK,
    reason,
    public_key_hex: is_key(receipt.public_key_hex) ? receipt.public_key_hex.toLowerCase() : "",
    schema: typeof schema === "string" ? schema : "", // the signed one, never the envelope's
    signer_id: receipt.signer_id,
    body: receipt.body,
    receipt_hash: receipt.receipt_hash,
  };
}

function refused(reason) {
  return {
    valid: false, authenticated: false, reason,
    public_key_hex: "", schema: "", signer_id: "", body: new Map(), receipt_hash: "",
  };
}
