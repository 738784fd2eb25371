// Promise: in a real browser, the pages of nodes show the same as the command line, follow a change node by node, and show what a node rejected.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Fleet, accessible, browser, cells, narrow, printed } from "./fleet.mjs";

const PAGES = ["nodes", "nodemodule/sysctl", "nodemodule/sysctl/on/worker-1", "node/worker-1", "node/worker-2"];

let fleet, chrome, page;

before(async () => {
  fleet = await Fleet.start({ flags: ["--nodes", "--clusters", "1"], ready: ["modules/nodes"], shown: "clusters/dev-1.kubeconfig" });
  chrome = await browser();
  page = await chrome.newPage();
});

after(async () => {
  await chrome?.close();
  await fleet?.end();
});

/** Commits a change of the NodeModule, and waits until it is in the cluster. */
const committed = async (generation, version, line) => {
  const [from, to] = [version - 1, version].map((minor) => `v1.${minor}.0`);
  await fleet.shell(`${line} && sed -i 's/tag: ${from}/tag: ${to}/' modules/nodes.yaml && git commit -qam 'sysctl ${to}' && git tag ${to}`);
  await fleet.kubectl("wait", `--for=jsonpath={.metadata.generation}=${generation}`, "--timeout=60s", "nodemodules/sysctl");
  await fleet.kubectl("wait", `--for=jsonpath={.status.observedGeneration}=${generation}`, "--timeout=60s", "nodemodules/sysctl");
  return (await fleet.kubectl("get", "nodemodules/sysctl", "-o", "jsonpath={.status.revision}")).slice(0, 8);
};

const cell = (node) => page.locator(`td[id="cell:NodeModule:sysctl:${node}"]`);

test("the matrix of nodes is the same as the command's", async () => {
  await page.goto(new URL("nodes", fleet.url).href);
  const shown = await cells(page);
  assert.equal(Object.keys(shown).length, 4);
  assert.deepEqual(shown, await printed(fleet, "--nodes"));
});

test("a change goes node by node on the page, without a reload", async () => {
  await page.goto(new URL("nodes", fleet.url).href);
  await page.evaluate(() => { window.notReloaded = true; });
  const revision = await committed(2, 1, "sed -i 's/262144/524288/' apps/nodes/sysctl.yaml");
  await fleet.muster("rollout", "status", "nodemodule/sysctl", "--timeout", "2m");
  for (const node of ["worker-1", "worker-2", "worker-3"]) {
    await cell(node).filter({ hasText: "●" }).filter({ hasText: revision }).waitFor({ timeout: 5000 });
  }
  assert.equal(await page.evaluate(() => window.notReloaded), true);
});

test("what a node rejects is named on each of its pages, and no other node is changed", async () => {
  const revision = await committed(3, 2, "sed -i 's!/etc/sysctl.d/90-fleet.conf!/etc/hosts!' apps/nodes/sysctl.yaml");
  await page.goto(new URL("nodes", fleet.url).href);
  await cell("worker-1").filter({ hasText: "✗" }).waitFor({ timeout: 30_000 });
  assert.deepEqual(await cells(page), await printed(fleet, "--nodes"));
  for (const node of ["worker-2", "worker-3"]) assert.ok(!(await cell(node).textContent()).includes(revision), node);
  await page.locator("#attention a.step", { hasText: "worker-1" }).click();
  await page.waitForURL(/nodemodule\/sysctl\/on\/worker-1/);
  for (const path of ["nodemodule/sysctl", "nodemodule/sysctl/on/worker-1", "node/worker-1"]) {
    await page.goto(new URL(path, fleet.url).href);
    await page.getByText("/etc/hosts").first().waitFor({ timeout: 5000 });
  }
});

test("text of a hold is shown as text, not markup", async () => {
  const hostile = "<img src=x onerror='window.hacked = 1'>";
  await fleet.muster("hold", "--node", "worker-2", "--reason", hostile);
  for (const path of ["nodes", "nodemodule/sysctl", "node/worker-2"]) {
    await page.goto(new URL(path, fleet.url).href);
    await page.getByText(hostile).first().waitFor({ timeout: 5000 });
    assert.equal(await page.locator("img").count(), 0, path);
    assert.equal(await page.evaluate(() => window.hacked), undefined, path);
  }
});

for (const colorScheme of ["light", "dark"]) {
  test(`the pages of nodes are accessible: ${colorScheme}`, async () => {
    const context = await chrome.newContext({ colorScheme, viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    for (const path of PAGES) {
      const answer = await page.goto(new URL(path, fleet.url).href);
      assert.equal(answer.status(), 200, path);
      await accessible(page, `${colorScheme} ${path}`);
    }
    await context.close();
  });
}

test("a narrow window does not scroll sideways", async () => {
  await narrow(chrome, fleet.url, PAGES);
});
