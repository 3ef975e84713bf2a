// Reads exported traces with other people's packages, for export_viewers.py.
//
// usage: export_viewers.mjs SOURCE perfetto FILE: the packets as JSON, one a line
//        export_viewers.mjs SOURCE speedscope FILE: checks the file against speedscope's schema
// Exit 77 where a package is missing.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';

const [source, what, file] = process.argv.slice(2);
const require = createRequire(join(source, 'web/package.json'));

function load(name) {
  try {
    return require(name);
  } catch {
    console.log(`${name} is not installed; run \`npm ci\` in web/`);
    return process.exit(77);
  }
}

function printPackets() {
  const protobuf = load('protobufjs');
  const root = protobuf.parse(readFileSync(join(source, 'tests/data/perfetto.proto'), 'utf8'), {
    keepCase: true,
  }).root;
  const Trace = root.lookupType('Trace');
  const trace = Trace.decode(readFileSync(file));
  const lines = trace.packet.map((packet) =>
    JSON.stringify(
      root.lookupType('TracePacket').toObject(packet, { longs: String, enums: String, arrays: true }),
    ),
  );
  process.stdout.write(`${lines.join('\n')}\n`);
}

function checkSchema() {
  const Ajv = load('ajv');
  const manifest = require.resolve('speedscope/package.json');
  const path = join(dirname(manifest), 'dist/release/file-format-schema.json');
  const schema = JSON.parse(readFileSync(path, 'utf8'));
  const ajv = new (Ajv.default ?? Ajv)({ strict: false, allErrors: true });
  const valid = ajv.validate(schema, JSON.parse(readFileSync(file, 'utf8')));
  if (!valid) {
    console.error(JSON.stringify(ajv.errors?.slice(0, 5), null, 1));
    process.exit(1);
  }
}

if (what === 'perfetto') printPackets();
else if (what === 'speedscope') checkSchema();
else process.exit(2);
