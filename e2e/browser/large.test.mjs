// Promise: a page of 50 modules on 200 clusters is updated only where something has changed; the cost is printed.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { browser, end, started } from "./fleet.mjs";

const [MODULES, CLUSTERS] = [50, 200];

let chrome, fleet, url;

before(async () => {
  const { child, found } = started(process.env.LARGE, [], {}, /(http:\/\/\S+)/);
  fleet = child;
  url = await found;
  chrome = await browser();
});

after(async () => {
  await chrome?.close();
  if (fleet) await end(fleet);
});

/** Records the size of each patch, and the time until the page was laid out again. */
function note() {
  window.patches = [];
  const { addEventListener } = EventSource.prototype;
  EventSource.prototype.addEventListener = function (name, heard) {
    const noted = (message) => {
      const began = performance.now();
      heard(message);
      void document.body.offsetHeight;
      window.patches.push({ bytes: message.data.length, parts: JSON.parse(message.data).length, took: performance.now() - began });
    };
    addEventListener.call(this, name, name === "patch" ? noted : heard);
  };
}

const median = (numbers) => numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];

test("10,000 cells load, and only a changed cell is replaced", async () => {
  const page = await chrome.newPage();
  await page.addInitScript(note);
  const loads = [];
  let bytes = 0;
  for (let run = 0; run < 5; run += 1) {
    const began = performance.now();
    const answer = await page.goto(url);
    loads.push(performance.now() - began);
    bytes = (await answer.body()).length;
  }
  assert.equal(await page.locator('td[id^="cell:"]').count(), MODULES * CLUSTERS);

  // The first message includes unchanged parts around what changed since the page was loaded; later messages contain only changes.
  await page.waitForFunction(() => window.patches.length > 0, undefined, { timeout: 30000 });
  const changing = page.locator('td[id="cell:Module:module-7:cluster-100"]');
  await page.evaluate(() => {
    window.kept = [...document.querySelectorAll('td[id^="cell:"]')];
    window.patches.length = 0;
  });
  for (const glyph of ["✗", "●", "✗", "●", "✗"]) await changing.filter({ hasText: glyph }).waitFor({ timeout: 5000 });
  const { patches, replaced } = await page.evaluate(() => ({
    patches: window.patches,
    replaced: window.kept.filter((cell) => !cell.isConnected).map((cell) => cell.id),
  }));
  assert.deepEqual(replaced, ["cell:Module:module-7:cluster-100"]);
  assert.ok(patches.length >= 4, `${patches.length} patches`);
  for (const patch of patches) {
    assert.ok(patch.parts <= 8, `${patch.parts} parts of the page for one cell`);
    assert.ok(patch.bytes * 50 < bytes, `${patch.bytes} bytes of ${bytes} for one cell`);
  }
  console.log(`${MODULES} x ${CLUSTERS}: ${bytes} bytes load in ${Math.round(median(loads))} ms (median of ${loads.length}); a change of ${median(patches.map(({ bytes }) => bytes))} bytes is shown after ${median(patches.map(({ took }) => took)).toFixed(1)} ms (median of ${patches.length})`);
});
