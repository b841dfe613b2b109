// The TypeScript SDK's client: the package's name chooses its generation.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { mainJob, relay } from "./job.mjs";

const [name, clientEntry, stdioEntry] = process.argv.slice(2);
// Packages are looked up from the host's own environment, not from here.
const resolve = createRequire(`${process.cwd()}/package.json`).resolve;
const load = (entry) => import(pathToFileURL(resolve(entry)).href);

const { Client } = await load(clientEntry);
const { StdioClientTransport } = await load(stdioEntry);
const client = new Client({ name: "shomei-hosts", version: "1" });
await client.connect(new StdioClientTransport(relay));
const call = async (tool, params) =>
  (await client.callTool({ name: tool, arguments: { params } })).structuredContent;
const tools = (await client.listTools()).tools.map((tool) => tool.name);
const seen = await mainJob(tools, call);
await client.close();
const { readFileSync } = await import("node:fs");
const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
console.log(JSON.stringify({ versions: { [name]: version }, ...seen }));
