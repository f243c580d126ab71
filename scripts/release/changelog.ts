// Reads and changes the text of the changelog (src/manual/changelog.md, in the format of Keep a Changelog).

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
