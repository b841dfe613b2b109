// Hosts that need an account to call a tool: does what `connect` writes lead them to the relay?

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { relay } from "./job.mjs";

const modules = resolve("node_modules");
const hosts = {
  "claude-code": {
    distribution: "@anthropic-ai/claude-code",
    command: [`${modules}/@anthropic-ai/claude-code-linux-x64/claude`],
    connected: (said) => /^shomei-memory: .* Connected$/m.test(said),
  },
  gemini: {
    distribution: "@google/gemini-cli",
    command: [process.execPath, `${modules}/@google/gemini-cli/bundle/gemini.js`],
    connected: (said) => /shomei-memory: .* - Connected/.test(said),
  },
  // Codex lists what it has read and starts it only once somebody is logged in.
  codex: {
    distribution: "@openai/codex",
    command: [`${modules}/.bin/codex`],
    read: (said) => /shomei-memory .*-m shomei_memory_mcp\.server.* enabled/.test(said),
  },
};
const name = process.argv[2];
const host = hosts[name];
const home = mkdtempSync(join(tmpdir(), "host-"));
const env = {
  PATH: process.env.PATH,
  HOME: home,
  DISABLE_AUTOUPDATER: "1",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  GEMINI_CLI_TRUST_WORKSPACE: "true",
};

function run(program, words, more = {}) {
  const options = { cwd: join(home, "work"), env: { ...env, ...more }, encoding: "utf8" };
  const done = spawnSync(program, words, options);
  if (done.status !== 0) throw new Error(`${words[0]} ended with ${done.status}`);
  return done.stdout + done.stderr;
}

try {
  mkdirSync(join(home, "work"));
  run(relay.command, ["connect", name], relay.env);
  const [command, ...first] = host.command;
  let said = run(command, [...first, "mcp", "list"]);
  const seen = host.read ? { read: host.read(said) } : { connected: host.connected(said) };
  if (name === "claude-code") {
    // And the line of the README, as somebody would type it.
    run(command, ["mcp", "remove", "shomei-memory"]);
    const settings = ["SHOMEI_MCP_API_KEY", "SHOMEI_MCP_BASE_URL"].flatMap((each) => [
      "--env",
      `${each}=${relay.env[each]}`,
    ]);
    run(command, ["mcp", "add", "shomei-memory", ...settings, "--", relay.command]);
    said = run(command, ["mcp", "list"]);
    seen.connected = seen.connected && host.connected(said);
  }
  const { version } = JSON.parse(readFileSync(`${modules}/${host.distribution}/package.json`));
  console.log(JSON.stringify({ versions: { [host.distribution]: version }, ...seen }));
} finally {
  rmSync(home, { recursive: true });
}
