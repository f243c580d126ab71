// The rule of mergeRows (core/job-change.ts) as an upsert: each part of a row is the maximum of its own
// order. MySQL sets columns from left to right, so a column that decides is set after those it decides about.

import type { JobKey } from '../../core/job.ts';
import { isEnded, type JobRow, type RowState } from '../../core/job-change.ts';
import { deadReasonCodes, priorityCodes } from '../../core/stored-codes.ts';

/** A value of a statement. */
export type SqlValue = string | number | null | Buffer;

/** Stored. */
const stateCodes: Readonly<Record<RowState, number>> = {
  waiting: 0,
  dead: 3,
  done: 4,
  cancelled: 5,
  purged: 6,
  expired: 7,
  none: 9,
};
const stateNames = new Map(Object.entries(stateCodes).map(([name, code]) => [code, name as RowState]));

const byStanding = [
  'version',
  'origin',
  'state',
  'order_at',
  'due_at',
  'failures',
  'reason',
  'place',
  'change_no',
];
const byBody = ['accepted_at', 'priority', 'content_type', 'extension'];
const columns = [
  'topic',
  'id',
  ...byStanding,
  'ended_origin',
  'alert_told',
  'body_origin',
  ...byBody,
  'body',
  'standing',
];

const greatest = (column: string) => `${column} = GREATEST(${column}, VALUES(${column}))`;
const when = (condition: string, column: string) =>
  `${column} = IF(${condition}, VALUES(${column}), ${column})`;

const assignments = [
  ...byStanding.map((column) => when('VALUES(standing) > standing', column)),
  greatest('ended_origin'),
  greatest('alert_told'),
  ...byBody.map((column) => when('VALUES(body_origin) > body_origin', column)),
  // The body of an origin that has ended goes, whatever arrives later.
  `body = IF(GREATEST(body_origin, VALUES(body_origin)) <= ended_origin, NULL,
    IF(VALUES(body_origin) > body_origin, VALUES(body), body))`,
  greatest('body_origin'),
  greatest('standing'),
].join(', ');

/** The statement for rows of different ids. */
export function upsertOf(rows: readonly JobRow[]): string {
  return `INSERT INTO dq_job (${columns.join(', ')}) VALUES ${rows.map(literalsOf).join(',')}
    ON DUPLICATE KEY UPDATE ${assignments}`;
}

function literalsOf(row: JobRow): string {
  const { topic, id, version, origin, state, orderAt, dueAt, failures, reason, place, number } = row;
  const reasonCode = reason === null ? 'NULL' : deadReasonCodes.indexOf(reason);
  return `(${textLiteral(topic)},${textLiteral(id)},${version},${origin},${stateCodes[state]},${orderAt},${dueAt},${failures},${reasonCode},${textLiteral(place)},${number},${row.endedOrigin},${row.alertTold},${row.bodyOrigin},${pushedOf(row)},${standingOf(row)})`;
}

function pushedOf({ pushed }: JobRow): string {
  if (pushed === null) return 'NULL,NULL,NULL,NULL,NULL';
  const { acceptedAt, priority, contentType, extension, body } = pushed;
  const type = contentType === null ? 'NULL' : textLiteral(contentType);
  const more = extension === null ? 'NULL' : bytesLiteral(extension);
  return `${acceptedAt},${priorityCodes.indexOf(priority)},${type},${more},${bytesLiteral(body)}`;
}

/** Orders as compareStanding does. */
function standingOf(row: JobRow): string {
  const { version, number, failures, orderAt } = row;
  const end = isEnded(row) ? '01' : '00';
  return `x'${hexOf(version, 7)}${end}${hexOf(number, 7)}${hexOf(failures, 2)}${hexOf(orderAt, 6)}'`;
}

/** Columns of a read; jobRowOf reads them. */
export const readColumns = columns.filter((column) => column !== 'standing').join(', ');
/** The same, where a body that is kept is empty. */
export const shortColumns = readColumns.replace(/ body$/, " IF(body IS NULL, NULL, x'') AS body");

/** A row as the driver returns it: bytes as buffers. */
export interface StoredRow {
  readonly topic: Buffer;
  readonly id: Buffer;
  readonly version: number;
  readonly origin: number;
  readonly state: number;
  readonly order_at: number;
  readonly due_at: number;
  readonly failures: number;
  readonly reason: number | null;
  readonly place: Buffer;
  readonly change_no: number;
  readonly ended_origin: number;
  readonly alert_told: number;
  readonly body_origin: number;
  readonly accepted_at: number | null;
  readonly priority: number | null;
  readonly content_type: Buffer | null;
  readonly extension: Buffer | null;
  readonly body: Buffer | null;
}

export function jobRowOf(row: StoredRow): JobRow {
  // One plain literal: spreads took five times as long, and a healing reads each job.
  return {
    topic: row.topic.toString(),
    id: row.id.toString(),
    version: row.version,
    origin: row.origin,
    number: row.change_no,
    place: row.place.toString(),
    state: stateNames.get(row.state) ?? 'none',
    orderAt: row.order_at,
    dueAt: row.due_at,
    failures: row.failures,
    reason: row.reason === null ? null : (deadReasonCodes[row.reason] ?? null),
    endedOrigin: row.ended_origin,
    alertTold: row.alert_told,
    bodyOrigin: row.body_origin,
    pushed: partsOf(row),
  };
}

function partsOf({ accepted_at: acceptedAt, priority, body, content_type, extension }: StoredRow) {
  if (body === null || acceptedAt === null || priority === null) return null;
  const contentType = content_type?.toString() ?? null;
  return { acceptedAt, priority: priorityCodes[priority] ?? 'low', contentType, extension, body };
}

export function keyOf({ topic, id }: Pick<StoredRow, 'topic' | 'id'>): JobKey {
  return { topic: topic.toString(), id: id.toString() };
}

export const stateCodeOf = (state: RowState): number => stateCodes[state];

// Values of the statements with up to 1,000 rows are literals: placeholders took more processor time than the
// rest of the recorder.

/** Printable ASCII without quote and backslash: the same bytes in each character set and SQL mode. */
const plain = /^[ -&(-[\]-~]*$/;

function bytesLiteral(bytes: Buffer): string {
  const text = bytes.toString('latin1');
  return plain.test(text) ? `'${text}'` : `x'${bytes.toString('hex')}'`;
}

/** For a column of bytes. */
export function textLiteral(text: string): string {
  return plain.test(text) ? `'${text}'` : `x'${Buffer.from(text).toString('hex')}'`;
}

/** For a column of characters. */
export function wordsLiteral(text: string): string {
  return plain.test(text) ? `'${text}'` : `_utf8mb4 x'${Buffer.from(text).toString('hex')}'`;
}

/** The number in so many bytes, as hexadecimal digits. At most 2^53. */
function hexOf(number: number, bytes: number): string {
  return number.toString(16).padStart(2 * bytes, '0');
}
