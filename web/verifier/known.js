// Whether this browser may be trusted with a verdict: it must give known answers. docs/spec/receipt.md §5.

const ACCEPTED = {
  // RFC 8032 §7.1, test 2
  key: "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
  signature:
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da" +
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
  message: "72",
};
const COFACTORED = {
  // ed25519-speccheck, case 4: right only for a verifier that multiplies the equation by the cofactor
  key: "cdb267ce40c5cd45306fa5d2f29731459387dbf9eb933b7bd5aed9a765b88d4d",
  signature:
    "160a1cb0dc9c0258cd0a7d23e94d8fa878bcb1925f2c64246b2dee1796bed512" +
    "5ec6bc982a269b723e0668e540911a9a6a58921d6925e434ab10aa7940551a09",
  message: "e47d62c63f830dc7a6851a0b1f33ae4bb2f507fb6cffec4011eaccd55b53f56c",
};
const ABC = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"; // FIPS 180-4

// Return why this browser cannot verify, or an empty text.
async function inability() {
  if (!isSecureContext || !globalThis.crypto?.subtle) {
    return "It offers no cryptography to this page; opened as a file or over https, it should.";
  }
  try {
    const wrong = { ...ACCEPTED, message: "73" };
    const answers = [await answers_to(ACCEPTED), await answers_to(wrong), await answers_to(COFACTORED)];
    const hashes = (await digest_of(new TextEncoder().encode("abc"))) === ABC;
    if (hashes && answers.join() === "true,false,false" && "\ud800".isWellFormed() === false) return "";
    return "It gave a wrong answer to a known case.";
  } catch {
    return "It lacks what checking needs, such as ed25519 signatures.";
  }
}

function answers_to({ key, signature, message }) {
  return signature_fits(unhex(message, message.length / 2), signature, key);
}
