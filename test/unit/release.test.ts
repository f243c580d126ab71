// Tests what a release does with the changelog.
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkTree, releaseChangelog, sectionOf } from '../../scripts/release/changelog.ts';
import { testDirectory } from '../support/directory.ts';

const changelogOf = (unreleased: string) =>
  `# Changelog\n\nText.\n\n## [Unreleased]\n${unreleased}\n## [0.1.0] - 2026-01-02\n\nFirst version.\n\nSee also: [x](x.md)\n`;
const changes = '\n### Upgrade\n\nReload.\n\n### Added\n\n- A thing.\n';

describe('changelog', () => {
  it('released: the changes get version and date, and the next ones an empty section', () => {
    const text = releaseChangelog(changelogOf(changes), '0.2.0', '2026-02-03');
    expect(text).toContain(`## [Unreleased]\n\n## [0.2.0] - 2026-02-03\n${changes}`);
    expect(sectionOf(text, 'Unreleased')).toBe('\n');
    expect(sectionOf(text, '0.2.0')).toBe(changes.slice(1));
    expect(sectionOf(text, '0.1.0')).toBe('First version.\n');
  });

  it.each([
    ['', 'changelog: [Unreleased] is empty'],
    ['\n### Upgrade\n\nReload.\n', 'changelog: [Unreleased] is empty'],
    ['\n### Added\n\n- A thing.\n', 'changelog: [Unreleased] needs "### Upgrade"'],
    [changes.replace('Reload.', 'Nothing.'), 'changelog: [Unreleased] needs "### Upgrade"'],
  ])('not released: %j: %s', (unreleased, message) => {
    expect(() => releaseChangelog(changelogOf(unreleased), '0.2.0', '2026-02-03')).toThrow(message);
  });

  it.each([
    [['echo x > dirty', 'git add dirty'], 'the tree has changes'],
    [['git checkout -q -b topic'], 'this is topic; a release is made of main'],
    [['git checkout -q --detach'], 'this is a detached HEAD;'],
    [['git remote rename origin upstream'], 'there is no remote origin'],
    [['git tag v0.2.0'], 'the tag v0.2.0 exists'],
    [[], null],
  ])('the tree after %j: %j', (commands, message) => {
    const cwd = testDirectory();
    const options = { cwd, encoding: 'utf8' } as const;
    const commit = 'git -c user.name=a -c user.email=a@example.org commit -q --allow-empty -m first';
    for (const command of ['git init -q -b main', commit, 'git remote add origin .', ...commands])
      execFileSync('sh', ['-c', command], options);
    const check = () => checkTree('0.2.0', (...args) => execFileSync('git', args, options).trim());
    if (message === null) check();
    else expect(check).toThrow(message);
  });

  it('not released: a version that exists', () => {
    expect(() => releaseChangelog(changelogOf(changes), '0.1.0', '2026-02-03')).toThrow('[0.1.0] exists');
    expect(() => sectionOf(changelogOf(''), '0.3.0')).toThrow('[0.3.0] does not exist');
  });

  it('the one of dq has the sections that a release needs', () => {
    const root = join(import.meta.dirname, '../..');
    const text = readFileSync(join(root, 'src/manual/changelog.md'), 'utf8');
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string };
    expect(sectionOf(text, version)).toMatch(/^- /m);
    sectionOf(text, 'Unreleased');
  });
});
