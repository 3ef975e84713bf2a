// speedscope itself, in a browser, reads what `dtrscope export` writes for it, and Chrome's format,
// which it knows as well: it complains about nothing and adds up to what the events say.
//
// usage: export_viewers_app.mjs DTRSCOPE CHARLM SOURCE.  Exit 77, with the reason, where there is no
// browser.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, extname, join } from 'node:path';

const BROWSERS = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-background-networking'];
const TYPES = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };
const COMPLAINT = /tried to|still open|unrecognized|error|fail|invalid/i;
const UNITS = { ns: 1, 'µs': 1e3, ms: 1e6, s: 1e9 };
const [binary, charlm, source] = process.argv.slice(2);
const require = createRequire(join(source, 'web/package.json'));

function skip(reason) {
  console.log(`skipped: ${reason}`);
  process.exit(77);
}

function load(name) {
  try {
    return require(name);
  } catch {
    return skip(`${name} is not installed; run \`npm ci\` in web/`);
  }
}

const { chromium } = load('playwright-core');
load('speedscope/package.json');
const app = join(dirname(require.resolve('speedscope/package.json')), 'dist/release');
const executablePath = BROWSERS.find((path) => existsSync(path)) ?? skip('there is no browser');
const work = mkdtempSync(join(tmpdir(), 'dtrscope-app-'));
const recorded = join(work, 'run.dtr.sqlite');

function answer(request, response) {
  const path = new URL(request.url, 'http://localhost').pathname;
  const file = path.startsWith('/trace/') ? join(work, path.slice(7)) : join(app, path);
  if (!existsSync(file)) {
    response.writeHead(404).end();
    return;
  }
  response.writeHead(200, { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream' });
  response.end(readFileSync(file));
}

/** Nanoseconds of operator runs by name, from the events. */
function totals(wanted) {
  const sums = new Map();
  for (const line of execFileSync(binary, ['export', recorded, '--format', 'jsonl', '-o', '-'], {
    encoding: 'utf8',
    maxBuffer: 1 << 30,
  }).split('\n')) {
    const event = line ? JSON.parse(line) : {};
    if (event.event === 'operator_run' && wanted(event))
      sums.set(event.name, (sums.get(event.name) ?? 0) + event.dur_ns);
  }
  return sums;
}

/** What the table of the sandwich view says: [name, total in ns]. */
async function table(page, origin, file) {
  const complaints = [];
  const listen = (message) => {
    const text = message.text?.() ?? message.message;
    if (!text.includes('WebGL') && COMPLAINT.test(text)) complaints.push(text);
  };
  page.on('console', listen);
  page.on('pageerror', listen);
  await page.goto('about:blank');
  await page.goto(`${origin}/index.html#profileURL=${encodeURIComponent(`${origin}/trace/${file}`)}`);
  await page.getByText('Sandwich').click({ timeout: 60_000 });
  await page.getByText('Symbol Name').waitFor({ timeout: 60_000 });
  const text = await page.evaluate(() => document.body.innerText);
  page.off('console', listen);
  page.off('pageerror', listen);
  assert.deepEqual(complaints, []);
  const rows = text.matchAll(/([\d.]+)(ns|µs|ms|s) \([\d.<]+%\)\s+[\d.]+(?:ns|µs|ms|s) \([\d.<]+%\)\s+(\S.*)/g);
  return [...rows].map(([, value, unit, name]) => [name, Number(value) * UNITS[unit]]);
}

function compare(rows, sums) {
  assert.ok(rows.length >= 5, `few rows: ${JSON.stringify(rows)}`);
  for (const [name, total] of rows) {
    const wanted = sums.get(name);
    assert.ok(wanted !== undefined, `no operator is called ${name}`);
    assert.ok(Math.abs(total - wanted) <= wanted * 0.006 + 10, `${name}: ${total}, not ${wanted}`);
  }
}

const server = createServer(answer);
let browser;
try {
  execFileSync(binary, ['record', '--budget', '22MiB', '-o', recorded, '--', charlm, '--steps', '2'],
    { stdio: 'ignore' });
  for (const [format, file] of [['speedscope', 'a.json'], ['chrome', 'b.json']])
    execFileSync(binary, ['export', recorded, '--format', format, '-o', join(work, file)]);
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const origin = `http://127.0.0.1:${server.address().port}`;
  browser = await chromium.launch({ executablePath, args: FLAGS });
  const page = await browser.newPage();
  compare(await table(page, origin, 'a.json'), totals((run) => !run.replay));
  const iterations = await table(page, origin, 'b.json');
  assert.deepEqual(iterations.map(([name]) => name).sort(), ['iteration 0', 'iteration 1']);
} finally {
  await browser?.close();
  server.close();
  rmSync(work, { recursive: true });
}
console.log('speedscope reads both');
