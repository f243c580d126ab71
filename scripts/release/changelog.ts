// Reads and changes the text of the changelog (src/manual/changelog.md, in the format of Keep a Changelog),
// and checks the tree that is to be released.

/** The reason why no release is made, in one line. */
export class Refusal extends Error {}

/** What an installation of the version before must do: the first line of *Upgrade*. */
const upgrades = /^### Upgrade\n\n(Reload|Restart|Restart all instances together)\b/m;

/** Gives the changes of [Unreleased] their version. Throws without changes, and without their *Upgrade*. */
export function releaseChangelog(text: string, version: string, date: string): string {
  const changes = sectionOf(text, 'Unreleased');
  if (!/^- /m.test(changes)) throw new Refusal('changelog: [Unreleased] is empty');
  if (!upgrades.test(changes))
    throw new Refusal(
      'changelog: [Unreleased] needs "### Upgrade", which begins with Reload, Restart or Restart all instances together',
    );
  if (text.includes(`## [${version}]`)) throw new Refusal(`changelog: [${version}] exists`);
  return text.replace('## [Unreleased]\n', `## [Unreleased]\n\n## [${version}] - ${date}\n`);
}

/** The text under the heading of a version. Throws if there is none. */
export function sectionOf(text: string, version: string): string {
  const [, after] = text.split(`\n## [${version}]`);
  if (after === undefined) throw new Refusal(`changelog: [${version}] does not exist`);
  const [section = ''] = after.slice(after.indexOf('\n')).split(/^(?:## |See also: )/m);
  return `${section.trim()}\n`;
}

/** Throws where the release could not be made or pushed. `git`: runs it and returns its output, trimmed. */
export function checkTree(version: string, git: (...args: readonly string[]) => string): void {
  if (git('status', '--porcelain') !== '') throw new Refusal('the tree has changes; commit them first');
  const branch = git('branch', '--show-current');
  if (branch !== 'main')
    throw new Refusal(`this is ${branch || 'a detached HEAD'}; a release is made of main`);
  if (!git('remote').split('\n').includes('origin'))
    throw new Refusal('there is no remote origin to push the tag to; add it with git remote add origin URL');
  if (git('tag', '--list', `v${version}`) !== '') throw new Refusal(`the tag v${version} exists`);
}
