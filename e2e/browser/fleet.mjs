// The test environment: a demo fleet, its dashboard, and a browser.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import http from "node:http";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { chromium } from "playwright-core";

const MUSTER = process.env.MUSTER;
const run = promisify(execFile);
const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const GLYPHS = { ready: "●", updating: "◐", waiting: "○", waitsForYou: "◆", failed: "✗", held: "" /* drawn */, unreachable: "?", notSelected: "·" };

/** Starts a process and waits until it prints a matching line; resolves to the first group of the match, or to the whole match. */
export function started(program, args, options, line) {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"], ...options });
  const found = new Promise((resolve, reject) => {
    let printed = "";
    child.stdout.on("data", (bytes) => {
      printed += bytes;
      const match = printed.match(line);
      if (match) resolve(match[1] ?? match[0]);
    });
    child.on("exit", (code) => reject(new Error(`${program} ${args.join(" ")} ended with ${code}:\n${printed}`)));
  });
  return { child, found };
}

/** Ends a process that was started here. */
export async function end(child) {
  // A process that was never started counts as ended.
  if (!child || child.exitCode !== null) return;
  const ended = new Promise((resolve) => child.on("exit", resolve));
  child.kill("SIGTERM");
  await ended;
}

/** A management plane with clusters, and a dashboard that uses its kubeconfig. */
export class Fleet {
  /** Takes flags of the demo, objects of its management cluster to wait for, a preparation that runs before the dashboard starts, and the kubeconfig for the dashboard. */
  static async start({ flags = [], ready = ["modules/podinfo", "modules/backup", "bootstrapmodules/base"], shown = "management.kubeconfig", prepare = async () => {} } = {}) {
    const fleet = new Fleet();
    fleet.directory = await mkdtemp(path.join(tmpdir(), "muster-browser-"));
    const demo = started(MUSTER, ["demo", "--seed", "1", "--dir", fleet.directory, ...flags], {}, /^ready$/m);
    fleet.demo = demo.child;
    await demo.found;
    fleet.env = { ...process.env, KUBECONFIG: path.join(fleet.directory, "management.kubeconfig") };
    await fleet.kubectl("wait", "--for=condition=Ready", "--timeout=120s", ...ready);
    await prepare(fleet);
    fleet.env.KUBECONFIG = path.join(fleet.directory, shown);
    const dashboard = started(MUSTER, ["dashboard", "--addr", "127.0.0.1:0"], { env: fleet.env }, /(http:\/\/[0-9.:]+\/)/);
    fleet.dashboard = dashboard.child;
    fleet.url = await dashboard.found;
    return fleet;
  }

  async kubectl(...args) {
    return (await run("kubectl", args, { env: this.env, maxBuffer: 1e8 })).stdout;
  }

  /** Applies manifests. */
  async apply(manifests) {
    const file = path.join(this.directory, "manifests.yaml");
    await writeFile(file, manifests);
    await this.kubectl("apply", "--server-side", "-f", file);
  }

  /** What the command prints, whatever its exit code. */
  async muster(...args) {
    try {
      return (await run(MUSTER, args, { env: this.env, maxBuffer: 1e8 })).stdout;
    } catch (error) {
      if (typeof error.code !== "number") throw error;
      return error.stdout;
    }
  }

  /** Runs a shell command in the work tree. */
  async shell(line) {
    await run("sh", ["-ec", line], { cwd: path.join(this.directory, "fleet"), env: this.env });
  }

  async end() {
    await end(this.dashboard);
    await end(this.demo);
    await rm(this.directory, { recursive: true, force: true });
  }
}

/** Forwards requests under a prefix, and can cut open connections. */
export class Proxy {
  static async start(target, prefix) {
    const proxy = new Proxy();
    proxy.sockets = new Set();
    proxy.requests = [];
    proxy.server = http.createServer((request, response) => {
      proxy.requests.push(`${request.method} ${request.url}`);
      if (proxy.isCut || !request.url.startsWith(prefix)) {
        response.writeHead(proxy.isCut ? 502 : 404).end();
        return;
      }
      const url = new URL(`/${request.url.slice(prefix.length)}`, target);
      const headers = { ...request.headers, host: url.host };
      const onward = http.request(url, { method: request.method, headers }, (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      });
      onward.on("error", () => response.destroy());
      response.on("close", () => onward.destroy());
      request.pipe(onward);
    });
    proxy.server.on("connection", (socket) => {
      proxy.sockets.add(socket);
      socket.on("close", () => proxy.sockets.delete(socket));
    });
    await new Promise((resolve) => proxy.server.listen(0, "127.0.0.1", resolve));
    proxy.url = `http://127.0.0.1:${proxy.server.address().port}${prefix}`;
    return proxy;
  }

  /** Rejects new requests, and closes open connections. */
  cut() {
    this.isCut = true;
    for (const socket of this.sockets) socket.destroy();
  }

  mend() {
    this.isCut = false;
  }

  async end() {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** A browser without a sandbox: it connects only to loopback. */
export function browser() {
  const args = ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"];
  return chromium.launch({ executablePath: process.env.CHROMIUM, args });
}

/** The cells of the matrix as the page shows them: `module cluster` to shape and version. */
export function cells(page) {
  return page.$$eval("#matrix td.cell", (all) =>
    Object.fromEntries(all.map((cell) => {
      const [, , module, cluster] = cell.id.split(":");
      return [`${module} ${cluster}`, { glyph: cell.textContent.trim()[0], version: cell.querySelector(".version")?.textContent ?? null }];
    })),
  );
}

/** The cells of the matrix as the command prints them. */
export async function printed(fleet, ...flags) {
  const { rows, columns } = JSON.parse(await fleet.muster("matrix", ...flags, "-o", "json"));
  const all = rows.flatMap((row) => row.cells.map((cell) => [`${row.module} ${cell.cluster}`, { glyph: GLYPHS[cell.shape], version: cell.version ?? null }]));
  assert.equal(new Set(all.map(([name]) => name)).size, rows.length * columns.length);
  return Object.fromEntries(all);
}

/** Fails if the page has a serious accessibility problem. */
export async function accessible(page, what) {
  await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const serious = violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  assert.deepEqual(serious.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`), [], what);
}

/** Fails if a page is wider than a narrow window. */
export async function narrow(chrome, url, paths) {
  const context = await chrome.newContext({ viewport: { width: 320, height: 640 } });
  const page = await context.newPage();
  for (const path of paths) {
    await page.goto(new URL(path, url).href);
    const [wide, there] = await page.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
    assert.ok(wide <= there, `${path}: ${wide} of ${there}`);
  }
  await context.close();
}
