// Makes a release of a clean tree: `npm run release 0.2.0`. Checks changelog and npm audit, writes date and
// version, runs .ci/run, commits and makes the tag; pushes nothing. `--notes VERSION` prints the section of a
// version. A failed check leaves the tree as it was.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { checkTree, Refusal, releaseChangelog, sectionOf } from './release/changelog.ts';

const root = join(import.meta.dirname, '..');
const changelog = 'src/manual/changelog.md';
const changed = [changelog, 'package.json', 'package-lock.json'];

/** Advisories about libraries that run, by their number (`GHSA-…`): why they do not concern dq. */
const accepted: Readonly<Record<string, string>> = {};

try {
  const { positionals, values } = parseArgs({
    allowPositionals: true,
    options: { notes: { type: 'string' } },
  });
  if (values.notes !== undefined) process.stdout.write(sectionOf(textOf(changelog), values.notes));
  else release(positionals[0] ?? '');
} catch (error) {
  if (!(error instanceof Refusal)) throw error;
  process.stderr.write(`release: ${error.message}\n`);
  process.exitCode = 1;
}

function release(version: string): void {
  if (!/^\d+\.\d+\.\d+$/.test(version)) throw new Refusal('name the version, as in npm run release 0.2.0');
  checkTree(version, (...args) => output('git', args));
  const today = new Date().toISOString().slice(0, 10);
  const text = releaseChangelog(textOf(changelog), version, today);
  checkAudit();
  try {
    writeFileSync(join(root, changelog), text);
    run('npm', ['version', version, '--no-git-tag-version', '--allow-same-version']);
    run('.ci/run', []);
  } catch (error) {
    run('git', ['restore', ...changed]);
    throw error;
  }
  run('git', ['commit', '-m', `Release ${version}`, ...changed]);
  run('git', ['tag', '-a', `v${version}`, '-m', `dq ${version}`]);
  process.stdout.write(`made the tag v${version}: git push --follow-tags publishes it\n`);
}

/** Throws for an advisory about a library that runs, unless `accepted` has a reason. */
function checkAudit(): void {
  const { stdout } = spawnSync('npm', ['audit', '--omit=dev', '--json'], { cwd: root, encoding: 'utf8' });
  const { vulnerabilities } = JSON.parse(stdout || '{}') as {
    vulnerabilities?: Record<string, { readonly via: readonly (string | { readonly url: string })[] }>;
  };
  if (vulnerabilities === undefined) throw new Refusal('npm audit does not answer');
  const urls = Object.values(vulnerabilities).flatMap(({ via }) =>
    via.flatMap((one) => (typeof one === 'string' ? [] : [one.url])),
  );
  const open = [...new Set(urls)].filter(
    (url) => accepted[url.slice(url.lastIndexOf('/') + 1)] === undefined,
  );
  if (open.length > 0)
    throw new Refusal(`npm audit: ${open.join(', ')}; update, or give a reason in scripts/release.ts`);
}

function textOf(path: string): string {
  return readFileSync(join(root, path), 'utf8');
}

function output(command: string, args: readonly string[]): string {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd: root, encoding: 'utf8' });
  if (status !== 0) throw new Refusal(`${command} ${args.join(' ')} fails: ${stderr}`);
  return stdout.trim();
}

function run(command: string, args: readonly string[]): void {
  const { status } = spawnSync(command, args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] });
  if (status !== 0) throw new Refusal(`${command} ${args.join(' ')} fails`);
}
