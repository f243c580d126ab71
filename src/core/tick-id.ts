// The ids of jobs that schedules make. Each names its schedule and its instant.

/** The ends of jobs whose ids begin with it are kept for limits.tickHistoryMs also without a history: a
 *  process that takes over an instant looks for them. */
export const tickIdPrefix = 'schedule:';

export const isTickId = (id: string): boolean => id.startsWith(tickIdPrefix);

/** `at`: epoch ms of the instant */
export function tickId(name: string, at: number): string {
  return `${tickIdPrefix}${name}:${new Date(at).toISOString().replace('.000Z', 'Z')}`;
}
