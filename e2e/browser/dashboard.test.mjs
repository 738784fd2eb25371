// Promise: in a real browser, the dashboard shows the same as the command line, live, also without scripts, and is read-only.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { Fleet, Proxy, accessible, browser, cells, narrow, printed } from "./fleet.mjs";

const SHOTS = process.env.SHOTS;

let fleet, chrome, context, page;
const asked = [];

before(async () => {
  fleet = await Fleet.start();
  chrome = await browser();
  context = await chrome.newContext({ viewport: { width: 1280, height: 900 } });
  context.on("request", (request) => asked.push(`${request.method()} ${request.url()}`));
  page = await context.newPage();
});

after(async () => {
  await chrome?.close();
  await fleet?.end();
});

const shot = async (page, name) => {
  // Full pages, except for the events, which are endless.
  if (SHOTS) await page.screenshot({ path: `${SHOTS}/${name}.png`, fullPage: !name.startsWith("activity") });
};

test("the matrix is the same as the command's", async () => {
  await page.goto(fleet.url);
  assert.deepEqual(await cells(page), await printed(fleet));
});

test("a rollout flips a cell without a reload, within two seconds of the cluster's report", async () => {
  await page.goto(fleet.url);
  await page.evaluate(() => { window.notReloaded = true; });
  await fleet.shell("sed -i 's/podinfo:6.0.0/podinfo:6.1.0/' apps/podinfo/deployment.yaml && sed -i 's/tag: v1.0.0/tag: v1.1.0/' modules/podinfo.yaml && git commit -qam 'podinfo 6.1.0' && git tag v1.1.0");
  // `muster` follows the same objects; the page is timed from its first output.
  await fleet.muster("rollout", "status", "module/podinfo", "--tag", "v1.1.0", "--timeout", "3m");
  const began = Date.now();
  const last = page.locator('td[id="cell:Module:podinfo:us-2"]');
  await last.filter({ hasText: "●" }).filter({ hasText: "v1.1.0" }).waitFor({ timeout: 2000 });
  console.log(`the last cell was right ${Date.now() - began} ms after the command had ended`);
  assert.equal(await page.evaluate(() => window.notReloaded), true);
});

test("a dropped stream is shown, and nothing is lost", async () => {
  const proxy = await Proxy.start(fleet.url, "/a/b/");
  const page = await context.newPage();
  await page.goto(proxy.url);
  await page.locator("#live.live").waitFor();
  proxy.cut();
  await page.locator("#live", { hasText: "reconnecting" }).waitFor({ timeout: 10_000 });
  await fleet.muster("hold", "us-1", "--reason", "while disconnected");
  await page.waitForTimeout(500);
  proxy.mend();
  await page.locator("#live.live").waitFor({ timeout: 20_000 });
  await page.locator('td.held[id="cell:Module:podinfo:us-1"]').waitFor({ timeout: 5_000 });
  await fleet.muster("release", "us-1");
  await page.locator('td[id="cell:Module:podinfo:us-1"]', { hasText: "●" }).waitFor({ timeout: 10_000 });
  await page.close();
  await proxy.end();
});

test("behind a prefix, every URL keeps it", async () => {
  const proxy = await Proxy.start(fleet.url, "/teams/blue/fleet/");
  const page = await context.newPage();
  await page.goto(proxy.url);
  await page.locator("#matrix th a", { hasText: "podinfo" }).first().click();
  await page.locator("h1").waitFor();
  await page.locator("nav a", { hasText: "Fleet" }).click();
  await page.locator("#matrix").waitFor();
  assert.ok(proxy.requests.length > 5);
  assert.deepEqual(proxy.requests.filter((request) => !request.includes(" /teams/blue/fleet/")), []);
  await page.close();
  await proxy.end();
});

test("filters survive a reload and going back", async () => {
  await page.goto(`${fleet.url}?q=podinfo`);
  const shown = await cells(page);
  assert.ok(Object.keys(shown).length > 0 && Object.keys(shown).every((name) => name.startsWith("podinfo ")), JSON.stringify(shown));
  await page.reload();
  assert.deepEqual(Object.keys(await cells(page)), Object.keys(shown));
  await page.locator("#matrix th a", { hasText: "podinfo" }).first().click();
  await page.locator("h1", { hasText: "podinfo" }).waitFor();
  await page.goBack();
  await page.locator("#matrix").waitFor();
  assert.deepEqual(Object.keys(await cells(page)), Object.keys(shown));
  assert.equal(await page.locator("#search").inputValue(), "podinfo");
});

