// Promise: in a real browser, the pages of ClusterUpgrades and of in-place updates show the same as the command line, and follow the statuses
// of their objects. There is no rollout here: the test writes the statuses.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Fleet, accessible, browser, cells, narrow, printed } from "./fleet.mjs";

const PAGES = ["", "clusterupgrade/next", "clusterupgrade/next/on/dev-1", "cluster/dev-1", "machines"];
const TO = "v1.34.2";
const WAITS = "waits for MachineDeployment md-0: 2 of 3 machines at v1.34.2 <b>";

let fleet, chrome, page;

const status = (kind, status) =>
  fleet.kubectl("patch", kind, "--subresource=status", "--type=merge", "-p", JSON.stringify({ status }));

const upgraded = (updated, message) => {
  const groups = { UpToDate: updated, ...(message ? { Updating: ["dev-1"] } : {}) };
  const reasons = Object.entries(groups).filter(([, names]) => names.length > 0).map(([reason, names]) => ({ reason, count: names.length, clusters: names.join(",") }));
  return status("clusterupgrades/next", {
    observedGeneration: 1,
    summary: { total: 2, updated: updated.length, ready: updated.length, updating: 2 - updated.length, waiting: 0, failed: 0, skipped: 0, held: 0, withdrawing: 0, clusters: `${updated.length}/2` },
    reasons,
    attention: message ? [{ cluster: "dev-1", reason: "Updating", message }] : [],
  });
};

const machine = (name, state, step, message) => ({ name, uid: name, state, step, message, since: state === "Updated" ? undefined : "2026-01-01T00:00:00Z" });

before(async () => {
  const prepare = async (started) => {
    fleet = started;
    const crds = [await fleet.muster("crds", "--management", "--upgrades"), await fleet.muster("crds", "--machines")];
    const step = (updater) => ({ updater, acknowledgement: "Digest", deadline: "10m" });
    const objects = [
      { apiVersion: "fleet.muster.dev/v1alpha1", kind: "ClusterUpgrade", metadata: { name: "next" }, spec: { selector: {}, target: { kubernetes: TO } } },
      {
        apiVersion: "fleet.muster.dev/v1alpha1", kind: "UpdatePlan", metadata: { name: "web-1" },
        spec: { level: "MachineSet", source: "web-old", target: "web-new", from: "a", to: "b", steps: [step("kubelet"), { node: "Drain", deadline: "30m" }, step("image"), { node: "Uncordon", deadline: "10m" }], current: "{}", desired: "{}" },
      },
    ];
    await fleet.apply(crds.join("---\n"));
    await fleet.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd/clusterupgrades.fleet.muster.dev", "crd/updateplans.fleet.muster.dev");
    await fleet.apply(JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }));
    for (const name of ["dev-1", "eu-1"]) {
      const metadata = { annotations: { "fleet.muster.dev/upgrades": "muster" } };
      await fleet.kubectl("patch", `clusters/${name}`, "--type=merge", "-p", JSON.stringify({ metadata, spec: { topology: { classRef: { name: "c" }, version: TO } } }));
    }
    await upgraded(["eu-1"], WAITS);
    await status("updateplans/web-1", { updated: "1/2", machines: [machine("m1", "Updated", 4), machine("m2", "Updating", 1, "pods remaining on Node n2: 1: shop/web")] });
  };
  fleet = await Fleet.start({ flags: ["--clusters", "2"], prepare });
  chrome = await browser();
  page = await chrome.newPage();
});

after(async () => {
  await chrome?.close();
  await fleet?.end();
});

test("the matrix shows ClusterUpgrades as the command does", async () => {
  await page.goto(fleet.url);
  const shown = await cells(page);
  assert.ok(Object.keys(shown).includes("next dev-1"), Object.keys(shown).join(", "));
  assert.equal(shown["next dev-1"].glyph, "◐");
  assert.deepEqual(shown, await printed(fleet));
});

test("what a Cluster waits for is on its page as text, and disappears without a reload", async () => {
  await page.goto(new URL("clusterupgrade/next/on/dev-1", fleet.url).href);
  await page.getByText(WAITS).first().waitFor({ timeout: 5000 });
  await page.goto(fleet.url);
  await page.evaluate(() => { window.notReloaded = true; });
  await upgraded(["dev-1", "eu-1"]);
  await page.locator('td[id="cell:ClusterUpgrade:next:dev-1"]').filter({ hasText: "●" }).waitFor({ timeout: 5000 });
  assert.equal(await page.evaluate(() => window.notReloaded), true);
  assert.deepEqual(await cells(page), await printed(fleet));
});

test("a Machine whose update fails is named with the next command, without a reload", async () => {
  await page.goto(fleet.url);
  await page.getByRole("link", { name: "Machines" }).click();
  const row = (name) => page.locator("#updates tr", { has: page.getByRole("rowheader", { name }) });
  await row("m1").filter({ hasText: "Updated" }).waitFor({ timeout: 5000 });
  await row("m2").filter({ hasText: "2 of 4, drain of the Node" }).waitFor({ timeout: 5000 });
  assert.ok((await page.locator("#updates").textContent()).includes("1 of 2 machines are updated"));
  await page.evaluate(() => { window.notReloaded = true; });
  await status("updateplans/web-1", { updated: "1/2", machines: [machine("m1", "Updated", 4), machine("m2", "Failed", 2, "disk full")] });
  await row("m2").filter({ hasText: "disk full" }).waitFor({ timeout: 5000 });
  const next = "muster machines retry m2 -n default --reason REASON";
  assert.ok((await row("m2").textContent()).includes(next));
  assert.equal(await page.evaluate(() => window.notReloaded), true);
  const why = JSON.parse(await fleet.muster("why", "machine/m2", "-o", "json"));
  assert.equal(why.command, next);
});

for (const colorScheme of ["light", "dark"]) {
  test(`the pages are accessible: ${colorScheme}`, async () => {
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
