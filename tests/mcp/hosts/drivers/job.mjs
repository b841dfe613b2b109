// The main job for hosts written in JavaScript; job.py says what it is.

export const word = process.env.SHOMEI_JOB_WORD;
export const pin = process.env.SHOMEI_JOB_PIN;
export const relay = {
  command: "shomei-memory-mcp",
  env: {
    PATH: process.env.PATH,
    SHOMEI_MCP_API_KEY: process.env.SHOMEI_MCP_API_KEY,
    SHOMEI_MCP_BASE_URL: process.env.SHOMEI_MCP_BASE_URL,
  },
};

export async function mainJob(tools, call) {
  const added = await call("add_memory", { messages: `the ${word} lamp`, user_id: "alice" });
  const result = added.results[0];
  const found = await call("search_memory", { query: word, user_id: "alice", limit: 5 });
  const verdict = await call("verify_receipt", {
    receipt: result.signed_receipt,
    expected_public_key_hex: pin,
  });
  const deleted = await call("delete_memory", { memory_id: result.id });
  const found_after = await call("search_memory", { query: word, user_id: "alice", limit: 5 });
  return { tools, added, found, verdict, deleted, found_after };
}
