// Builds the page into dist/, or with --tests the unit tests into .tests/.
import { build } from 'esbuild';
import { copyFileSync, mkdirSync, readdirSync, rmSync } from 'node:fs';

if (process.argv.includes('--tests')) {
  rmSync('.tests', { recursive: true, force: true });
  await build({
    entryPoints: readdirSync('test').map((name) => `test/${name}`),
    outdir: '.tests',
    outExtension: { '.js': '.mjs' },
    bundle: true,
    platform: 'node',
    format: 'esm',
  });
} else {
  mkdirSync('dist', { recursive: true });
  await build({
    entryPoints: ['src/app.ts', 'src/app.css'],
    outdir: 'dist',
    bundle: true,
    minify: true,
    target: 'es2022',
    format: 'esm',
    legalComments: 'none',
    charset: 'utf8',
  });
  for (const name of ['index.html', 'icon.svg']) copyFileSync(`src/${name}`, `dist/${name}`);
}
