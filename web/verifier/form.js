// The form: a receipt and a pin go in, a sheet comes out. It never shows a verdict it did not reach.

const at = (id) => document.getElementById(id);

let held = null; // the bytes of a file; a text that is typed or pasted takes their place

// Hold at most one byte more than the cap: enough to be refused.
async function hold(file) {
  at("missing").textContent = "";
  try {
    held = new Uint8Array(await file.slice(0, MAX_BYTES + 1).arrayBuffer());
  } catch {
    let_go();
    at("missing").textContent = "This file cannot be read.";
    return;
  }
  at("text").value = "";
  at("held").replaceChildren("File: ", element("code", inert(file.name)), `, ${file.size} bytes`);
}

function let_go() {
  held = null;
  at("file").value = "";
  at("held").replaceChildren();
}

function hint() {
  const typed = at("pin").value.trim();
  const is_odd = typed && !is_key(typed);
  at("hint").textContent = is_odd
    ? `A pin is 64 digits 0 to 9 and a to f; this is ${typed.length} character(s). It will match no key.`
    : "";
  at("missing").textContent = "";
}

// Return what is missing before there is anything to judge.
function missing() {
  if (held === null && !at("text").value.trim()) return "There is no receipt yet.";
  if (!at("pin").value && !at("unpinned").checked) return "There is no pin yet; if you have none, say so above.";
  if (at("pin").value && at("unpinned").checked) return "There is a pin, and you say there is none.";
  return "";
}

async function check() {
  at("missing").textContent = missing();
  if (at("missing").textContent) return;
  at("check").disabled = true; // one question at a time
  try {
    show(await verify(held ?? at("text").value, at("unpinned").checked ? null : at("pin").value));
  } catch {
    give_up("It failed while it was checking.");
  } finally {
    at("check").disabled = false;
  }
}

function show(result) {
  const page = render(result);
  const now = utc(Math.floor(Date.now() / 1000));
  const note = element("p", `Checked in a browser with shomei-verify.html at ${now} by that computer's clock.`);
  note.className = "checked";
  at("sheet").replaceChildren(...blocks(page), note);
  document.title = page.slice(2, page.indexOf("\n")); // printers and file dialogs show it
  turn(true);
  at("sheet").focus();
  scrollTo(0, 0);
}

function again() {
  at("sheet").replaceChildren();
  document.title = "Check a receipt";
  at("text").value = "";
  let_go();
  turn(false);
  at("text").focus();
}

// Show the sheet instead of the form, or the form: a sheet never stands beside another receipt or pin.
function turn(is_given) {
  document.body.classList.toggle("given", is_given);
  at("form").hidden = is_given;
  at("done").hidden = at("sheet").hidden = !is_given;
}

function give_up(why) {
  at("why").textContent = why;
  at("unable").classList.add("certain");
  at("unable").hidden = false;
  at("form").hidden = true;
}

function listen() {
  const drop = (event) => {
    const has_file = event.dataTransfer.types.includes("Files");
    if (!has_file && event.target.matches("textarea, input")) return;
    event.preventDefault(); // what is dropped beside the form must not replace the page
    at("drop").classList.toggle("over", has_file && event.type === "dragover");
    if (has_file && event.type === "drop" && !at("form").hidden) hold(event.dataTransfer.files[0]);
  };
  for (const kind of ["dragover", "dragleave", "drop"]) document.addEventListener(kind, drop);
  at("file").addEventListener("change", () => at("file").files.length && hold(at("file").files[0]));
  at("text").addEventListener("input", let_go);
  for (const id of ["text", "pin", "unpinned"]) at(id).addEventListener("input", hint);
  at("form").addEventListener("submit", (event) => {
    event.preventDefault();
    check();
  });
  at("print").addEventListener("click", () => print());
  at("again").addEventListener("click", again);
}

// Resolves when the page is ready, or has said that it never will be.
const ready = inability().then((why) => {
  if (why) return give_up(why);
  listen();
  at("unable").hidden = true;
  at("form").hidden = false;
});
