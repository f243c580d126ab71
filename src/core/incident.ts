// An incident: the start or the end of a failure state of an instance, which dq alerts about. helpOf() says
// what a person does about each kind: mails, /readyz and the API repeat it.

import type { JobKey, SettledAlert } from './job.ts';

export const incidentKinds = [
  'crash_loop',
  'given_up',
  'store',
  'redis',
  'late',
  'failing',
  'paused',
  'journal',
  'went_back',
] as const;

export interface LateJob extends JobKey {
  /** epoch ms */
  readonly dueAt: number;
}

/** The start or the end of a failure state. */
export interface Incident {
  /** rises with time, never used twice in a data directory */
  readonly id: number;
  readonly kind: (typeof incidentKinds)[number];
  /** the failing part where several can fail at once: a role, a server, a receiver, a topic; else '' */
  readonly about: string;
  readonly state: 'begun' | 'over';
  /** epoch ms by this machine's clock */
  readonly at: number;
  /** one sentence */
  readonly detail: string;
  /** of a start of late or held jobs: the one that was due first */
  readonly oldest?: LateJob;
  /** of a start: the topic to look at, if `oldest` does not name it */
  readonly topic?: string;
  /** of a start: delayed and ready jobs of the topics that it is about */
  readonly waiting?: number;
  /** of an end: when its start was recorded, epoch ms */
  readonly since?: number;
  readonly alert: SettledAlert;
  /** when the alert was sent; null before */
  readonly sentAt: number | null;
}

/** The incident of a daemon that the master ended because its workers did not stay alive. */
export const givenUp = { kind: 'given_up', about: '' } as const;
export const givenUpDetail = (reason: string): string => `the daemon has ended by itself: ${reason}`;

/** The failure states that have started and not ended. */
export function openIncidents(oldestFirst: readonly Incident[]): readonly Incident[] {
  const last = new Map(oldestFirst.map((incident) => [`${incident.kind} ${incident.about}`, incident]));
  return [...last.values()].filter(({ state }) => state === 'begun');
}

interface HelpCommand {
  readonly command: string;
  /** what the command does: the end of a sentence about it */
  readonly does: string;
}

export interface Help extends HelpCommand {
  /** further commands */
  readonly also?: readonly HelpCommand[];
  /** a sentence on the log files with the cause; absent: the command shows it */
  readonly logs?: string;
  /** path of the console's screen about it */
  readonly screen: readonly string[];
}

/** What a person runs who reads that a receiver fails. */
export const receiverCommands = (topic: string): readonly [HelpCommand, ...HelpCommand[]] => [
  { command: `dq explain ${topic}`, does: 'says what the receiver does, and what waits' },
  { command: `dq topic test ${topic}`, does: 'makes one call that changes no job' },
  { command: `dq topic pause ${topic}`, does: 'stops the calls' },
];

/** What a person runs and opens while the failure state lasts. */
export function helpOf({
  kind,
  about,
  oldest,
  topic,
}: Pick<Incident, 'kind' | 'about' | 'oldest' | 'topic'>): Help {
  switch (kind) {
    case 'crash_loop':
      return {
        command: 'dq status',
        does: 'shows the processes',
        logs: `the log files error-${about}-* have the cause`,
        screen: ['processes'],
      };
    case 'given_up':
      return {
        command: 'dq doctor',
        does: 'checks the machine and the configuration',
        logs: 'the log files error-master-* have the cause',
        screen: ['processes'],
      };
    case 'store':
      return { command: 'dq doctor', does: 'checks the store and its disk', screen: ['store'] };
    case 'redis':
      return { command: 'dq doctor', does: 'checks each Redis', screen: ['store'] };
    case 'late':
      return {
        command: `dq explain ${oldest?.topic ?? 'TOPIC'}`,
        does: 'says what holds the jobs of the topic',
        screen: ['topics', ...(oldest === undefined ? [] : [oldest.topic])],
      };
    case 'failing': {
      const [explain, ...also] = receiverCommands(topic ?? 'TOPIC');
      return { ...explain, also, screen: ['topics', ...(topic === undefined ? [] : [topic])] };
    }
    case 'paused':
      return { command: `dq topic resume ${about}`, does: 'lets dq call them', screen: ['topics', about] };
    case 'journal':
      return { command: 'dq journal', does: 'shows the spool, the lag and the instances', screen: ['store'] };
    case 'went_back':
      return { command: 'dq journal', does: 'shows the restore', screen: ['store'] };
  }
}
