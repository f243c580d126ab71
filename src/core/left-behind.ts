// What a configuration leaves behind: jobs or topics in a store or registry that is not in force. dq-store
// finds it (compose/left-behind.ts). It is a warning of `dq start`, /readyz, dq doctor and the console. Codes
// are part of the API.

export const leftBehindCodes = ['jobs_db', 'registry_db', 'redis', 'mysql'] as const;

/** In `missing` of an answer: the jobs that have not moved to Redis. */
export const leavingName = 'jobs.db';

export interface LeftBehind {
  readonly code: (typeof leftBehindCodes)[number];
  /** one sentence, with the remedy */
  readonly text: string;
  /** by name: counts, names of servers */
  readonly values: Readonly<Record<string, number | string>>;
}

export interface RegistryCounts {
  readonly topics: number;
  readonly tokens: number;
  readonly schedules: number;
}

export const jobsOfFile = (jobs: number): LeftBehind => ({
  code: 'jobs_db',
  text: `jobs.db holds ${counted(jobs, 'job')}, which dq does not deliver while \`redis\` is set; dq move brings them to Redis`,
  values: { jobs },
});

export const registryOfFile = ({ topics, tokens, schedules }: RegistryCounts): LeftBehind => ({
  code: 'registry_db',
  text: `registry.db holds ${registryText({ topics, tokens, schedules })}, which are not in force while \`mysql.url\` is set; dq move brings them to a MySQL without topics; else move registry.db away`,
  values: { topics, tokens, schedules },
});

/** Their number is not known: only Redis has it. */
export const jobsOfRedis = (servers: string): LeftBehind => ({
  code: 'redis',
  text: `the registry lists ${servers}, whose jobs dq does not deliver while \`redis\` is not set; set it again, and dq restart`,
  values: { servers },
});

export const registryOfMysql = (server: string): LeftBehind => ({
  code: 'mysql',
  text: `the registry was in MySQL ${server}, whose topics and tokens are not in force while \`mysql.url\` is not set; set it again, or remove registry-copy.json`,
  values: { server },
});

export const registryText = ({ topics, tokens, schedules }: RegistryCounts): string =>
  `${counted(topics, 'topic')}, ${counted(tokens, 'token')}, ${counted(schedules, 'schedule')}`;

const counted = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? '' : 's'}`;