test("text of objects is shown as text, not markup", async () => {
  const hostile = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>";
  await fleet.muster("hold", "module/backup", "--clusters", "eu-1", "--reason", hostile);
  for (const place of ["", "module/backup", "cluster/eu-1", "module/backup/on/eu-1", "activity"]) {
    await page.goto(new URL(place, fleet.url).href);
    await page.waitForTimeout(200);
    assert.equal(await page.evaluate(() => window.hacked), undefined, place);
    assert.equal(await page.locator("img").count(), 0, place);
  }
  await page.goto(new URL("module/backup", fleet.url).href);
  await page.getByText("<script>window.hacked = 1</script>").first().waitFor();
  await fleet.muster("release", "module/backup");
});

test("a failing version is found with the keyboard alone", async () => {
  await fleet.shell("sed -i 's/podinfo:6.1.0/podinfo:bad/' apps/podinfo/deployment.yaml && sed -i 's/tag: v1.1.0/tag: v1.2.0/' modules/podinfo.yaml && git commit -qam 'podinfo bad' && git tag v1.2.0");
  await fleet.muster("rollout", "status", "module/podinfo", "--tag", "v1.2.0", "--timeout", "3m");
  await page.goto(fleet.url);
  await page.locator("#attention", { hasText: "podinfo" }).waitFor();
  const names = [];
  for (let presses = 0; presses < 12 && !page.url().includes("/on/"); presses += 1) {
    await page.keyboard.press("j");
    const focused = await page.evaluate(() => document.activeElement.getAttribute("href") ?? "");
    names.push(focused);
    if (focused.includes("/on/dev-1")) {
      await page.keyboard.press("Enter");
      await page.waitForURL(/\/on\/dev-1/);
    }
  }
  assert.match(page.url(), /module\/podinfo\/on\/dev-1/, names.join(" "));
  await page.getByText("podinfo:bad").or(page.getByText("Deployment")).first().waitFor();
});

for (const scheme of ["light", "dark"]) {
  test(`the pages are accessible: ${scheme}`, async () => {
    const context = await chrome.newContext({ colorScheme: scheme, viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    const history = await fleet.muster("rollout", "history", "module/podinfo", "-o", "json");
    const revision = JSON.parse(history).revisions[0].revision.slice(0, 8);
    const pages = { fleet: "", module: "module/podinfo", revision: `module/podinfo/revision/${revision}`, cluster: "cluster/dev-1", object: "module/podinfo/on/dev-1", activity: "activity" };
    for (const [name, place] of Object.entries(pages)) {
      const answer = await page.goto(new URL(place, fleet.url).href);
      assert.equal(answer.status(), 200, place);
      await accessible(page, `${scheme} ${name}`);
      await shot(page, `${name}-${scheme}`);
    }
    await context.close();
  });
}

test("a narrow window does not scroll sideways", async () => {
  await narrow(chrome, fleet.url, ["", "module/podinfo", "cluster/dev-1", "activity"]);
});

test("without scripts the page is complete", async () => {
  const context = await chrome.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(fleet.url);
  assert.equal(await page.locator("#matrix td.cell").count(), 15);
  await page.locator("#matrix th a", { hasText: "podinfo" }).first().click();
  assert.match(await page.locator("h1").textContent(), /podinfo/);
  await context.close();
});

test("no request can write, and no other host is requested", async () => {
  for (const method of ["POST", "PUT", "PATCH", "DELETE"]) {
    for (const place of ["", "module/podinfo", "api/v1/matrix.json", "events"]) {
      const answer = await context.request.fetch(new URL(place, fleet.url).href, { method, data: "x" });
      assert.ok([404, 405].includes(answer.status()), `${method} ${place}: ${answer.status()}`);
    }
  }
  const others = asked.filter((request) => !/^GET http:\/\/127\.0\.0\.1:\d+\//.test(request));
  assert.deepEqual(others, []);
});
