// Rows of a Parquet or Arrow file as lines of JSON: first the names of the columns, then the pairs of
// metadata, then a line a row.
//
// usage: export_tables.mjs SOURCE hyparquet|duckdb|arrow FILE.  Exit 77 where the package is missing.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [source, reader, file] = process.argv.slice(2);
const require = createRequire(join(source, 'web/package.json'));

async function load(name, entry = '') {
  try {
    return entry ? await import(pathToFileURL(join(source, 'web/node_modules', name, entry))) : require(name);
  } catch {
    console.log(`skipped: ${name} is not installed; run \`npm ci\` in web/`);
    return process.exit(77);
  }
}

function cell(value) {
  if (value === null || value === undefined) return 'null';
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'number' && !Number.isFinite(value)) return JSON.stringify(String(value));
  return JSON.stringify(value);
}

function print(columns, metadata, rows) {
  const lines = [JSON.stringify(columns), JSON.stringify(metadata)];
  for (const row of rows) lines.push(`[${row.map(cell).join(',')}]`);
  process.stdout.write(`${lines.join('\n')}\n`);
}

async function hyparquet() {
  const { parquetMetadata, parquetReadObjects } = await load('hyparquet', 'src/index.js');
  const { compressors } = await load('hyparquet-compressors', 'src/index.js');
  const bytes = readFileSync(file);
  const buffer = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);
  const footer = parquetMetadata(buffer);
  const columns = footer.schema.slice(1).map((element) => element.name);
  const rows = footer.num_rows > 0n ? await parquetReadObjects({ file: buffer, compressors }) : [];
  const metadata = footer.key_value_metadata.map(({ key, value }) => [key, value]);
  print(columns, metadata, rows.map((row) => columns.map((name) => row[name])));
}

async function duckdb() {
  const { DuckDBInstance } = await load('@duckdb/node-api');
  const connection = await (await DuckDBInstance.create(':memory:')).connect();
  const name = file.replaceAll("'", "''");
  const all = await connection.runAndReadAll(`SELECT * FROM read_parquet('${name}')`);
  const pairs = await connection.runAndReadAll(
    `SELECT decode(key), decode(value) FROM parquet_kv_metadata('${name}')`);
  print(all.columnNames(), pairs.getRows(), all.getRows());
}

async function arrow() {
  const { tableFromIPC } = await load('apache-arrow');
  const table = tableFromIPC(readFileSync(file));
  const columns = table.schema.fields.map((field) => field.name);
  const rows = [];
  for (const row of table) rows.push(columns.map((name) => row[name]));
  print(columns, [...table.schema.metadata], rows);
}

await { hyparquet, duckdb, arrow }[reader]();
