// The page in a real browser: open, zoom, hover, click an eviction, see its candidates; the sweep.
//
// usage: page.mjs DTRSCOPE SOURCE_DIRECTORY.  Exit 77, with the reason, where there is no browser.
// With DTRSCOPE_SHOTS set to a directory, screenshots are left there.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const SKIP = 77;
const BROWSERS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'];
const [binary, source] = process.argv.slice(2);

function skip(reason) {
  console.log(`skipped: ${reason}`);
  process.exit(SKIP);
}

async function loadPlaywright() {
  try {
    return createRequire(join(source, 'web/package.json'))('playwright-core');
  } catch {
    return skip('playwright-core is not installed; run `npm ci` in web/');
  }
}

const directory = mkdtempSync(join(tmpdir(), 'dtrscope-page-'));
const trace = join(source, 'tests/data/random/rnd8.log');
const run = join(directory, 'run.dtr.sqlite');
const sweep = join(directory, 'sweep.dtr.sqlite');

function makeFiles() {
  const quiet = { stdio: ['ignore', 'ignore', 'inherit'] };
  execFileSync(binary, ['sim', trace, '--budget', '60%', '--record', run], quiet);
  execFileSync(binary, ['sweep', trace, '--budgets', '20%..100%:20%', '-o', sweep], quiet);
}

/** The server and its address, once it has printed it. */
function serve() {
  const child = spawn(binary, ['serve', run, sweep, '--port', '0'], { stdio: ['ignore', 'pipe', 'ignore'] });
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (data) => {
      text += data;
      const address = text.match(/http:\S+\n/);
      if (address) resolve({ child, address: address[0].trim() });
    });
    child.on('exit', (code) => reject(new Error(`dtrscope serve ended with ${code}: ${text}`)));
  });
}

const shots = process.env.DTRSCOPE_SHOTS;
const shoot = async (page, name) => shots && page.screenshot({ path: join(shots, `${name}.png`) });

const windowOf = (page) => {
  const params = new URLSearchParams(new URL(page.url()).hash.slice(1));
  return params.has('t0') ? Number(params.get('t1')) - Number(params.get('t0')) : Infinity;
};

/** How many pixels of the n-th track are not its background. */
const ink = (page, n) => page.locator('.cell canvas').nth(n).evaluate((canvas) => {
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let painted = 0;
  for (let i = 3; i < data.length; i += 4) painted += data[i] > 0;
  return painted;
});

async function tokenLeavesTheAddress(page, address) {
  await page.goto(address);
  await page.getByText('run.dtr.sqlite').first().waitFor();
  assert.ok(!page.url().includes('token'), 'the token stays in the address');
  assert.equal(await page.evaluate('document.cookie'), '', 'scripts can read the cookie');
}

async function runIsDrawn(page) {
  await page.getByRole('link', { name: /rnd8/ }).first().click();
  await page.locator('.cell canvas').nth(3).waitFor();
  await page.waitForTimeout(500);
  for (let track = 0; track < 4; track++)
    assert.ok((await ink(page, track)) > 100, `track ${track} is blank`);
  await shoot(page, 'run');
}

async function wheelZoomsAndFitReturns(page) {
  const canvas = page.locator('.cell canvas').first();
  const box = await canvas.boundingBox();
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  await page.mouse.wheel(0, -400);
  await page.waitForTimeout(400);
  const zoomed = windowOf(page);
  assert.ok(zoomed < Infinity, 'the wheel does not zoom');
  await page.keyboard.press('w');
  await page.waitForTimeout(400);
  assert.ok(windowOf(page) < zoomed, 'w does not zoom in');
  await page.keyboard.press('f');
  await page.waitForTimeout(400);
  assert.ok(windowOf(page) > zoomed, 'f does not fit the run');
}

async function hoverTells(page) {
  const box = await page.locator('.cell canvas').first().boundingBox();
  await page.mouse.move(box.x + box.width / 3, box.y + box.height / 2);
  await page.mouse.move(box.x + box.width / 3 + 2, box.y + box.height / 2);
  const tip = page.getByRole('tooltip');
  await tip.waitFor();
  assert.match(await tip.innerText(), /\d (B|KiB|MiB|GiB)/, 'the tooltip names no size');
}

/** The first tick of evictions from the left, found by pointing. */
async function pointAtEviction(page) {
  const box = await page.locator('.cell canvas').nth(1).boundingBox();
  const y = box.y + box.height / 2;
  for (let x = 2; x < box.width; x += 4) {
    await page.mouse.move(box.x + x, y);
    const cursor = await page.locator('.cell canvas').nth(1).evaluate((c) => c.style.cursor);
    if (cursor === 'pointer') return { x: box.x + x, y };
  }
  return assert.fail('there is no eviction to point at');
}

async function evictionShowsItsCandidates(page) {
  const { x, y } = await pointAtEviction(page);
  await page.mouse.click(x, y);
  const panel = page.getByRole('complementary', { name: 'details' });
  await panel.getByText('Candidates').first().waitFor();
  const rows = await panel.locator('table').first().locator('tbody tr').allInnerTexts();
  assert.ok(rows.length >= 2, 'a decision without runners-up');
  assert.equal(rows.filter((row) => row.includes('evicted')).length, 1, 'not one candidate is marked');
  await page.waitForURL(/pick=decision/); // the address follows a moment later
  await shoot(page, 'eviction');
  await page.reload();
  await panel.getByText('Candidates').first().waitFor();
  await page.keyboard.press('Escape');
  await panel.waitFor({ state: 'hidden' });
}

async function searchFinds(page) {
  await page.keyboard.press('/');
  await page.keyboard.type('0');
  await page.locator('.found button').first().waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('complementary', { name: 'details' }).getByRole('heading').first().waitFor();
}

async function sweepIsDrawn(page, address) {
  await page.goto(`${address.split('#')[0]}#view=sweep&file=1`);
  await page.getByRole('heading', { name: 'Sweep' }).waitFor();
  await page.waitForTimeout(400);
  for (const summary of await page.locator('summary').all()) await summary.click();
  const table = page.getByRole('table', { name: /Slowdown by heuristic/ });
  assert.ok((await table.locator('tbody tr').count()) >= 10, 'heuristics are missing from the table');
  assert.match(await table.innerText(), /dtr-eq/);
  await shoot(page, 'sweep');
}

async function withoutTokenThereIsASentence(browser, address) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(address.split('#')[0]);
  await page.getByText(/token|dtrscope serve/).first().waitFor();
  await context.close();
}

async function main() {
  const executablePath = BROWSERS.find(existsSync) ?? skip('no Chromium');
  const { chromium } = await loadPlaywright();
  makeFiles();
  const { child, address } = await serve();
  child.removeAllListeners('exit');
  const browser = await chromium.launch({ executablePath, args: FLAGS });
  const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
  const complaints = [];
  page.on('pageerror', (error) => complaints.push(error.message));
  page.on('console', (message) => message.type() === 'error' && complaints.push(message.text()));
  page.setDefaultTimeout(15000);
  try {
    await tokenLeavesTheAddress(page, address);
    await runIsDrawn(page);
    await wheelZoomsAndFitReturns(page);
    await hoverTells(page);
    await evictionShowsItsCandidates(page);
    await searchFinds(page);
    await sweepIsDrawn(page, address);
    assert.deepEqual(complaints, [], 'the browser complained');
    await withoutTokenThereIsASentence(browser, address);
  } finally {
    await browser.close();
    child.kill('SIGINT');
    rmSync(directory, { recursive: true, force: true });
  }
  console.log('the page works');
}

await main();
