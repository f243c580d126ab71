// Judges the memory samples of a long run: the processes of a role must not grow.
import type { Event } from './history.ts';

/** With fewer samples a role says nothing: its heap is not yet warm. */
const samplesMin = 40;
/** A garbage collector may not have freed so much. */
const slackBytes = 48 * 2 ** 20;
const growthMax = 1.3;

/** Roles whose largest memory of the last quarter exceeds that of the second quarter. Killed processes begin
 *  small, so the largest sample of a quarter counts. */
export function grownRoles(events: readonly Event[]): readonly string[] {
  const samples = events.filter((event) => event.kind === 'memory');
  if (samples.length < samplesMin) return [];
  const quarter = Math.floor(samples.length / 4);
  const roles = new Set(samples.flatMap(({ bytes }) => Object.keys(bytes)));
  const largest = (role: string, from: number) =>
    Math.max(...samples.slice(from, from + quarter).map(({ bytes }) => bytes[role] ?? 0));
  return [...roles].flatMap((role) => {
    const [early, late] = [largest(role, quarter), largest(role, samples.length - quarter)];
    const mib = (bytes: number) => Math.round(bytes / 2 ** 20);
    return late > early * growthMax + slackBytes
      ? [`${role} has grown from ${mib(early)} to ${mib(late)} MiB`]
      : [];
  });
}
