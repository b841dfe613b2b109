// The two checks on a canonical body: its hash and its ed25519 signature. docs/spec/receipt.md §5.
// WebCrypto solves the equation; what a lenient library would let pass is refused before it is asked.

const FIELD_PRIME = 2n ** 255n - 19n;
const GROUP_ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;

// The y coordinates of the eight points whose order divides 8, among them the neutral one.
const EIGHTH = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
const SMALL_ORDER = new Set([0n, 1n, FIELD_PRIME - 1n, EIGHTH, FIELD_PRIME - EIGHTH]);

const KEY_BYTES = 32;
const SIGNATURE_BYTES = 64;

// Return the receipt_hash of canonical bytes.
async function digest_of(bytes) {
  return "sha256:" + hex(new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
}

function is_key(text) {
  return unhex(text, KEY_BYTES) !== null;
}

// Tell whether the signature over the bytes is by the key, under the strict rule.
async function signature_fits(bytes, signature_hex, public_key_hex) {
  const signature = unhex(signature_hex, SIGNATURE_BYTES);
  const key = unhex(public_key_hex, KEY_BYTES);
  if (signature === null || key === null) return false;
  if (!is_strict_point(key) || !is_strict_signature(signature)) return false;
  let imported;
  try {
    imported = await crypto.subtle.importKey("raw", key, "Ed25519", false, ["verify"]);
  } catch (error) {
    if (error.name === "DataError") return false; // the bytes name no point
    throw error;
  }
  return crypto.subtle.verify("Ed25519", imported, signature, bytes);
}

function is_strict_signature(signature) {
  const r = signature.subarray(0, KEY_BYTES);
  const s = signature.subarray(KEY_BYTES);
  return is_strict_point(r) && number_of(s) < GROUP_ORDER;
}

// Tell whether the encoding is the canonical one, and not of a point of small order.
function is_strict_point(bytes) {
  const y = BigInt.asUintN(255, number_of(bytes)); // the last bit is the sign of x
  return y < FIELD_PRIME && !SMALL_ORDER.has(y);
}

function number_of(bytes) {
  return BigInt("0x" + hex(bytes.toReversed())); // little endian
}

function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// Return that many bytes, or null for anything but so many hex digits.
function unhex(text, size) {
  if (text.length !== 2 * size || !/^[0-9a-fA-F]*$/.test(text)) return null;
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}
